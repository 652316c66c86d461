// SPDX-License-Identifier: Apache-2.0
//
// client: agentctl's end of the control socket: one line of JSON out, lines of JSON in, and
// the raw bytes that a line may announce. Blocking, with a deadline per read.
// Input: the agent's answers, trusted to be the agent's, checked all the same.
// Threads: none.
#pragma once

#include "common/buf.h"

#include <jansson.h>

// Pulled through FP_CLEANUP(fp_json_freep).
void fp_json_freep(json_t **json);
uint64_t fp_json_number(const json_t *object, const char *name);  // 0 when absent
const char *fp_json_text(const json_t *object, const char *name); // "" when absent

struct fp_agent_link {
	int fd;
	struct fp_buf input; // received, not yet handed out
	size_t taken;
};

// -ENOENT / -ECONNREFUSED: no agent; -EACCES; others.
int fp_link_open(const char *socket_path, struct fp_agent_link *ret);
void fp_link_close(struct fp_agent_link *link);
int fp_link_send(struct fp_agent_link *link, const char *line);
// Next line. -ETIMEDOUT, -EPIPE when the agent closed, -EBADMSG, -EINTR when a signal came.
int fp_link_line(struct fp_agent_link *link, int timeout_ms, json_t **ret);
int fp_link_bytes(struct fp_agent_link *link, size_t size, int timeout_ms, struct fp_buf *ret);

// Says why the socket did not answer and yields the exit code.
int fp_link_fail(int error, const char *socket_path);
// Says what an {"type":"error"} line says and yields its exit code.
int fp_link_refused(const json_t *answer);
// The agent's {"type":"status"} or {"type":"error"} line. Errors as fp_link_open and _line.
int fp_status_fetch(const char *socket_path, json_t **ret);
// What a source of time off the CPU is doing: intervals, and how they are sampled.
int fp_status_waits(const json_t *source, struct fp_buf *ret_line);
// What the agent's status says of the roles that open and read files for names, for people.
int fp_status_names(const json_t *status, struct fp_buf *ret_line);
int fp_status_unwinding(const json_t *status, struct fp_buf *ret_line);
