// SPDX-License-Identifier: Apache-2.0
// symbols/<hex id>.sym.zst: one zstd skippable frame with the display name, then the
// compressed table. Any zstd reader sees the table alone.
#include "spool_state.h"

#include "common/file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#define SUFFIX		".sym.zst"
#define SKIPPABLE_MAGIC 0x184D2A50u
#define TABLE_BYTES_MAX (64u << 20)
#define TABLES_MAX	1024 // kernels and modules of a host, several kernel updates over
#define HEX_BYTES	(2 * (size_t)FP_BUILD_ID_MAX)
#define NAME_BYTES	(HEX_BYTES + sizeof(SUFFIX))

void fp_spool_symbols_clear(struct fp_spool_symbols *symbols)
{
	fp_buf_free(&symbols->path);
	fp_buf_free(&symbols->bytes);
	symbols->id[0] = '\0';
}

static void hex_name(const uint8_t *id, size_t id_len, char name[NAME_BYTES])
{
	for (size_t i = 0; i < id_len; i++)
		snprintf(name + 2 * i, 3, "%02x", id[i]);
	memcpy(name + 2 * id_len, SUFFIX, sizeof(SUFFIX));
}

// The hex id of a file name, or false for names that are not ours.
static bool parse_name(const char *name, char ret_id[HEX_BYTES + 1])
{
	size_t digits = strspn(name, "0123456789abcdef");

	if (!digits || digits % 2 || digits > HEX_BYTES || strcmp(name + digits, SUFFIX) != 0)
		return false;
	memcpy(ret_id, name, digits);
	ret_id[digits] = '\0';
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

int fp_spool_put_symbols(struct fp_spool *spool, const uint8_t *id, size_t id_len, const char *path,
			 const char *text, size_t size)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	char name[NAME_BYTES];
	char **ids = NULL;
	size_t count = 0;
	int error;

	if (!id_len || id_len > FP_BUILD_ID_MAX || size > TABLE_BYTES_MAX)
		return -EINVAL;
	hex_name(id, id_len, name);
	if (faccessat(spool->symbols_fd, name, F_OK, 0) == 0)
		return 0;
	error = fp_spool_list_symbols(spool, &ids);
	for (; !error && ids[count]; count++)
		free(ids[count]);
	free(ids);
	if (error || count >= TABLES_MAX)
		return error ? error : -ENOSPC;
	error = pack(path, text, size, &file);
	return error ? error
		     : fp_file_write_durable(spool->symbols_fd, name, file.data, file.len,
					     FP_SPOOL_FILE_MODE);
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
	char id[HEX_BYTES + 1];
	char **grown;

	if (!parse_name(name, id) || list->count >= TABLES_MAX)
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

int fp_spool_read_symbols(struct fp_spool *spool, const char *id, struct fp_spool_symbols *ret)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	char name[NAME_BYTES], checked[HEX_BYTES + 1] = "";
	uint32_t head[2], path_size;
	int error;

	snprintf(name, sizeof(name), "%s" SUFFIX, id);
	if (!parse_name(name, checked))
		return -EINVAL;
	error = fp_file_read_at(spool->symbols_fd, name, TABLE_BYTES_MAX, &file);
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
