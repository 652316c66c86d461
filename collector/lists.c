// SPDX-License-Identifier: Apache-2.0
// What there is to select from: labels, their values, hosts.
#include "handlers.h"

#include <inttypes.h>
#include <string.h>

#define LIST_MAX 1000

struct list {
	struct fp_buf *json;
	size_t count;
};

static int add_text(const char *text, size_t size, void *context)
{
	struct list *list = context;

	if (list->count++)
		fp_buf_byte(list->json, ',');
	fp_json_string(list->json, text, size);
	return 0;
}

static int finish_list(struct list *list, int result)
{
	fp_buf_printf(list->json, "],\"truncated\":%s}\n",
		      list->count >= LIST_MAX ? "true" : "false");
	return result;
}

int fp_handle_labels(struct fp_request *request, struct fp_response *response)
{
	struct list list = { .json = &response->body };

	fp_buf_str(list.json, "{\"labels\":[");
	return finish_list(
	    &list, fp_store_label_names(request->collector->store, LIST_MAX, add_text, &list));
}

int fp_handle_label_values(struct fp_request *request, struct fp_response *response)
{
	const char *prefix = fp_request_param(request, "prefix");
	struct list list = { .json = &response->body };

	fp_buf_str(list.json, "{\"values\":[");
	return finish_list(&list,
			   fp_store_label_values(request->collector->store, request->tail,
						 prefix ? prefix : "", LIST_MAX, add_text, &list));
}

static int add_host(const struct fp_host *host, void *context)
{
	struct list *list = context;

	if (list->count++)
		fp_buf_byte(list->json, ',');
	fp_buf_byte(list->json, '{');
	fp_json_member(list->json, "host", host->name);
	fp_buf_str(list->json, ",\"host_id\":\"");
	for (int i = 0; i < 16; i++)
		fp_buf_printf(list->json, "%02x", host->host_id[i]);
	fp_buf_printf(list->json,
		      "\",\"first_s\":%" PRIu64 ",\"last_s\":%" PRIu64 ",\"batches\":%" PRIu64 "}",
		      host->first_ns / 1000000000, host->last_ns / 1000000000, host->batches);
	return 0;
}

int fp_handle_hosts(struct fp_request *request, struct fp_response *response)
{
	struct list list = { .json = &response->body };
	int r;

	fp_buf_str(list.json, "{\"hosts\":[");
	r = fp_store_hosts(request->collector->store, add_host, &list);
	fp_buf_str(list.json, "]}\n");
	return r;
}
