// SPDX-License-Identifier: Apache-2.0
// The parameters that say what is looked at and how.
#include "view.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

#define DEFAULT_NODES 50000
#define MAX_NODES     1000000

static bool refuse(struct fp_response *response, const char *name, const char *cause)
{
	fp_response_error(response, MHD_HTTP_BAD_REQUEST, "bad_request", "parameter '%s': %s", name,
			  cause);
	return false;
}

static bool read_switch(const struct fp_request *request, const char *name, bool *value,
			struct fp_response *response)
{
	const char *text = fp_request_param(request, name);

	if (!text)
		return true;
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return refuse(response, name, "write 0 or 1");
	*value = text[0] == '1';
	return true;
}

static bool read_number(const struct fp_request *request, const char *name, uint32_t max,
			uint32_t *value, struct fp_response *response)
{
	const char *text = fp_request_param(request, name);
	char *end;
	unsigned long number;

	if (!text)
		return true;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || number < 1 || number > max) {
		fp_response_error(response, MHD_HTTP_BAD_REQUEST, "bad_request",
				  "parameter '%s': write a number from 1 to %u", name, max);
		return false;
	}
	*value = (uint32_t)number;
	return true;
}

static bool read_type(const struct fp_request *request, struct fp_view *view,
		      struct fp_response *response)
{
	const char *text = fp_request_param(request, "type");
	FP_AUTOBUF struct fp_buf names = { 0 };

	view->aspect = text ? fp_aspect_find(text) : fp_aspect_of(FP_PROFILE_CPU);
	if (view->aspect)
		return true;
	for (size_t i = 0; i < fp_aspects_count; i++)
		fp_buf_printf(&names, "%s%s",
			      i == 0			 ? "write "
			      : i + 1 < fp_aspects_count ? ", "
							 : " or ",
			      fp_aspects[i].name);
	return refuse(response, "type", names.error ? "unknown" : (char *)names.data);
}

static bool read_selector(const struct fp_request *request, struct fp_view *view,
			  struct fp_response *response)
{
	const char *text = fp_request_param(request, "selector");
	FP_AUTOBUF struct fp_buf error = { 0 };
	int r =
	    fp_selector_parse(text ? text : "", text ? strlen(text) : 0, &view->selector, &error);

	return r == 0 ||
	       refuse(response, "selector", error.len ? (char *)error.data : strerror(-r));
}

static bool read_range(const struct fp_request *request, struct fp_view *view,
		       struct fp_response *response)
{
	FP_AUTOBUF struct fp_buf error = { 0 };
	int r =
	    fp_time_range_parse(fp_request_param(request, "from"), fp_request_param(request, "to"),
				fp_realtime_ns(), &view->range, &error);

	return r == 0 || refuse(response, "from/to", (char *)error.data);
}

static bool read_root(const struct fp_request *request, struct fp_view *view,
		      struct fp_response *response)
{
	const char *text = fp_request_param(request, "root");

	if (!text || !*text || strcmp(text, "none") == 0)
		return true;
	if (strlen(text) > 128)
		return refuse(response, "root", "write none or the name of a label");
	view->root = strdup(text);
	return view->root || refuse(response, "root", "out of memory");
}

static bool read_format(const struct fp_request *request, struct fp_view *view,
			struct fp_response *response)
{
	const char *text = fp_request_param(request, "format");

	if (!text || strcmp(text, "json") == 0)
		return true;
	view->renderer = fp_renderer_find(text);
	view->pprof = strcmp(text, "pprof") == 0;
	return view->renderer ||
	       refuse(response, "format", "write json, folded, svg, table or pprof");
}

bool fp_view_parse(const struct fp_request *request, struct fp_view *ret_view,
		   struct fp_response *response)
{
	FP_AUTOVIEW struct fp_view view = { .kernel = true, .max_nodes = DEFAULT_NODES };

	if (!read_type(request, &view, response) || !read_selector(request, &view, response) ||
	    !read_range(request, &view, response) || !read_root(request, &view, response) ||
	    !read_format(request, &view, response) ||
	    !read_switch(request, "icicle", &view.icicle, response) ||
	    !read_switch(request, "raw", &view.raw, response) ||
	    !read_switch(request, "kernel", &view.kernel, response) ||
	    !read_switch(request, "download", &view.download, response) ||
	    !read_number(request, "width", 10000, &view.width_px, response) ||
	    !read_number(request, "rows", 100000, &view.rows, response) ||
	    !read_number(request, "max_nodes", MAX_NODES, &view.max_nodes, response)) {
		fp_collector_count(request->collector, QUERIES_BAD, 1);
		return false;
	}
	*ret_view = view;
	view = (struct fp_view){ 0 };
	return true;
}
