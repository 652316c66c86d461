// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include "command.h"
#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINE_MAX_BYTES (1U << 20)

void fp_json_freep(json_t **json)
{
	json_decref(*json);
	*json = NULL;
}

uint64_t fp_json_number(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t)value : 0;
}

const char *fp_json_text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "";
}

int fp_link_open(const char *socket_path, struct fp_agent_link *ret)
{
	int fd FP_AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	if (strlen(socket_path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, socket_path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	*ret = (struct fp_agent_link){ .fd = fp_take_fd(&fd) };
	return 0;
}

void fp_link_close(struct fp_agent_link *link)
{
	fp_close_fd(&link->fd);
	fp_buf_free(&link->input);
}

int fp_link_send(struct fp_agent_link *link, const char *line)
{
	size_t size = strlen(line);

	while (size) {
		ssize_t n = send(link->fd, line, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		line += n;
		size -= (size_t)n;
	}
	return 0;
}

// Reads once, waiting at most until the deadline. A signal ends the wait.
static int receive(struct fp_agent_link *link, uint64_t deadline_ns)
{
	struct pollfd poll_fd = { .fd = link->fd, .events = POLLIN };
	uint64_t now_ns = fp_monotonic_ns();
	ssize_t n;
	int r;

	if (now_ns >= deadline_ns)
		return -ETIMEDOUT;
	r = poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / FP_NS_PER_MS) + 1);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	r = fp_buf_reserve(&link->input, 65536);
	if (r < 0)
		return r;
	n = recv(link->fd, link->input.data + link->input.len, 65536, 0);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	link->input.len += (size_t)n;
	return 0;
}

static uint64_t deadline_after(int timeout_ms)
{
	return fp_monotonic_ns() + (uint64_t)timeout_ms * FP_NS_PER_MS;
}

int fp_link_line(struct fp_agent_link *link, int timeout_ms, json_t **ret)
{
	uint64_t deadline_ns = deadline_after(timeout_ms);

	for (;;) {
		size_t size = link->input.len - link->taken;
		// an empty buffer has no memory to point into
		const char *start = size ? (const char *)link->input.data + link->taken : "";
		const char *end = size ? memchr(start, '\n', size) : NULL;
		json_t *json;
		int r;

		if (end) {
			json = json_loadb(start, (size_t)(end - start), 0, NULL);
			link->taken += (size_t)(end - start) + 1;
			if (!json_is_object(json)) {
				json_decref(json);
				return -EBADMSG;
			}
			*ret = json;
			return 0;
		}
		if (size > LINE_MAX_BYTES)
			return -EBADMSG;
		r = receive(link, deadline_ns);
		if (r < 0)
			return r;
	}
}

int fp_link_bytes(struct fp_agent_link *link, size_t size, int timeout_ms, struct fp_buf *ret)
{
	uint64_t deadline_ns = deadline_after(timeout_ms);

	while (link->input.len - link->taken < size) {
		int r = receive(link, deadline_ns);

		if (r < 0 && r != -EINTR)
			return r;
	}
	link->taken += size;
	return fp_buf_append(ret, link->input.data + link->taken - size, size);
}

int fp_link_fail(int error, const char *socket_path)
{
	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		return fp_command_fail(FP_EXIT_NOT_RUNNING,
				       "no agent answers on '%s'; start it (systemctl start "
				       "fleetprof-agent), or name its socket with --socket",
				       socket_path);
	case -EACCES:
	case -EPERM:
		return fp_command_fail(FP_EXIT_PERMISSION, "'%s': %s; ask as root", socket_path,
				       strerror(-error));
	case -ETIMEDOUT:
		return fp_command_fail(FP_EXIT_TIMEOUT, "the agent on '%s' does not answer in time",
				       socket_path);
	case -EPIPE:
	case -ECONNRESET:
		return fp_command_fail(FP_EXIT_FAILED,
				       "the agent on '%s' closed the connection; see its log",
				       socket_path);
	case -EBADMSG:
		return fp_command_fail(FP_EXIT_FAILED, "what answers on '%s' is no fleetprof agent",
				       socket_path);
	default:
		return fp_command_fail(FP_EXIT_FAILED, "'%s': %s", socket_path, strerror(-error));
	}
}

int fp_link_refused(const json_t *answer)
{
	json_int_t code = json_integer_value(json_object_get(answer, "exit"));
	const char *message = fp_json_text(answer, "message");

	if (code <= 0 || code > 255)
		code = FP_EXIT_FAILED;
	return fp_command_fail((enum fp_exit)code, "%s", message[0] ? message : "refused");
}
