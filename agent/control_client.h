// SPDX-License-Identifier: Apache-2.0
//
// control_client: one connection to the control socket: a bounded line in, queued lines and
// bytes out, never blocking. The owner is told of a line, of a client that has gone, and
// frees the client.
// Threads: the loop's.
#pragma once

#include "common/buf.h"
#include "common/loop.h"
#include "control_access.h"
#include "daemon_exit.h"

struct fp_client;
struct fp_client_events {
	// A whole line (without its newline). The client must not be freed inside.
	void (*line)(struct fp_client *client, const char *line, size_t size, void *context);
	// The connection ended, failed, or broke a bound. The owner frees the client.
	void (*gone)(struct fp_client *client, void *context);
	void *context;
};

// Takes ownership of fd (also on failure).
int fp_client_new(struct fp_loop *loop, int fd, const struct fp_peer *peer,
		  const struct fp_client_events *events, struct fp_client **ret);
void fp_client_free(struct fp_client *client);
const struct fp_peer *fp_client_peer(const struct fp_client *client);
struct fp_client *fp_client_next(const struct fp_client *client); // in the owner's list
void fp_client_set_next(struct fp_client *client, struct fp_client *next);

// Queues one line of JSON (json, without newline) or raw bytes. The queue is bounded only by
// what the agent itself puts in: one answer per request.
int fp_client_send_line(struct fp_client *client, const struct fp_buf *json);
int fp_client_send_bytes(struct fp_client *client, const void *bytes, size_t size);
// {"type":"error",…}: code is a word, message a sentence; then closes once it is sent.
void fp_client_fail(struct fp_client *client, const char *code, enum fp_exit exit_code,
		    const char *format, ...) FP_PRINTF(4, 5);
// Closes when everything queued has been sent.
void fp_client_finish(struct fp_client *client);
bool fp_client_has_output(const struct fp_client *client);
// True when the client has kept us waiting too long: no request after 5 s (unless waiting is
// set), or no byte of our output taken for 30 s.
bool fp_client_is_stale(const struct fp_client *client, uint64_t now_boottime_ns);
// The client waits for us (a snapshot runs): the request deadline no longer holds.
void fp_client_set_waiting(struct fp_client *client, bool waiting);
