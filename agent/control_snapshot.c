// SPDX-License-Identifier: Apache-2.0
#include "control_snapshot.h"

#include "common/clock.h"
#include "proto/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define TURN_NS	 (FP_NS_PER_S / 4)
#define DRAIN_NS FP_NS_PER_S

struct fp_snapshot {
	struct fp_client *client;
	struct fp_control_request request;
	struct fp_control_handlers handlers;
	struct fp_process_facts process; // as it was when access was granted
	struct fp_session *session;
	struct fp_loop_source *session_source, *process_source, *timer;
	int pidfd;
	bool process_ended;
	uint64_t start_ns, last_drain_ns; // boottime
	fp_snapshot_fn done;
	void *context;
};

static int tell_denied(struct fp_client *client, enum fp_access access,
		       const struct fp_process_facts *process)
{
	switch (access) {
	case FP_ACCESS_KERNEL_THREAD:
		fp_client_fail(
		    client, "kernel_thread", FP_EXIT_FAILED,
		    "process %u ('%s') is a kernel thread, which has no user stacks; the "
		    "host's profile shows kernel threads",
		    process->tgid, process->comm);
		return -EINVAL;
	case FP_ACCESS_DEAD:
		fp_client_fail(client, "not_found", FP_EXIT_FAILED,
			       "process %u ('%s') has ended and only waits for its parent",
			       process->tgid, process->comm);
		return -ESRCH;
	case FP_ACCESS_OTHER_USER:
		fp_client_fail(
		    client, "permission", FP_EXIT_PERMISSION,
		    "process %u belongs to another user; ask as root or as a member of the "
		    "agent's control group",
		    process->tgid);
		return -EACCES;
	default:
		fp_client_fail(
		    client, "permission", FP_EXIT_PERMISSION,
		    "process %u is yours, but guarded (set-id, other groups, capabilities or "
		    "undumpable); ask as root or as a member of the agent's control group",
		    process->tgid);
		return -EACCES;
	}
}

static int tell_missing(struct fp_client *client, uint32_t pid)
{
	fp_client_fail(client, "not_found", FP_EXIT_FAILED, "no process %u", pid);
	return -ESRCH;
}

// Whoever wakes a thread may be any process: its stack and its name are not the caller's to see.
static int check_wakers(const struct fp_snapshot *snapshot)
{
	if (!snapshot->request.waker || fp_client_peer(snapshot->client)->trusted)
		return 0;
	fp_client_fail(snapshot->client, "permission", FP_EXIT_PERMISSION,
		       "wakers may be other users' processes; ask as root or as a member of the "
		       "agent's control group");
	return -EACCES;
}

// The pid is looked up only after the descriptor is held, so both are the same process.
static int grant(struct fp_snapshot *snapshot)
{
	struct fp_client *client = snapshot->client;
	uint32_t pid = snapshot->request.pid;
	enum fp_access access;

	if (fp_process_facts_read(pid, &snapshot->process) < 0)
		return tell_missing(client, pid);
	snapshot->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)snapshot->process.tgid, 0U);
	if (snapshot->pidfd < 0 || fp_process_facts_read(pid, &snapshot->process) < 0)
		return tell_missing(client, pid);
	access = fp_access_decide(fp_client_peer(client), &snapshot->process);
	if (access != FP_ACCESS_GRANTED)
		return tell_denied(client, access, &snapshot->process);
	return check_wakers(snapshot);
}

enum standing { STILL_GRANTED, NO_LONGER_GRANTED, ENDED };

// Of a caller that is not trusted. A process that has ended cannot be judged any more: what it
// was at its end, and whether it had run a set-uid program since it was last looked at, is gone
// with it (a zombie's memory is gone, and with it whether it was dumpable).
static enum standing standing_of(const struct fp_snapshot *snapshot)
{
	struct fp_process_facts now;

	if (fp_client_peer(snapshot->client)->trusted)
		return STILL_GRANTED;
	if (snapshot->process_ended || fp_process_facts_read(snapshot->process.tgid, &now) < 0 ||
	    now.start_time != snapshot->process.start_time || now.dead)
		return ENDED;
	return fp_access_decide(fp_client_peer(snapshot->client), &now) == FP_ACCESS_GRANTED
		   ? STILL_GRANTED
		   : NO_LONGER_GRANTED;
}

static int open_session(struct fp_snapshot *snapshot)
{
	const struct fp_control_request *request = &snapshot->request;
	struct fp_refusal refusal = { 0 };
	struct fp_session_config config = {
		.sampler = {
			.cpu_hz = request->cpu ? request->hz : 0,
			.off_cpu = request->off_cpu,
			.run_queue = request->run_queue,
			.waker = request->waker,
			.tgid = snapshot->process.tgid,
		},
		.drain_interval_ns = DRAIN_NS,
	};
	int r = snapshot->handlers.open_snapshot(&config, &snapshot->session, &refusal,
						 snapshot->handlers.context);

	if (r < 0)
		fp_client_fail(snapshot->client, "unsupported", FP_EXIT_UNSUPPORTED, "%s%s%s",
			       refusal.cause[0] ? refusal.cause : strerror(-r),
			       refusal.fix[0] ? "; " : "", refusal.fix);
	return r;
}

static void tell_accepted(const struct fp_snapshot *snapshot)
{
	const struct fp_process_facts *process = &snapshot->process;
	struct fp_buf json FP_AUTOBUF = { 0 };
	struct fp_session_stats stats = { 0 };

	fp_session_stats(snapshot->session, &stats);
	fp_buf_printf(&json, "{\"type\":\"accepted\",\"pid\":%u,\"comm\":\"", process->tgid);
	fp_buf_json(&json, process->comm, strlen(process->comm));
	fp_buf_printf(&json, "\",\"hz\":%u,\"duration_ms\":%" PRIu64, stats.hz,
		      (uint64_t)(snapshot->request.duration_ns / FP_NS_PER_MS));
	if (process->tgid != snapshot->request.pid)
		fp_buf_printf(&json, ",\"thread\":%u", snapshot->request.pid);
	fp_buf_str(&json, "}");
	fp_client_send_line(snapshot->client, &json);
}

static void tell_progress(const struct fp_snapshot *snapshot, uint64_t elapsed_ns)
{
	struct fp_buf json FP_AUTOBUF = { 0 };
	struct fp_session_stats stats = { 0 };

	if (fp_client_has_output(snapshot->client)) // it does not read: do not pile up
		return;
	fp_session_stats(snapshot->session, &stats);
	fp_buf_printf(&json,
		      "{\"type\":\"progress\",\"elapsed_ms\":%" PRIu64 ",\"samples\":%" PRIu64
		      ",\"off_cpu_intervals\":%" PRIu64 "}",
		      (uint64_t)(elapsed_ns / FP_NS_PER_MS), stats.samples[FP_SOURCE_CPU],
		      stats.samples[FP_SOURCE_OFFCPU]);
	fp_client_send_line(snapshot->client, &json);
}

static int collect(struct fp_snapshot *snapshot, struct fp_buf *batch)
{
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	int r = fp_session_finish(snapshot->session, &profile);

	if (r == 0)
		r = snapshot->handlers.stamp(profile, snapshot->handlers.context);
	return r == 0 ? fp_batch_encode(profile, batch) : r;
}

static int answer(struct fp_snapshot *snapshot, const char *ended, const struct fp_buf *batch)
{
	struct fp_buf json FP_AUTOBUF = { 0 };
	uint64_t elapsed_ns = fp_boottime_ns() - snapshot->start_ns;
	int r;

	fp_buf_printf(&json,
		      "{\"type\":\"result\",\"ended\":\"%s\",\"elapsed_ms\":%" PRIu64
		      ",\"bytes\":%zu}",
		      ended, (uint64_t)(elapsed_ns / FP_NS_PER_MS), batch->len);
	r = fp_client_send_line(snapshot->client, &json);
	if (r == 0)
		r = fp_client_send_bytes(snapshot->client, batch->data, batch->len);
	return r;
}

static void tell_discarded(struct fp_snapshot *snapshot, enum standing standing)
{
	const char *why =
	    standing == ENDED
		? "has ended, and it can no longer be told whether all it ran was "
		  "open to you; end the snapshot before the process, or ask as root or "
		  "as a member of the agent's control group"
		: "is no longer open to you (it changed its credentials or ran a "
		  "guarded program)";

	fp_client_fail(snapshot->client, "permission", FP_EXIT_PERMISSION,
		       "process %u %s; what was collected is discarded", snapshot->process.tgid,
		       why);
}

static void finish(struct fp_snapshot *snapshot, const char *ended)
{
	struct fp_buf batch FP_AUTOBUF = { 0 };
	int r = collect(snapshot, &batch);
	// Asked last, when nothing more can be added to what is handed out.
	enum standing standing = standing_of(snapshot);

	if (standing != STILL_GRANTED)
		tell_discarded(snapshot, standing);
	else if (r < 0)
		fp_client_fail(snapshot->client, "failed", FP_EXIT_FAILED,
			       "the profile could not be completed: %s", strerror(-r));
	else
		answer(snapshot, ended, &batch);
	fp_client_finish(snapshot->client);
	snapshot->done(snapshot, snapshot->context);
}

void fp_snapshot_stop(struct fp_snapshot *snapshot)
{
	finish(snapshot, "stopped");
}

static int on_process_end(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_snapshot *snapshot = context;

	snapshot->process_ended = true;
	finish(snapshot, "process_ended");
	return 0;
}

static int on_session(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_snapshot *snapshot = context;

	fp_session_poll(snapshot->session);
	return 0;
}

static int on_turn(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_snapshot *snapshot = context;
	uint64_t now_ns = fp_boottime_ns();
	uint64_t elapsed_ns = now_ns - snapshot->start_ns;

	fp_session_poll(snapshot->session);
	if (elapsed_ns >= snapshot->request.duration_ns || standing_of(snapshot) != STILL_GRANTED) {
		finish(snapshot, "duration");
		return 0;
	}
	if (now_ns - snapshot->last_drain_ns >= DRAIN_NS) {
		fp_session_drain(snapshot->session);
		snapshot->last_drain_ns = now_ns;
		tell_progress(snapshot, elapsed_ns);
	}
	return 0;
}

static int watch(struct fp_loop *loop, struct fp_snapshot *snapshot)
{
	uint64_t turn_ns =
	    snapshot->request.duration_ns < TURN_NS ? snapshot->request.duration_ns : TURN_NS;
	int r = fp_loop_add_fd(loop, fp_session_fd(snapshot->session), EPOLLIN, on_session,
			       snapshot, &snapshot->session_source);

	if (r == 0)
		r = fp_loop_add_fd(loop, snapshot->pidfd, EPOLLIN, on_process_end, snapshot,
				   &snapshot->process_source);
	if (r == 0)
		r = fp_loop_add_timer(loop, turn_ns, turn_ns, on_turn, snapshot, &snapshot->timer);
	if (r < 0)
		fp_client_fail(snapshot->client, "failed", FP_EXIT_FAILED, "%s", strerror(-r));
	return r;
}

static void free_snapshot(struct fp_snapshot **snapshot)
{
	fp_snapshot_free(*snapshot);
	*snapshot = NULL;
}

int fp_snapshot_new(struct fp_client *client, const struct fp_control_request *request,
		    const struct fp_control_handlers *handlers, struct fp_snapshot **ret)
{
	struct fp_snapshot *snapshot FP_CLEANUP(free_snapshot) = calloc(1, sizeof(*snapshot));
	int r;

	if (!snapshot) {
		fp_client_fail(client, "failed", FP_EXIT_FAILED, "out of memory");
		return -ENOMEM;
	}
	*snapshot = (struct fp_snapshot){
		.client = client, .request = *request, .handlers = *handlers, .pidfd = -1
	};
	r = grant(snapshot);
	if (r == 0)
		*ret = fp_take_ptr(snapshot);
	return r;
}

int fp_snapshot_start(struct fp_loop *loop, struct fp_snapshot *snapshot)
{
	int r = open_session(snapshot);

	if (r < 0)
		return r;
	snapshot->start_ns = snapshot->last_drain_ns = fp_boottime_ns();
	r = watch(loop, snapshot);
	if (r < 0)
		return r;
	fp_client_set_waiting(snapshot->client, true);
	tell_accepted(snapshot);
	return 0;
}

void fp_snapshot_on_done(struct fp_snapshot *snapshot, fp_snapshot_fn fn, void *context)
{
	snapshot->done = fn;
	snapshot->context = context;
}

void fp_snapshot_free(struct fp_snapshot *snapshot)
{
	if (!snapshot)
		return;
	fp_loop_remove(snapshot->session_source);
	fp_loop_remove(snapshot->process_source);
	fp_loop_remove(snapshot->timer);
	fp_session_free(snapshot->session);
	fp_close_fd(&snapshot->pidfd);
	free(snapshot);
}

struct fp_client *fp_snapshot_client(const struct fp_snapshot *snapshot)
{
	return snapshot->client;
}
