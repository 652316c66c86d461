// SPDX-License-Identifier: Apache-2.0
#include "ship_server.h"

#include "common/hashmap.h"
#include "proto/slice.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

struct batch_key {
	uint8_t id[FP_BATCH_ID_LEN];
};

struct symbols_key {
	char id[96];
};

struct ship_server {
	struct MHD_Daemon *daemon;
	char url[64];
	pthread_mutex_t lock;
	struct fp_hashmap stored;  // batch_key → samples
	struct fp_hashmap symbols; // symbols_key → 1
	struct ship_seen seen;
	const char *script_path;
	struct ship_reply script;
	unsigned int script_times;
};

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned int status,
			     const char *body, const struct ship_reply *headers)
{
	size_t size = body ? strlen(body) : 0;
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (headers && headers->retry_after)
		MHD_add_response_header(response, "Retry-After", headers->retry_after);
	if (headers && headers->location)
		MHD_add_response_header(response, "Location", headers->location);
	if (headers && headers->wanted)
		MHD_add_response_header(response, "X-Fleetprof-Wanted", headers->wanted);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

// Decodes and keeps the batch; yields what a collector would say.
static const char *store(struct ship_server *server, struct MHD_Connection *connection,
			 const struct fp_buf *body)
{
	const char *header =
	    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Fleetprof-Batch-Id");
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct batch_key key;
	const char *reason;
	char hex[64] = "";
	bool fresh = false;
	uint64_t *samples;

	if (fp_batch_decode(body->data, body->len, &fp_batch_default_limits, &profile, &reason)) {
		server->seen.malformed++;
		return NULL;
	}
	fp_batch_id(profile, key.id);
	for (size_t i = 0; i < FP_BATCH_ID_LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", key.id[i]);
	server->seen.malformed += !header || strcmp(hex, header) != 0;
	samples = fp_hashmap_put(&server->stored, &key, &fresh);
	server->seen.duplicates += !fresh;
	if (fresh) {
		*samples = fp_profile_count(profile);
		server->seen.batches++;
		server->seen.samples += *samples;
	}
	return fresh ? "{\"status\":\"stored\"}" : "{\"status\":\"duplicate\"}";
}

static enum MHD_Result take_symbols(struct ship_server *server, struct MHD_Connection *connection,
				    const char *method, const char *id, const struct fp_buf *body)
{
	const char *path =
	    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Fleetprof-Path");
	struct symbols_key key = { { 0 } };
	size_t size;

	snprintf(key.id, sizeof(key.id), "%s", id);
	if (strcmp(method, "HEAD") == 0) {
		server->seen.heads++;
		return reply(connection, fp_hashmap_get(&server->symbols, &key) ? 200 : 404, NULL,
			     NULL);
	}
	server->seen.puts++;
	snprintf(server->seen.path_header, sizeof(server->seen.path_header), "%s",
		 path ? path : "");
	size = ZSTD_decompress(server->seen.symbols, sizeof(server->seen.symbols) - 1, body->data,
			       body->len);
	if (ZSTD_isError(size) || ZSTD_getFrameContentSize(body->data, body->len) != size)
		return reply(connection, 400, NULL, NULL);
	server->seen.symbols[size] = '\0';
	fp_hashmap_put(&server->symbols, &key, &(bool){ false });
	return reply(connection, 200, NULL, NULL);
}

static enum MHD_Result answer_locked(struct ship_server *server, struct MHD_Connection *connection,
				     const char *url, const char *method, const struct fp_buf *body)
{
	const char *token =
	    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
	const char *status;

	server->seen.requests++;
	snprintf(server->seen.token, sizeof(server->seen.token), "%s", token ? token : "");
	if (server->script_times &&
	    strncmp(url, server->script_path, strlen(server->script_path)) == 0) {
		server->script_times--;
		if (server->script.store_first)
			store(server, connection, body);
		return server->script.status ? reply(connection, server->script.status,
						     server->script.body, &server->script)
					     : MHD_NO;
	}
	if (strncmp(url, "/v1/symbols/", 12) == 0)
		return take_symbols(server, connection, method, url + 12, body);
	if (strcmp(url, "/v1/batches") != 0 || strcmp(method, "POST") != 0)
		return reply(connection, 404, NULL, NULL);
	status = store(server, connection, body);
	return reply(connection, status ? 200 : 400, status, NULL);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *data_size, void **request)
{
	struct ship_server *server = context;
	struct fp_buf *body = *request;
	enum MHD_Result result;

	if (!body) {
		*request = calloc(1, sizeof(*body));
		return *request ? MHD_YES : MHD_NO;
	}
	if (*data_size) {
		fp_buf_append(body, data, *data_size);
		*data_size = 0;
		return MHD_YES;
	}
	pthread_mutex_lock(&server->lock);
	result = answer_locked(server, connection, url, method, body);
	pthread_mutex_unlock(&server->lock);
	return result;
}

static void complete(void *context, struct MHD_Connection *connection, void **request,
		     enum MHD_RequestTerminationCode code)
{
	if (*request)
		fp_buf_free(*request);
	free(*request);
}

static void ignore_message(void *context, const char *format, va_list arguments) {}

struct ship_server *ship_server_start(void)
{
	struct ship_server *server = calloc(1, sizeof(*server));
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (!server)
		abort();
	pthread_mutex_init(&server->lock, NULL);
	server->stored = FP_HASHMAP_INIT(struct batch_key, uint64_t);
	server->symbols = FP_HASHMAP_INIT(struct symbols_key, uint64_t);
	server->daemon = MHD_start_daemon(
	    MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, server,
	    MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL, MHD_OPTION_SOCK_ADDR, &address,
	    MHD_OPTION_NOTIFY_COMPLETED, complete, NULL, MHD_OPTION_END);
	if (!server->daemon)
		abort();
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/",
		 MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	return server;
}

void ship_server_stop(struct ship_server *server)
{
	MHD_stop_daemon(server->daemon);
	fp_hashmap_free(&server->stored);
	fp_hashmap_free(&server->symbols);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

const char *ship_server_url(const struct ship_server *server)
{
	return server->url;
}

void ship_server_script(struct ship_server *server, const char *path, struct ship_reply reply_,
			unsigned int times)
{
	pthread_mutex_lock(&server->lock);
	server->script_path = path;
	server->script = reply_;
	server->script_times = times;
	pthread_mutex_unlock(&server->lock);
}

struct ship_seen ship_server_seen(struct ship_server *server)
{
	struct ship_seen seen;

	pthread_mutex_lock(&server->lock);
	seen = server->seen;
	pthread_mutex_unlock(&server->lock);
	return seen;
}

void ship_server_forget_symbols(struct ship_server *server)
{
	pthread_mutex_lock(&server->lock);
	fp_hashmap_clear(&server->symbols);
	pthread_mutex_unlock(&server->lock);
}
