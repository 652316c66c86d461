// SPDX-License-Identifier: Apache-2.0
#include "observe.h"

#include "common/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX	  16u
#define CONNECTIONS_SPARE 16u // room for those that were told to go and have not yet
#define TIMEOUT_S	  5u
#define AGE_MAX_NS	  (5 * FP_NS_PER_S) // in all, also for one that drips bytes
#define REQUEST_BYTES_MAX ((size_t)8 << 10)

struct connection {
	bool used, leaving;
	int socket;
	uint64_t since_ns; // boottime
};

struct fp_observe {
	struct fp_observe_config config;
	// Touched by libmicrohttpd's one thread alone.
	struct connection connections[CONNECTIONS_MAX + CONNECTIONS_SPARE];
	struct MHD_Daemon *daemon;
};

static const struct {
	const char *path;
	unsigned int (*page)(const struct fp_observe_config *config, struct fp_buf *text);
	const char *content_type;
} routes[] = {
	{ "/metrics", fp_observe_metrics, "text/plain; version=0.0.4; charset=utf-8" },
	{ "/healthz", fp_observe_healthz, "text/plain; charset=utf-8" },
	{ "/readyz", fp_observe_readyz, "text/plain; charset=utf-8" },
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status,
			      struct fp_buf *text, const char *content_type)
{
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(text->len, text->data, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", content_type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

// NOLINTNEXTLINE(readability-function-size): eight parameters are libmicrohttpd's callback
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload_data,
			      size_t *upload_size, void **request_context)
{
	const struct fp_observe *observe = context;
	FP_AUTOBUF struct fp_buf text = { 0 };

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		// Answered before the body is read: there is nothing that we would take.
		fp_buf_str(&text, "only GET and HEAD\n");
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &text, "text/plain");
	}
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		unsigned int status;

		if (strcmp(url, routes[i].path) != 0)
			continue;
		status = routes[i].page(&observe->config, &text);
		return answer(connection, status, &text, routes[i].content_type);
	}
	fp_buf_str(&text, "not found; there are /metrics, /healthz and /readyz\n");
	return answer(connection, MHD_HTTP_NOT_FOUND, &text, "text/plain");
}

static void send_away(struct connection *connection)
{
	shutdown(connection->socket, SHUT_RDWR); // libmicrohttpd sees the end and closes it
	connection->leaving = true;
}

// Slow clients may sit on connections only as long as nobody else wants one: at each arrival
// those that have been here too long go, and with no room left the oldest.
static void make_room(struct fp_observe *observe, uint64_t now_ns)
{
	struct connection *oldest = NULL;
	unsigned int count = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(observe->connections); i++) {
		struct connection *one = &observe->connections[i];

		if (!one->used || one->leaving)
			continue;
		if (now_ns - one->since_ns >= AGE_MAX_NS) {
			send_away(one);
			continue;
		}
		count++;
		if (!oldest || one->since_ns < oldest->since_ns)
			oldest = one;
	}
	if (count >= CONNECTIONS_MAX)
		send_away(oldest);
}

static struct connection *find_place(struct fp_observe *observe)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(observe->connections); i++)
		if (!observe->connections[i].used)
			return &observe->connections[i];
	return NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct fp_observe *observe = context;
	struct connection *place = *socket_context;
	const union MHD_ConnectionInfo *info;
	uint64_t now_ns = fp_boottime_ns();

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (place)
			place->used = false;
		return;
	}
	make_room(observe, now_ns);
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	place = info ? find_place(observe) : NULL;
	if (place)
		*place = (struct connection){ .used = true,
					      .socket = info->connect_fd,
					      .since_ns = now_ns };
	*socket_context = place;
}

// "host:port" or "[address]:port", numeric or a name; the first address is taken.
static int parse_listen(const char *listen, struct addrinfo **ret_address)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(listen, ':');
	char host[256];
	size_t size;

	if (!colon || !colon[1] || colon == listen)
		return -EINVAL;
	size = (size_t)(colon - listen);
	if (listen[0] == '[' && colon[-1] == ']') {
		listen++;
		size -= 2;
	}
	if (size >= sizeof(host))
		return -EINVAL;
	memcpy(host, listen, size);
	host[size] = '\0';
	return getaddrinfo(host, colon + 1, &hints, ret_address) ? -EINVAL : 0;
}

static void free_address(struct addrinfo **address)
{
	if (*address)
		freeaddrinfo(*address);
}

// A log line per broken client would let strangers fill the journal.
static void ignore_message(void *context, const char *format, va_list arguments) {}

int fp_observe_start(const struct fp_observe_config *config, struct fp_observe **ret)
{
	FP_CLEANUP(free_address) struct addrinfo *address = NULL;
	FP_CLEANUP(fp_observe_freep) struct fp_observe *observe = calloc(1, sizeof(*observe));
	unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG;
	int error = observe ? parse_listen(config->listen, &address) : -ENOMEM;

	if (error)
		return error;
	observe->config = *config;
	if (address->ai_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	observe->daemon = MHD_start_daemon(
	    flags, 0, NULL, NULL, handle, observe, MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL,
	    MHD_OPTION_SOCK_ADDR, address->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
	    CONNECTIONS_MAX + CONNECTIONS_SPARE, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
	    observe, MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    REQUEST_BYTES_MAX, MHD_OPTION_END);
	if (!observe->daemon)
		return errno ? -errno : -EADDRINUSE;
	*ret = fp_take_ptr(observe);
	return 0;
}

void fp_observe_free(struct fp_observe *observe)
{
	if (!observe)
		return;
	if (observe->daemon)
		MHD_stop_daemon(observe->daemon);
	free(observe);
}

uint16_t fp_observe_port(const struct fp_observe *observe)
{
	const union MHD_DaemonInfo *info =
	    MHD_get_daemon_info(observe->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info ? info->port : 0;
}
