// SPDX-License-Identifier: Apache-2.0
#include "elfident.h"

#include "elfhandle.h"

#include <endian.h>
#include <errno.h>
#include <sha2.h>
#include <string.h>
#include <sys/stat.h>

#define GO_BUILD_ID_TYPE 4 // of a note whose owner is "Go"
#define GO_TEXT_MAX	 1024
#define GO_ID_SIZE	 20
#define HASHED_END	 4096
#define HASH_ID_SIZE	 16

static void set_id(struct fp_build *build, enum fp_build_kind kind, const uint8_t *id, size_t size)
{
	build->kind = (uint8_t)kind;
	build->id_len = (uint8_t)size;
	memset(build->id, 0, sizeof(build->id));
	if (size > 0)
		memcpy(build->id, id, size);
}

static bool gnu_identity(const struct fp_elf *elf, struct fp_build *build)
{
	uint8_t id[FP_ELF_ID_MAX];
	size_t size = fp_elf_build_id(elf, id);

	_Static_assert(FP_ELF_ID_MAX <= FP_BUILD_ID_MAX, "an id fits a build");
	if (size > 0)
		set_id(build, FP_BUILD_GNU, id, size);
	return size > 0;
}

// Bazel gives this one to everything it builds.
static bool is_placeholder(const struct fp_elf_bytes *text)
{
	static const char redacted[] = "redacted";

	return text->size == strlen(redacted) && memcmp(text->bytes, redacted, text->size) == 0;
}

static bool go_identity(const struct fp_elf *elf, struct fp_build *build)
{
	static const struct fp_elf_note_kind kind = { "Go", GO_BUILD_ID_TYPE, GO_TEXT_MAX };
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct fp_elf_bytes text;
	SHA2_CTX sha;

	if (!fp_elf_note(elf, &kind, &text) || is_placeholder(&text))
		return false;
	SHA256Init(&sha);
	SHA256Update(&sha, text.bytes, text.size);
	SHA256Final(digest, &sha);
	set_id(build, FP_BUILD_GO, digest, GO_ID_SIZE);
	return true;
}

static int hash_piece(SHA2_CTX *sha, int fd, uint64_t offset, size_t size)
{
	uint8_t bytes[HASHED_END];
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, bytes + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO; // it shrinks under our hands
		done += (size_t)got;
	}
	SHA256Update(sha, bytes, size);
	return 0;
}

static int hash_identity(int fd, struct fp_build *build)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	uint64_t length, length_be;
	struct stat info;
	SHA2_CTX sha;
	size_t piece;
	int error;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (info.st_size == 0) { // all empty files are alike
		set_id(build, FP_BUILD_NONE, NULL, 0);
		return 0;
	}
	length = (uint64_t)info.st_size;
	length_be = htobe64(length);
	piece = length < HASHED_END ? (size_t)length : HASHED_END;
	SHA256Init(&sha);
	error = hash_piece(&sha, fd, 0, piece);
	if (!error)
		error = hash_piece(&sha, fd, length - piece, piece);
	if (error)
		return error;
	SHA256Update(&sha, (const uint8_t *)&length_be, sizeof(length_be));
	SHA256Final(digest, &sha);
	set_id(build, FP_BUILD_HASH, digest, HASH_ID_SIZE);
	return 0;
}

static int check_regular(int fd)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	return S_ISREG(info.st_mode) ? 0 : -EINVAL;
}

int fp_elf_identify(int fd, struct fp_build *ret_build)
{
	FP_AUTOELF struct fp_elf *elf = NULL;
	int error = check_regular(fd);

	if (!error)
		error = fp_elf_open(fd, &elf);
	if (error && error != -ENOEXEC)
		return error;
	if (elf && (gnu_identity(elf, ret_build) || go_identity(elf, ret_build)))
		return 0;
	return hash_identity(fd, ret_build);
}

// *ret_found's kind stays FP_BUILD_NONE when the file has no id of that kind.
static int identity_of_kind(int fd, uint8_t kind, struct fp_build *ret_found)
{
	FP_AUTOELF struct fp_elf *elf = NULL;
	int error;

	if (kind == FP_BUILD_HASH)
		return hash_identity(fd, ret_found);
	error = fp_elf_open(fd, &elf);
	if (error)
		return error == -ENOEXEC ? 0 : error;
	if (kind == FP_BUILD_GNU)
		gnu_identity(elf, ret_found);
	else if (kind == FP_BUILD_GO)
		go_identity(elf, ret_found);
	return 0;
}

int fp_elf_is_build(int fd, const struct fp_build *build, bool *ret_same)
{
	struct fp_build found = { .kind = FP_BUILD_NONE };
	int error = check_regular(fd);

	if (!error)
		error = identity_of_kind(fd, build->kind, &found);
	if (error)
		return error;
	*ret_same = found.kind != FP_BUILD_NONE && found.kind == build->kind &&
		    found.id_len == build->id_len && found.id_len > 0 &&
		    memcmp(found.id, build->id, found.id_len) == 0;
	return 0;
}
