// SPDX-License-Identifier: Apache-2.0
#include "handlers.h"

#include <string.h>

const struct fp_route fp_routes[] = {
	{ "POST", "/v1/batches", fp_handle_batch, FP_BODY_BATCH, true,
	  "Stores one batch of an agent." },
	{ "HEAD", "/v1/symbols/*", fp_handle_symbols_head, FP_BODY_NONE, true,
	  "Tells whether the symbol table of a build is here (200) or not (404)." },
	{ "PUT", "/v1/symbols/*", fp_handle_symbols_put, FP_BODY_SYMBOLS, true,
	  "Stores the symbol table of a build." },
	{ "GET", "/api/v1/query", fp_handle_query, FP_BODY_NONE, false,
	  "Merges a selection and shows it as json, folded, svg, table or pprof." },
	{ "GET", "/api/v1/quality", fp_handle_quality, FP_BODY_NONE, false,
	  "How far the profile of a selection can be trusted." },
	{ "GET", "/api/v1/builds", fp_handle_builds, FP_BODY_NONE, false,
	  "The builds in a selection, their samples and whether they have symbols." },
	{ "GET", "/api/v1/labels", fp_handle_labels, FP_BODY_NONE, false, "Names of labels." },
	{ "GET", "/api/v1/label/*/values", fp_handle_label_values, FP_BODY_NONE, false,
	  "Values of one label." },
	{ "GET", "/api/v1/hosts", fp_handle_hosts, FP_BODY_NONE, false,
	  "Hosts that sent batches, and when." },
	{ "GET", "/metrics", fp_handle_metrics, FP_BODY_NONE, false,
	  "The collector's own metrics in the Prometheus text format." },
	{ "GET", "/healthz", fp_handle_health, FP_BODY_NONE, false, "Answers while it runs." },
	{ "GET", "/readyz", fp_handle_ready, FP_BODY_NONE, false,
	  "200 when batches can be stored, else 503 and the reason." },
	{ "GET", "/", fp_handle_page, FP_BODY_NONE, false, "The page." },
	{ "GET", "/assets/*", fp_handle_asset, FP_BODY_NONE, false, "Parts of the page." },
};
const size_t fp_routes_count = FP_ARRAY_SIZE(fp_routes);

// Matches one `*` with a non-empty path segment, which is copied to *ret_tail.
static bool path_matches(const char *pattern, const char *path, char **ret_tail)
{
	const char *star = strchr(pattern, '*');
	size_t head, segment;

	if (!star)
		return strcmp(pattern, path) == 0;
	head = (size_t)(star - pattern);
	if (strncmp(pattern, path, head) != 0)
		return false;
	segment = strcspn(path + head, "/");
	if (segment == 0 || strcmp(path + head + segment, star + 1) != 0)
		return false;
	*ret_tail = strndup(path + head, segment);
	return *ret_tail != NULL;
}

static bool method_matches(const char *allowed, const char *method)
{
	// The server leaves the body out of an answer to HEAD.
	return strcmp(allowed, method) == 0 ||
	       (strcmp(allowed, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

// What a path that exists allows; the table has at most two methods for one path.
static const char *allowed_methods(const struct fp_route *route)
{
	if (route->handler == fp_handle_symbols_head || route->handler == fp_handle_symbols_put)
		return "HEAD, PUT";
	return strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method;
}

const struct fp_route *fp_route_find(const char *method, const char *path, char **ret_tail,
				     struct fp_response *refusal)
{
	const struct fp_route *other = NULL;

	for (size_t i = 0; i < fp_routes_count; i++) {
		FP_AUTOFREE char *tail = NULL;

		if (!path_matches(fp_routes[i].path, path, &tail))
			continue;
		if (method_matches(fp_routes[i].method, method)) {
			*ret_tail = fp_take_ptr(tail);
			return &fp_routes[i];
		}
		other = &fp_routes[i];
	}
	if (!other) {
		fp_response_error(refusal, MHD_HTTP_NOT_FOUND, "not_found",
				  "there is nothing at this path");
		return NULL;
	}
	fp_response_error(refusal, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed",
			  "this path takes %s", allowed_methods(other));
	refusal->allow = allowed_methods(other);
	return NULL;
}
