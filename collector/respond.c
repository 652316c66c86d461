// SPDX-License-Identifier: Apache-2.0
#include "respond.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

const char *fp_request_param(const struct fp_request *request, const char *name)
{
	for (size_t i = 0; i < request->params_count; i++)
		if (strcmp(request->params[i].name, name) == 0)
			return request->params[i].value ? request->params[i].value : "";
	return NULL;
}

const char *fp_request_header(const struct fp_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

void fp_json_string(struct fp_buf *json, const char *value, size_t size)
{
	fp_buf_byte(json, '"');
	fp_buf_json(json, value, size);
	fp_buf_byte(json, '"');
}

void fp_json_member(struct fp_buf *json, const char *key, const char *value)
{
	fp_buf_printf(json, "\"%s\":", key);
	fp_json_string(json, value, strlen(value));
}

int fp_response_error(struct fp_response *response, unsigned int status, const char *code,
		      const char *format, ...)
{
	FP_AUTOFREE char *reason = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&reason, format, args) < 0)
		reason = NULL;
	va_end(args);
	fp_buf_clear(&response->body);
	response->status = status;
	response->content_type = NULL;
	fp_buf_byte(&response->body, '{');
	fp_json_member(&response->body, "error", code);
	fp_buf_byte(&response->body, ',');
	fp_json_member(&response->body, "reason", reason ? reason : "out of memory");
	fp_buf_str(&response->body, "}\n");
	return 0;
}

// Takes the same time wherever the first difference is.
static bool is_token(const char *token, const char *given)
{
	size_t size = strlen(token), given_size = strlen(given);
	unsigned char difference = size != given_size;

	for (size_t i = 0; i < size; i++)
		difference |= (unsigned char)(token[i] ^ given[given_size ? i % given_size : 0]);
	return difference == 0;
}

static bool has_token(const struct fp_request *request)
{
	static const char scheme[] = "Bearer ";
	const char *header = fp_request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);

	if (!*request->collector->token)
		return true;
	return header && strncasecmp(header, scheme, sizeof(scheme) - 1) == 0 &&
	       is_token(request->collector->token, header + sizeof(scheme) - 1);
}

bool fp_request_admit(struct fp_request *request, struct fp_response *response)
{
	struct fp_collector *collector = request->collector;

	if (!request->route->ingest)
		return true;
	// Only browsers send Origin: a page on another site must not store batches through a
	// visitor who can reach this collector.
	if (fp_request_header(request, "Origin")) {
		fp_collector_count(collector, REQUESTS_REFUSED_ORIGIN, 1);
		fp_response_error(response, MHD_HTTP_FORBIDDEN, "forbidden",
				  "this path is for agents, not for browsers");
		return false;
	}
	if (has_token(request))
		return true;
	fp_collector_count(collector, REQUESTS_REFUSED_TOKEN, 1);
	fp_response_error(response, MHD_HTTP_UNAUTHORIZED, "unauthorized",
			  "the bearer token is missing or wrong");
	response->authenticate = true;
	return false;
}

static void add_headers(struct MHD_Response *mhd, const struct fp_response *response)
{
	char text[128];

	MHD_add_response_header(mhd, MHD_HTTP_HEADER_CONTENT_TYPE,
				response->content_type ? response->content_type
						       : "application/json");
	MHD_add_response_header(mhd, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(mhd, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(mhd, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(mhd, "Content-Security-Policy",
				response->security ? response->security
						   : "default-src 'none'; frame-ancestors 'none'");
	MHD_add_response_header(mhd, MHD_HTTP_HEADER_CACHE_CONTROL,
				response->cacheable ? "no-cache" : "no-store");
	if (response->allow)
		MHD_add_response_header(mhd, MHD_HTTP_HEADER_ALLOW, response->allow);
	if (response->authenticate)
		MHD_add_response_header(mhd, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					"Bearer realm=\"fleetprof\"");
	if (response->retry_after_s) {
		snprintf(text, sizeof(text), "%u", response->retry_after_s);
		MHD_add_response_header(mhd, MHD_HTTP_HEADER_RETRY_AFTER, text);
	}
	if (response->wanted[0])
		MHD_add_response_header(mhd, "X-Fleetprof-Wanted", response->wanted);
	if (response->file_name[0]) {
		snprintf(text, sizeof(text), "attachment; filename=\"%s\"", response->file_name);
		MHD_add_response_header(mhd, MHD_HTTP_HEADER_CONTENT_DISPOSITION, text);
	}
}

enum MHD_Result fp_respond(struct MHD_Connection *connection, struct fp_response *response)
{
	size_t size = response->body.len;
	char *body = fp_buf_take(&response->body);
	struct MHD_Response *mhd;
	enum MHD_Result result;

	if (!body)
		size = 0;
	mhd = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
	if (!mhd) {
		free(body);
		return MHD_NO;
	}
	add_headers(mhd, response);
	result =
	    MHD_queue_response(connection, response->status ? response->status : MHD_HTTP_OK, mhd);
	MHD_destroy_response(mhd);
	return result;
}
