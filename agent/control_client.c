// SPDX-License-Identifier: Apache-2.0
#include "control_client.h"

#include "common/clock.h"
#include "control.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define REQUEST_DEADLINE_NS (5 * FP_NS_PER_S)
#define OUTPUT_DEADLINE_NS  (30 * FP_NS_PER_S)

struct fp_client {
	struct fp_client *next;
	struct fp_loop_source *source;
	struct fp_peer peer;
	struct fp_client_events events;
	struct fp_buf output;
	size_t sent;		 // of output
	uint64_t request_due_ns; // boottime
	uint64_t output_due_ns;
	size_t input_size;
	int fd;
	bool waiting;
	bool finishing;
	bool input_closed; // the peer will send nothing more
	char input[FP_CONTROL_REQUEST_MAX];
};

static int on_ready(struct fp_loop_source *source, uint32_t events, void *context);

int fp_client_new(struct fp_loop *loop, int fd, const struct fp_peer *peer,
		  const struct fp_client_events *events, struct fp_client **ret)
{
	int owned FP_AUTOCLOSE = fd;
	struct fp_client *client FP_AUTOFREE = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->peer = *peer;
	client->events = *events;
	client->request_due_ns = fp_boottime_ns() + REQUEST_DEADLINE_NS;
	client->fd = owned;
	r = fp_loop_add_fd(loop, owned, EPOLLIN | EPOLLRDHUP, on_ready, client, &client->source);
	if (r < 0)
		return r;
	fp_take_fd(&owned);
	*ret = fp_take_ptr(client);
	return 0;
}

void fp_client_free(struct fp_client *client)
{
	if (!client)
		return;
	fp_loop_remove(client->source);
	fp_close_fd(&client->fd);
	fp_buf_free(&client->output);
	free(client);
}

const struct fp_peer *fp_client_peer(const struct fp_client *client)
{
	return &client->peer;
}

struct fp_client *fp_client_next(const struct fp_client *client)
{
	return client->next;
}

void fp_client_set_next(struct fp_client *client, struct fp_client *next)
{
	client->next = next;
}

void fp_client_set_waiting(struct fp_client *client, bool waiting)
{
	client->waiting = waiting;
}

bool fp_client_has_output(const struct fp_client *client)
{
	return client->sent < client->output.len;
}

bool fp_client_is_stale(const struct fp_client *client, uint64_t now_boottime_ns)
{
	if (fp_client_has_output(client))
		return now_boottime_ns > client->output_due_ns;
	return !client->waiting && now_boottime_ns > client->request_due_ns;
}

// What epoll should tell us of: input until the peer closes it or we are done with it,
// output while there is some. A hang-up is always told.
static void update_events(struct fp_client *client)
{
	uint32_t events = client->input_closed || client->finishing ? 0 : EPOLLIN | EPOLLRDHUP;

	if (fp_client_has_output(client))
		events |= EPOLLOUT;
	fp_loop_set_events(client->source, events);
}

// Sends what the socket takes now. False: the connection is broken.
static bool flush(struct fp_client *client)
{
	while (fp_client_has_output(client)) {
		ssize_t n = send(client->fd, client->output.data + client->sent,
				 client->output.len - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		client->sent += (size_t)n;
		client->output_due_ns = fp_boottime_ns() + OUTPUT_DEADLINE_NS;
	}
	fp_buf_clear(&client->output);
	client->sent = 0;
	return true;
}

static int queue(struct fp_client *client, const void *bytes, size_t size)
{
	if (!fp_client_has_output(client))
		client->output_due_ns = fp_boottime_ns() + OUTPUT_DEADLINE_NS;
	if (fp_buf_append(&client->output, bytes, size) < 0)
		return -ENOMEM;
	// Written from the loop, so that nobody is freed inside the call that queues.
	update_events(client);
	return 0;
}

int fp_client_send_line(struct fp_client *client, const struct fp_buf *json)
{
	int r = json->error ? json->error : queue(client, json->data, json->len);

	return r < 0 ? r : queue(client, "\n", 1);
}

int fp_client_send_bytes(struct fp_client *client, const void *bytes, size_t size)
{
	return queue(client, bytes, size);
}

void fp_client_finish(struct fp_client *client)
{
	client->finishing = true;
	client->waiting = false;
	client->request_due_ns = 0; // with nothing left to send the next sweep takes it
	update_events(client);
}

void fp_client_fail(struct fp_client *client, const char *code, enum fp_exit exit_code,
		    const char *format, ...)
{
	struct fp_buf json FP_AUTOBUF = { 0 };
	char message[400];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	fp_buf_printf(&json, "{\"type\":\"error\",\"code\":\"%s\",\"exit\":%d,\"message\":\"", code,
		      (int)exit_code);
	fp_buf_json(&json, message, strlen(message));
	fp_buf_str(&json, "\"}");
	fp_client_send_line(client, &json);
	fp_client_finish(client);
}

// Hands out the first line. False: there is no whole one, or nothing more is wanted.
static bool take_line(struct fp_client *client)
{
	char line[FP_CONTROL_REQUEST_MAX];
	char *end = memchr(client->input, '\n', client->input_size);
	size_t size;

	if (client->finishing)
		return false;
	if (!end && client->input_size == sizeof(client->input))
		fp_client_fail(client, "usage", FP_EXIT_USAGE,
			       "a request is one line of at most %d bytes", FP_CONTROL_REQUEST_MAX);
	if (!end)
		return false;
	size = (size_t)(end - client->input);
	memcpy(line, client->input, size);
	client->input_size -= size + 1;
	memmove(client->input, end + 1, client->input_size);
	client->events.line(client, line, size, client->events.context);
	return true;
}

// Reads once. False: the connection is broken.
static bool receive(struct fp_client *client)
{
	ssize_t n = recv(client->fd, client->input + client->input_size,
			 sizeof(client->input) - client->input_size, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0) { // half closed: it may still read what it asked for
		client->input_closed = true;
		update_events(client);
		return client->waiting || fp_client_has_output(client);
	}
	client->input_size += (size_t)n;
	return true;
}

static int on_ready(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_client *client = context;
	bool alive = !(events & (EPOLLERR | EPOLLHUP));

	if (alive && events & EPOLLOUT) {
		alive = flush(client);
		if (alive)
			update_events(client);
		if (alive && client->finishing && !fp_client_has_output(client))
			alive = false;
	}
	if (alive && !client->finishing && events & (EPOLLIN | EPOLLRDHUP))
		alive = receive(client);
	while (alive && take_line(client))
		;
	if (!alive)
		client->events.gone(client, client->events.context);
	return 0;
}
