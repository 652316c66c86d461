// SPDX-License-Identifier: Apache-2.0
//
// control: the agent's Unix socket (SOCK_STREAM, /run/fleetprof/agent.sock, mode 0666: the
// kernel's SO_PEERCRED decides, not the file mode). uid 0 and members of the fleetprof group
// may ask for any process, others for the processes a debugger of theirs could attach to
// (control_access.h).
// Protocol (docs/control.md): the client sends one line of JSON, the agent answers with lines
// of JSON; a line with "bytes":N is followed by N raw bytes (a fleetprof.v1 batch).
// Clients are hostile: their number, input, output and patience are bounded, and none can
// block the loop.
#pragma once

#include "common/loop.h"
#include "session.h"

#define FP_CONTROL_DEFAULT_SOCKET "/run/fleetprof/agent.sock"
#define FP_CONTROL_REQUEST_MAX	  4096

// Bounds of a snapshot, so that one request cannot load the host for long.
#define FP_SNAPSHOT_HZ_MAX		997
#define FP_SNAPSHOT_SECONDS_MIN		1 // loading the programs costs more than a second's samples
#define FP_SNAPSHOT_SECONDS_MAX		60  // for anyone
#define FP_SNAPSHOT_SECONDS_MAX_TRUSTED 300 // for root and the group

struct fp_control;
struct fp_control_handlers {
	// Opens a snapshot session of the process; the control module drives it.
	int (*open_snapshot)(const struct fp_session_config *config, struct fp_session **ret,
			     struct fp_refusal *refusal, void *context);
	// Fills host, boot and sequence fields.
	int (*stamp)(struct fp_profile *profile, void *context);
	// Appends one JSON object (no newline) for `status`. trusted: the caller is root or of
	// the group; others get nothing that names other users' programs.
	int (*status)(bool trusted, struct fp_buf *json, void *context);
	void *context;
};
struct fp_control_config {
	const char *path;
	const char *group; // "" or unknown: root alone
	uint32_t role_uid; // the agent's own user is never trusted, though it is in the group
	bool has_role_uid;
};
// A socket that stands at the path is replaced: the caller holds the agent's lock.
// Errors: -errno; -EEXIST when the path is something else than a socket.
int fp_control_open(struct fp_loop *loop, const struct fp_control_config *config,
		    const struct fp_control_handlers *handlers, struct fp_control **ret);
uint64_t fp_control_snapshots(const struct fp_control *control); // taken since it opened
void fp_control_free(struct fp_control *control);
static inline void fp_control_freep(struct fp_control **control)
{
	fp_control_free(*control);
	*control = 0;
}
