// SPDX-License-Identifier: Apache-2.0
#include "http.h"

#include "connections.h"
#include "respond.h"

#include "common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

// Request line and headers; selectors are at most 4 KiB, three times that in a URL.
#define HEADER_BYTES (32 * 1024)
// A body beyond its limit is still read, this far, so that the client sees the answer
// instead of a reset.
#define DRAIN_BYTES (64ULL * 1024 * 1024)

struct fp_http_server {
	struct fp_collector *collector;
	struct MHD_Daemon *daemon;
	struct fp_connections connections;
};

// One request on its way, from its headers to its answer.
struct exchange {
	struct fp_request request;
	struct fp_response response;
	struct fp_connection *connection;
	uint64_t body_limit;
	uint64_t received;
	uint64_t reserved; // of collector->inflight_bytes
	bool decided;	   // the response is filled, the rest of the body is drained
};

static void release_memory(struct exchange *exchange)
{
	__atomic_sub_fetch(&exchange->request.collector->inflight_bytes, exchange->reserved,
			   __ATOMIC_RELAXED);
	exchange->reserved = 0;
	fp_buf_free(&exchange->request.body);
}

static bool reserve_memory(struct exchange *exchange, size_t bytes)
{
	struct fp_collector *collector = exchange->request.collector;
	uint64_t used = __atomic_add_fetch(&collector->inflight_bytes, bytes, __ATOMIC_RELAXED);

	exchange->reserved += bytes;
	return used <= collector->config.max_inflight_bytes;
}

static enum MHD_Result add_param(void *context, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	struct fp_request *request = context;

	if (request->params_count < FP_PARAMS_MAX)
		request->params[request->params_count] = (struct fp_param){ name, value };
	request->params_count++;
	return MHD_YES;
}

static uint64_t body_limit(const struct fp_collector *collector, enum fp_body body)
{
	switch (body) {
	case FP_BODY_BATCH:
		return collector->config.max_batch_bytes;
	case FP_BODY_SYMBOLS:
		return collector->config.max_symbol_bytes;
	case FP_BODY_NONE:
		break;
	}
	return 0;
}

static void refuse_size(struct exchange *exchange)
{
	struct fp_collector *collector = exchange->request.collector;

	fp_collector_count(collector, REQUESTS_REFUSED_SIZE, 1);
	if (exchange->request.route->body == FP_BODY_BATCH)
		fp_collector_count(collector, BATCHES_TOO_LARGE, 1);
	release_memory(exchange);
	fp_response_error(&exchange->response, MHD_HTTP_CONTENT_TOO_LARGE, "too_large",
			  "the body is larger than the limit of %llu bytes",
			  (unsigned long long)exchange->body_limit);
	exchange->decided = true;
}

// Decides from the headers alone where that is possible.
static void begin(struct exchange *exchange, const char *method, const char *path)
{
	struct fp_request *request = &exchange->request;
	const char *length;

	request->route = fp_route_find(method, path, &request->tail, &exchange->response);
	if (!request->route) {
		if (exchange->response.status == MHD_HTTP_METHOD_NOT_ALLOWED)
			fp_collector_count(request->collector, REQUESTS_REFUSED_METHOD, 1);
		else
			fp_collector_count(request->collector, REQUESTS_REFUSED_PATH, 1);
		exchange->decided = true;
		return;
	}
	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_param, request);
	if (request->params_count > FP_PARAMS_MAX) {
		request->params_count = 0;
		fp_response_error(&exchange->response, MHD_HTTP_BAD_REQUEST, "bad_request",
				  "more than %d query parameters", FP_PARAMS_MAX);
		exchange->decided = true;
		return;
	}
	exchange->decided = !fp_request_admit(request, &exchange->response);
	exchange->body_limit = body_limit(request->collector, request->route->body);
	length = fp_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
	if (!exchange->decided && length && strtoull(length, NULL, 10) > exchange->body_limit)
		refuse_size(exchange);
}

// MHD_NO: the client sends without end and is cut off.
static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t size)
{
	exchange->received += size;
	if (exchange->received > exchange->body_limit + DRAIN_BYTES)
		return MHD_NO;
	if (exchange->decided)
		return MHD_YES;
	if (exchange->received > exchange->body_limit) {
		refuse_size(exchange);
		return MHD_YES;
	}
	if (reserve_memory(exchange, size) &&
	    fp_buf_append(&exchange->request.body, data, size) == 0)
		return MHD_YES;
	fp_collector_count(exchange->request.collector, REQUESTS_REFUSED_MEMORY, 1);
	release_memory(exchange);
	fp_response_error(&exchange->response, MHD_HTTP_SERVICE_UNAVAILABLE, "busy",
			  "too many request bodies are being received at once");
	exchange->response.retry_after_s = 5;
	exchange->decided = true;
	return MHD_YES;
}

static void run_handler(struct exchange *exchange)
{
	int r = exchange->request.route->handler(&exchange->request, &exchange->response);

	if (r == 0 && exchange->response.body.error == 0)
		return;
	fp_buf_free(&exchange->response.body);
	fp_response_error(&exchange->response, MHD_HTTP_INTERNAL_SERVER_ERROR, "internal", "%s",
			  strerror(r < 0 ? -r : ENOMEM));
}

// A client that waits for "100 Continue" has not sent its body: it is answered at once.
static bool may_answer_early(const struct exchange *exchange)
{
	return exchange->decided &&
	       fp_request_header(&exchange->request, MHD_HTTP_HEADER_EXPECT) != NULL;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	struct fp_http_server *server = context;
	struct exchange *exchange = *state;

	if (!exchange) {
		exchange = calloc(1, sizeof(*exchange));
		if (!exchange)
			return MHD_NO;
		*state = exchange;
		exchange->request.collector = server->collector;
		exchange->request.connection = connection;
		exchange->connection = fp_connections_current(connection);
		begin(exchange, method, path);
		if (may_answer_early(exchange))
			return fp_respond(connection, &exchange->response);
		return MHD_YES;
	}
	if (*size > 0) {
		enum MHD_Result result = take_body(exchange, data, *size);

		*size = 0;
		return result;
	}
	fp_connection_served(&server->connections, exchange->connection);
	if (!exchange->decided)
		run_handler(exchange);
	return fp_respond(connection, &exchange->response);
}

static void completed(void *context, struct MHD_Connection *connection, void **state,
		      enum MHD_RequestTerminationCode code)
{
	struct fp_http_server *server = context;
	struct exchange *exchange = *state;

	if (!exchange)
		return;
	fp_connection_waiting(&server->connections, exchange->connection);
	release_memory(exchange);
	fp_buf_free(&exchange->response.body);
	free(exchange->request.tail);
	free(exchange);
	*state = NULL;
}

static void connected(void *context, struct MHD_Connection *connection, void **socket_context,
		      enum MHD_ConnectionNotificationCode code)
{
	struct fp_http_server *server = context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*socket_context = fp_connections_add(&server->connections, connection);
	else
		fp_connections_remove(&server->connections, *socket_context);
}

void fp_http_reap(struct fp_http_server *server)
{
	uint64_t timeout_ns = server->collector->config.request_timeout_ns;
	uint64_t count = fp_connections_reap(&server->connections, timeout_ns);

	fp_collector_count(server->collector, REQUESTS_REFUSED_SLOW, count);
}

// "host:port" or "[v6]:port" → a numeric address.
static int parse_listen(const char *listen, struct sockaddr_storage *ret_address)
{
	FP_AUTOFREE char *host = strdup(listen);
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char *port = host ? strrchr(host, ':') : NULL, *name = host;

	if (!port || port == host)
		return -EINVAL;
	*port++ = '\0';
	if (name[0] == '[' && name[strlen(name) - 1] == ']') {
		name[strlen(name) - 1] = '\0';
		name++;
	}
	if (getaddrinfo(name, port, &hints, &found) != 0)
		return -EINVAL;
	memcpy(ret_address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int start_daemon(struct fp_http_server *server, const struct sockaddr_storage *address)
{
	const struct fp_collector_config *config = &server->collector->config;
	unsigned int flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			     MHD_USE_POLL | MHD_USE_ITC;

	if (address->ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	server->daemon = MHD_start_daemon(
	    flags, 0, NULL, NULL, answer, server, MHD_OPTION_SOCK_ADDR, address,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned int)config->max_connections,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)(config->request_timeout_ns / FP_NS_PER_S),
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
	    completed, server, MHD_OPTION_NOTIFY_CONNECTION, connected, server, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	return errno ? -errno : -EIO;
}

int fp_http_start(struct fp_collector *collector, struct fp_http_server **ret_server,
		  struct fp_buf *error)
{
	struct sockaddr_storage address = { 0 };
	struct fp_http_server *server;
	int r = parse_listen(collector->config.listen, &address);

	if (r < 0) {
		fp_buf_printf(error, "http.listen: '%s' is not address:port",
			      collector->config.listen);
		return r;
	}
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->collector = collector;
	fp_connections_init(&server->connections);
	r = start_daemon(server, &address);
	if (r < 0) {
		fp_buf_printf(error, "cannot listen on '%s': %s", collector->config.listen,
			      strerror(-r));
		fp_connections_free(&server->connections);
		free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

void fp_http_stop(struct fp_http_server *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->daemon);
	fp_connections_free(&server->connections);
	free(server);
}
