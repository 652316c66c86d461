// SPDX-License-Identifier: Apache-2.0
//
// control: the agent's Unix socket (SOCK_STREAM, /run/fleetprof/agent.sock, mode 0666: the
// kernel's SO_PEERCRED decides, not the file mode). uid 0 and members of the fleetprof group
// may ask for any process, others only for processes whose real and effective uid are theirs.
// Protocol (docs/control.md): the client sends one line of JSON, the agent answers with lines
// of JSON; a line with "bytes":N is followed by N raw bytes (a fleetprof.v1 batch).
#pragma once

#include "common/loop.h"
#include "session.h"

#define FP_CONTROL_DEFAULT_SOCKET "/run/fleetprof/agent.sock"
#define FP_CONTROL_REQUEST_MAX	  4096

struct fp_control;
struct fp_control_handlers {
	// Opens a snapshot session of the process; the control module drives it.
	int (*open_snapshot)(const struct fp_session_config *config, struct fp_session **ret,
			     struct fp_refusal *refusal, void *context);
	// Fills host, boot and sequence fields.
	int (*stamp)(struct fp_profile *profile, void *context);
	// Appends one JSON object (no newline) for `status`.
	int (*status)(struct fp_buf *json, void *context);
	void *context;
};
int fp_control_open(struct fp_loop *loop, const char *path, const char *group,
		    const struct fp_control_handlers *handlers, struct fp_control **ret);
void fp_control_free(struct fp_control *control);
static inline void fp_control_freep(struct fp_control **control)
{
	fp_control_free(*control);
	*control = 0;
}
