// SPDX-License-Identifier: Apache-2.0
#include "ship_symbols.h"
#include "ship_policy.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

#define RECHECK_NS (3600 * FP_NS_PER_S)

struct symbols_key {
	char id[2 * FP_BUILD_ID_MAX + 2];
};

void fp_ship_symbols_init(struct fp_ship_symbols *symbols)
{
	symbols->checked = FP_HASHMAP_INIT(struct symbols_key, uint64_t);
}

void fp_ship_symbols_free(struct fp_ship_symbols *symbols)
{
	fp_hashmap_free(&symbols->checked);
}

void fp_ship_symbols_forget(struct fp_ship_symbols *symbols)
{
	fp_hashmap_clear(&symbols->checked);
}

static bool is_due(const struct fp_ship_symbols *symbols, const struct symbols_key *key)
{
	const uint64_t *checked = fp_hashmap_get(&symbols->checked, key);

	return !checked || fp_boottime_ns() - *checked > RECHECK_NS;
}

static int mark_checked(struct fp_ship_symbols *symbols, const struct symbols_key *key)
{
	uint64_t *checked = fp_hashmap_put(&symbols->checked, key, &(bool){ false });

	if (!checked)
		return -ENOMEM;
	*checked = fp_boottime_ns();
	return 0;
}

// A path in a header line: bytes outside printable ASCII would end it or be misread.
static void path_header(const char *path, char *ret_header, size_t size)
{
	snprintf(ret_header, size, "X-Fleetprof-Path: %s", path);
	for (char *p = ret_header; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static void symbols_path(const char *id, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "/v1/symbols/%s", id);
}

static int put_table(struct fp_spool *spool, struct fp_ship_client *client, const char *id,
		     struct fp_ship_symbols_result *result)
{
	FP_CLEANUP(fp_spool_symbols_clear) struct fp_spool_symbols table = { 0 };
	char path[128], header[FP_STRING_MAX + 32];
	struct fp_ship_request request = { .method = "PUT", .path = path };
	int error = fp_spool_read_symbols(spool, id, &table);

	if (error)
		return error;
	symbols_path(id, path, sizeof(path));
	path_header((const char *)table.path.data, header, sizeof(header));
	request.headers[0] = "Content-Type: application/x-fleetprof-symbols+zstd";
	request.headers[1] = header;
	request.body = table.bytes.data;
	request.body_size = table.bytes.len;
	error = fp_ship_client_send(client, &request, &result->answer);
	if (error)
		return error;
	if (result->answer.status < 200 || result->answer.status > 299)
		return -EAGAIN;
	result->sent++;
	result->bytes += table.bytes.len;
	return 0;
}

static int ask_and_put(struct fp_spool *spool, struct fp_ship_client *client, const char *id,
		       struct fp_ship_symbols_result *result)
{
	char path[128];
	struct fp_ship_request request = { .method = "HEAD", .path = path };
	int error;

	symbols_path(id, path, sizeof(path));
	error = fp_ship_client_send(client, &request, &result->answer);
	if (error)
		return error;
	if (result->answer.status == 200)
		return 0;
	if (result->answer.status != 404)
		return -EAGAIN;
	fp_ship_answer_clear(&result->answer);
	return put_table(spool, client, id, result);
}

// A table that the collector will never take, or that is gone or damaged here, must not keep
// the others waiting: it counts as checked.
static bool passes_over(int error, const struct fp_ship_symbols_result *result)
{
	enum fp_ship_action action = fp_ship_rule_for(result->answer.status)->action;

	if (error == -EAGAIN)
		return action == FP_SHIP_REJECTED || action == FP_SHIP_TOO_LARGE;
	return error == -ENOENT || error == -EBADMSG || error == -EFBIG;
}

int fp_ship_symbols_pass(struct fp_ship_symbols *symbols, struct fp_spool *spool,
			 struct fp_ship_client *client, struct fp_ship_symbols_result *result)
{
	char **ids = NULL;
	int error = fp_spool_list_symbols(spool, &ids);

	for (size_t i = 0; !error && ids[i]; i++) {
		struct symbols_key key = { { 0 } };

		strncpy(key.id, ids[i], sizeof(key.id) - 1);
		if (!is_due(symbols, &key))
			continue;
		fp_ship_answer_clear(&result->answer);
		error = ask_and_put(spool, client, ids[i], result);
		// A table that was asked for has done its service. Should the collector lose it, it
		// asks again.
		if (!error || passes_over(error, result))
			error =
			    fp_spool_sent_symbols(spool, ids[i]) ? 0 : mark_checked(symbols, &key);
	}
	for (size_t i = 0; ids && ids[i]; i++)
		free(ids[i]);
	free(ids);
	return error;
}
