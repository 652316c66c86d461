// SPDX-License-Identifier: Apache-2.0
// symbols/<hex id>.sym.zst, or .once.zst for a table that a collector asked for: one zstd skippable
// frame with the display name, then the compressed table. Any zstd reader sees the table alone.
#include "spool_state.h"

#include "common/file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#define KEPT_SUFFIX	".sym.zst"
#define ONCE_SUFFIX	".once.zst"
#define SKIPPABLE_MAGIC 0x184D2A50u
#define TABLE_BYTES_MAX (64u << 20)
#define TABLES_MAX	1024 // kernels and modules of a host, several kernel updates over
#define ONCE_MAX	64   // waiting to be sent
#define ONCE_BYTES_MAX	(64ull << 20)
#define NAME_BYTES	(FP_SPOOL_ID_MAX + sizeof(ONCE_SUFFIX))

void fp_spool_symbols_clear(struct fp_spool_symbols *symbols)
{
	fp_buf_free(&symbols->path);
	fp_buf_free(&symbols->bytes);
	symbols->id[0] = '\0';
}

static void hex_name(const uint8_t *id, size_t id_len, const char *suffix, char name[NAME_BYTES])
{
	for (size_t i = 0; i < id_len; i++)
		snprintf(name + 2 * i, 3, "%02x", id[i]);
	strcpy(name + 2 * id_len, suffix);
}

// The hex id of a file name, or false for names that are not ours.
static bool parse_name(const char *name, char ret_id[FP_SPOOL_ID_MAX], bool *ret_once)
{
	size_t digits = strspn(name, "0123456789abcdef");
	bool once = strcmp(name + digits, ONCE_SUFFIX) == 0;

	if (!digits || digits % 2 || digits >= FP_SPOOL_ID_MAX ||
	    (!once && strcmp(name + digits, KEPT_SUFFIX) != 0))
		return false;
	memcpy(ret_id, name, digits);
	ret_id[digits] = '\0';
	*ret_once = once;
	return true;
}

static int pack(const char *path, const char *text, size_t size, struct fp_buf *file)
{
	uint32_t head[2] = { htole32(SKIPPABLE_MAGIC), htole32((uint32_t)strlen(path)) };
	size_t bound = ZSTD_compressBound(size), got;

	fp_buf_append(file, head, sizeof(head));
	fp_buf_append(file, path, strlen(path));
	if (fp_buf_reserve(file, bound))
		return -ENOMEM;
	got = ZSTD_compress(file->data + file->len, bound, text, size, 3);
	if (ZSTD_isError(got))
		return -ENOMEM;
	file->len += got;
	return 0;
}

static int write_table(struct fp_spool *spool, const char *name, const char *path,
		       const struct fp_buf *text)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	int error = pack(path, (const char *)text->data, text->len, &file);

	return error ? error
		     : fp_file_write_durable(spool->symbols_fd, name, file.data, file.len,
					     FP_SPOOL_FILE_MODE);
}

struct census { // of the directory
	const struct fp_spool *spool;
	size_t kept, once;
	uint64_t once_bytes;
};

static int count_table(const char *name, void *context)
{
	struct census *census = context;
	char id[FP_SPOOL_ID_MAX];
	struct stat info;
	bool once;

	if (!parse_name(name, id, &once))
		return 0;
	census->kept += !once;
	census->once += once;
	if (once && fstatat(census->spool->symbols_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
		census->once_bytes += (uint64_t)info.st_size;
	return 0;
}

static bool has_file(const struct fp_spool *spool, const char *name)
{
	return faccessat(spool->symbols_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int fp_spool_put_symbols(struct fp_spool *spool, const uint8_t *id, size_t id_len, const char *path,
			 const char *text, size_t size)
{
	const struct fp_buf whole = { .data = (uint8_t *)(uintptr_t)text, .len = size };
	struct census census = { .spool = spool };
	char name[NAME_BYTES];
	int error;

	if (!id_len || id_len > FP_BUILD_ID_MAX || size > TABLE_BYTES_MAX)
		return -EINVAL;
	hex_name(id, id_len, KEPT_SUFFIX, name);
	if (has_file(spool, name))
		return 0;
	error = fp_spool_each_name(spool->symbols_fd, count_table, &census);
	if (error || census.kept >= TABLES_MAX)
		return error ? error : -ENOSPC;
	return write_table(spool, name, path, &whole);
}

bool fp_spool_has_symbols(const struct fp_spool *spool, const char *id)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s" KEPT_SUFFIX, id);
	if (has_file(spool, name))
		return true;
	snprintf(name, sizeof(name), "%s" ONCE_SUFFIX, id);
	return has_file(spool, name);
}

bool fp_spool_wanted_room(const struct fp_spool *spool)
{
	struct census census = { .spool = spool };

	return fp_spool_each_name(spool->symbols_fd, count_table, &census) == 0 &&
	       census.once < ONCE_MAX && census.once_bytes < ONCE_BYTES_MAX;
}

int fp_spool_put_wanted(struct fp_spool *spool, const struct fp_build *build, const char *path,
			const struct fp_buf *text)
{
	char name[NAME_BYTES];

	if (!build->id_len || build->id_len > FP_BUILD_ID_MAX || text->len > TABLE_BYTES_MAX)
		return -EINVAL;
	hex_name(build->id, build->id_len, ONCE_SUFFIX, name);
	return has_file(spool, name) ? 0 : write_table(spool, name, path, text);
}

bool fp_spool_sent_symbols(struct fp_spool *spool, const char *id)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s" ONCE_SUFFIX, id);
	return unlinkat(spool->symbols_fd, name, 0) == 0;
}

struct id_list {
	char **ids;
	size_t count;
};

static void id_list_free(struct id_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->ids[i]);
	free(list->ids);
}

static int add_id(const char *name, void *context)
{
	struct id_list *list = context;
	char id[FP_SPOOL_ID_MAX];
	char **grown;
	bool once;

	if (!parse_name(name, id, &once) || list->count >= TABLES_MAX + ONCE_MAX)
		return 0;
	grown = reallocarray(list->ids, list->count + 2, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->ids = grown;
	list->ids[list->count] = strdup(id);
	if (!list->ids[list->count])
		return -ENOMEM;
	list->ids[++list->count] = NULL;
	return 0;
}

int fp_spool_list_symbols(struct fp_spool *spool, char ***ret_ids)
{
	FP_CLEANUP(id_list_free) struct id_list list = { .ids = calloc(1, sizeof(char *)) };
	int error = list.ids ? 0 : -ENOMEM;

	if (!error)
		error = fp_spool_each_name(spool->symbols_fd, add_id, &list);
	if (error)
		return error;
	*ret_ids = fp_take_ptr(list.ids);
	list.count = 0;
	return 0;
}

static int read_file(const struct fp_spool *spool, const char *id, const char *suffix,
		     struct fp_buf *file)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s%s", id, suffix);
	return fp_file_read_at(spool->symbols_fd, name, TABLE_BYTES_MAX, file);
}

int fp_spool_read_symbols(struct fp_spool *spool, const char *id, struct fp_spool_symbols *ret)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	char name[NAME_BYTES], checked[FP_SPOOL_ID_MAX] = "";
	uint32_t head[2], path_size;
	bool once;
	int error;

	snprintf(name, sizeof(name), "%s" KEPT_SUFFIX, id);
	if (!parse_name(name, checked, &once))
		return -EINVAL;
	error = read_file(spool, checked, KEPT_SUFFIX, &file);
	if (error == -ENOENT)
		error = read_file(spool, checked, ONCE_SUFFIX, &file);
	if (error)
		return error;
	if (file.len < sizeof(head))
		return -EBADMSG;
	memcpy(head, file.data, sizeof(head));
	path_size = le32toh(head[1]);
	if (le32toh(head[0]) != SKIPPABLE_MAGIC || path_size > file.len - sizeof(head))
		return -EBADMSG;
	memcpy(ret->id, checked, sizeof(checked));
	fp_buf_append(&ret->path, file.data + sizeof(head), path_size);
	error = fp_buf_byte(&ret->path, 0);
	if (!error)
		error = fp_buf_append(&ret->bytes, file.data + sizeof(head) + path_size,
				      file.len - sizeof(head) - path_size);
	if (error)
		fp_spool_symbols_clear(ret);
	return error;
}
