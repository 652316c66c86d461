// SPDX-License-Identifier: Apache-2.0
//
// http: the collector's front, on libmicrohttpd. One thread per connection, so that a slow
// client or a long query holds up nobody else. A request is matched to a row of the route
// table before its body is read; the body is bounded while it arrives; then the route's
// handler fills a response. Whatever is refused is answered with a JSON reason.
// Input: hostile. Ownership: the server owns its threads and connections.
#pragma once

#include "collector.h"

#include <microhttpd.h>

struct fp_route;

#define FP_PARAMS_MAX 32

struct fp_param {
	const char *name;
	const char *value;
};

struct fp_request {
	struct fp_collector *collector;
	struct MHD_Connection *connection; // for headers
	const struct fp_route *route;
	char *tail; // what the `*` of the route's path stands for
	struct fp_param params[FP_PARAMS_MAX];
	size_t params_count;
	struct fp_buf body;
};

struct fp_response {
	unsigned int status;
	const char *content_type; // NULL: application/json
	const char *security;	  // Content-Security-Policy; NULL: nothing may load
	const char *allow;	  // for 405
	unsigned int retry_after_s;
	bool authenticate;
	bool cacheable;
	char file_name[64]; // download under this name; "" = show
	char wanted[FP_SYMBOLS_WANTED_MAX * (2 * FP_BUILD_ID_MAX + 1)]; // X-Fleetprof-Wanted
	struct fp_buf body;
};

typedef int (*fp_handler)(struct fp_request *request, struct fp_response *response);

enum fp_body { FP_BODY_NONE, FP_BODY_BATCH, FP_BODY_SYMBOLS };

struct fp_route {
	const char *method;
	const char *path; // one `*` stands for one path segment
	fp_handler handler;
	enum fp_body body;
	bool ingest; // asks for the token, refuses browsers of other sites
	const char *help;
};

extern const struct fp_route fp_routes[];
extern const size_t fp_routes_count;
// The route, or NULL with the status (404 or 405) and, for 405, the methods allowed.
// *ret_tail is malloc'ed, or NULL.
const struct fp_route *fp_route_find(const char *method, const char *path, char **ret_tail,
				     struct fp_response *refusal);

const char *fp_request_param(const struct fp_request *request, const char *name);  // or NULL
const char *fp_request_header(const struct fp_request *request, const char *name); // or NULL
// Fills the response with {"error": code, "reason": …}; returns 0.
int fp_response_error(struct fp_response *response, unsigned int status, const char *code,
		      const char *format, ...) FP_PRINTF(4, 5);
// Appends "key":"value" with escaping.
void fp_json_member(struct fp_buf *json, const char *key, const char *value);
void fp_json_string(struct fp_buf *json, const char *value, size_t size);

struct fp_http_server;
int fp_http_start(struct fp_collector *collector, struct fp_http_server **ret_server,
		  struct fp_buf *error);
void fp_http_stop(struct fp_http_server *server); // finishes the requests that are running
// Disconnects clients that take longer than the setting to deliver a request.
void fp_http_reap(struct fp_http_server *server);
