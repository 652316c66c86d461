// SPDX-License-Identifier: Apache-2.0
//
// control_snapshot: one snapshot from its request to its answer, on the loop: checks access,
// opens a session for the process, drains it, says how it goes, ends with the time, the
// process, a stop, or a lost right, and sends the profile.
// Stage: control request → session → fleetprof.v1 batch. Threads: the loop's.
#pragma once

#include "control.h"
#include "control_client.h"
#include "control_request.h"

struct fp_snapshot;
// done: the answer is queued (or the client has been failed); free the snapshot.
typedef void (*fp_snapshot_fn)(struct fp_snapshot *snapshot, void *context);

// Looks up the process and whether the client may have it; nothing runs yet. On failure the
// client has been told, and -errno is returned.
int fp_snapshot_new(struct fp_client *client, const struct fp_control_request *request,
		    const struct fp_control_handlers *handlers, struct fp_snapshot **ret);
// Opens the session. On failure likewise; the caller frees the snapshot.
int fp_snapshot_start(struct fp_loop *loop, struct fp_snapshot *snapshot);
void fp_snapshot_on_done(struct fp_snapshot *snapshot, fp_snapshot_fn fn, void *context);
void fp_snapshot_free(struct fp_snapshot *snapshot); // detaches at once, answers nothing
void fp_snapshot_stop(struct fp_snapshot *snapshot); // ends early, answers with what there is
struct fp_client *fp_snapshot_client(const struct fp_snapshot *snapshot);
