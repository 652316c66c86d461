// SPDX-License-Identifier: Apache-2.0
#include "symbolupload.h"

#include "symbolservice.h"

#include "common/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#define NAME_BYTES     (2 * FP_BUILD_ID_MAX + 5)
#define PATH_MAX_BYTES 4096
#define CHUNK_BYTES    131072
#define BLOCK_BYTES    4096ULL

static void file_name(const struct fp_build *build, char ret_name[NAME_BYTES])
{
	fp_build_id_print(build, ret_name);
	strcat(ret_name, ".sym");
}

bool fp_symbol_upload_exists(int dirfd, const uint8_t *id, size_t id_len)
{
	struct fp_build build = { .id_len = (uint8_t)id_len };
	char name[NAME_BYTES];

	if (id_len == 0 || id_len > FP_BUILD_ID_MAX)
		return false;
	memcpy(build.id, id, id_len);
	file_name(&build, name);
	return faccessat(dirfd, name, R_OK, 0) == 0;
}

int fp_symbol_upload_write(int dirfd, const struct fp_build *build, const char *path,
			   const void *bytes, size_t size)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	char name[NAME_BYTES];

	for (size_t i = 0; i < PATH_MAX_BYTES && path[i]; i++)
		fp_buf_byte(&file, iscntrl((unsigned char)path[i]) ? '?' : (uint8_t)path[i]);
	fp_buf_byte(&file, '\n');
	fp_buf_append(&file, bytes, size);
	if (file.error)
		return file.error;
	file_name(build, name);
	return fp_file_write_durable(dirfd, name, file.data, file.len, 0600);
}

// Whole blocks, so that a bound on bytes is one on the number of files as well.
static uint64_t in_blocks(uint64_t bytes)
{
	return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

uint64_t fp_symbol_upload_bytes(const char *path, size_t size)
{
	return in_blocks(strnlen(path, PATH_MAX_BYTES) + 1 + size);
}

uint64_t fp_symbol_upload_size(int dirfd, const struct fp_build *build)
{
	char name[NAME_BYTES];
	struct stat status;

	file_name(build, name);
	if (fstatat(dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return in_blocks((uint64_t)status.st_size);
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

int fp_symbol_upload_total(int dirfd, uint64_t *ret_bytes)
{
	FP_CLEANUP(close_dir) DIR *dir = NULL;
	const struct dirent *entry;
	uint64_t bytes = 0;
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		dir = fdopendir(fd);
	if (!dir) {
		int error = errno;

		fp_close_fd(&fd);
		return -error;
	}
	while ((entry = readdir(dir))) {
		struct stat status;

		if (fstatat(dirfd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(status.st_mode))
			bytes += in_blocks((uint64_t)status.st_size);
	}
	*ret_bytes = bytes;
	return 0;
}

int fp_symbol_upload_read(int dirfd, const struct fp_build *build, size_t max_bytes,
			  struct fp_buf *ret_text)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	const char *reason;
	const uint8_t *end;
	char name[NAME_BYTES];
	int r;

	file_name(build, name);
	// A compressed table is never larger than the text it stands for by more than this.
	r = fp_file_read_at(dirfd, name, max_bytes + max_bytes / 64 + PATH_MAX_BYTES + 1024, &file);
	if (r < 0)
		return r;
	end = file.len ? memchr(file.data, '\n', file.len) : NULL;
	if (!end)
		return -EBADMSG;
	end++;
	return fp_symbol_upload_decompress(end, (size_t)(file.data + file.len - end), max_bytes,
					   ret_text, &reason);
}

size_t fp_symbol_upload_inflated(const void *bytes, size_t size, size_t max_bytes)
{
	unsigned long long content = ZSTD_getFrameContentSize(bytes, size);

	// Both codes for "does not say" are larger than any limit.
	return content < max_bytes ? (size_t)content : max_bytes;
}

static void free_stream(ZSTD_DStream **stream)
{
	ZSTD_freeDStream(*stream);
}

// One chunk of output; *ret_more tells whether the frame goes on. Grows text as data comes,
// so that a small body which claims a large size costs nothing.
static int decompress_chunk(ZSTD_DStream *stream, ZSTD_inBuffer *input, size_t max_bytes,
			    struct fp_buf *text, bool *ret_more)
{
	ZSTD_outBuffer output;
	size_t r;

	if (fp_buf_reserve(text, CHUNK_BYTES) < 0)
		return -ENOMEM;
	output = (ZSTD_outBuffer){ .dst = text->data + text->len, .size = CHUNK_BYTES };
	r = ZSTD_decompressStream(stream, &output, input);
	if (ZSTD_isError(r))
		return -EBADMSG;
	text->len += output.pos;
	if (text->len > max_bytes)
		return -EMSGSIZE;
	*ret_more = r != 0;
	if (*ret_more && output.pos == 0 && input->pos == input->size)
		return -EBADMSG; // cut short
	return 0;
}

int fp_symbol_upload_decompress(const void *bytes, size_t size, size_t max_bytes,
				struct fp_buf *ret_text, const char **ret_reason)
{
	FP_CLEANUP(free_stream) ZSTD_DStream *stream = ZSTD_createDStream();
	ZSTD_inBuffer input = { .src = bytes, .size = size };
	bool more = true;
	int r = stream ? 0 : -ENOMEM;

	// A window beyond 8 MiB is not needed for text and would be allocated for.
	if (stream)
		ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 23);
	while (r == 0 && more)
		r = decompress_chunk(stream, &input, max_bytes, ret_text, &more);
	if (r == 0 && input.pos != input.size)
		r = -EBADMSG;
	if (r == -EBADMSG)
		*ret_reason = "the body is not one whole zstd frame";
	if (r == -EMSGSIZE)
		*ret_reason = "the table is larger than its limit after decompression";
	if (r == -ENOMEM)
		*ret_reason = "out of memory";
	return r;
}

// `<hex offset> <name>`, both at least one character.
static bool is_symbol_line(const char *line, size_t size)
{
	size_t digits = 0;

	while (digits < size && isxdigit((unsigned char)line[digits]))
		digits++;
	return digits > 0 && digits <= 16 && digits + 1 < size && line[digits] == ' ';
}

struct census {
	size_t lines, functions, ends; // the other lines are none of the format
};

static struct census count_lines(const struct fp_buf *text)
{
	const char *at = (const char *)text->data;
	struct census census = { 0 };
	size_t left = text->len;

	while (left > 0) {
		const char *newline = memchr(at, '\n', left);
		size_t size = newline ? (size_t)(newline - at) : left;

		census.lines++;
		if (is_symbol_line(at, size)) {
			bool is_end = memcmp(at + size - 2, " -", 2) == 0;

			census.ends += is_end;
			census.functions += !is_end;
		}
		size += newline != NULL;
		at += size;
		left -= size;
	}
	return census;
}

size_t fp_symbol_upload_functions(const struct fp_buf *text)
{
	return count_lines(text).functions;
}

int fp_symbol_upload_check(const struct fp_buf *text, const char **ret_reason)
{
	struct census census = count_lines(text);
	size_t good = census.functions + census.ends;

	if (good > census.lines - good || text->len == 0)
		return 0;
	*ret_reason = "the table is not made of '<hex offset> <name>' lines";
	return -EBADMSG;
}
