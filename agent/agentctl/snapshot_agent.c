// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include "client.h"
#include "common/clock.h"
#include "proto/batch.h"

#include <errno.h>
#include <string.h>

// The agent says how it goes every second, and needs a moment for loading and ending; many seconds
// where the host is too busy for it.
#define LINE_TIMEOUT_MS 60000
#define BATCH_MAX	(64ULL << 20)

static int ask(struct fp_agent_link *link, const struct fp_snapshot_options *options)
{
	bool cpu = fp_snapshot_records(options, FP_PROFILE_CPU);
	bool off_cpu = fp_snapshot_records(options, FP_PROFILE_OFF_CPU);
	char line[250];

	// An agent that does not know the last two refuses them, so only who wants them asks.
	snprintf(line, sizeof(line),
		 "{\"verb\":\"snapshot\",\"pid\":%u,\"hz\":%u,\"duration_ms\":%llu,\"cpu\":%s,"
		 "\"off_cpu\":%s%s%s}\n",
		 options->pid, options->hz,
		 (unsigned long long)(options->duration_ns / FP_NS_PER_MS), cpu ? "true" : "false",
		 off_cpu ? "true" : "false",
		 fp_snapshot_records(options, FP_PROFILE_RUN_QUEUE) ? ",\"run_queue\":true" : "",
		 fp_snapshot_records(options, FP_PROFILE_WAKER) ? ",\"waker\":true" : "");
	return fp_link_send(link, line);
}

static int take_batch(struct fp_agent_link *link, const json_t *answer,
		      struct fp_snapshot_result *ret)
{
	struct fp_buf bytes FP_AUTOBUF = { 0 };
	uint64_t size = fp_json_number(answer, "bytes");
	const char *reason = "";
	int r;

	if (size > BATCH_MAX)
		return -EBADMSG;
	r = fp_link_bytes(link, size, LINE_TIMEOUT_MS, &bytes);
	if (r < 0)
		return r;
	r = fp_batch_decode(bytes.data, bytes.len, &fp_batch_default_limits, &ret->profile,
			    &reason);
	if (r < 0)
		return -EBADMSG;
	snprintf(ret->ended, sizeof(ret->ended), "%s", fp_json_text(answer, "ended"));
	ret->elapsed_ns = fp_json_number(answer, "elapsed_ms") * FP_NS_PER_MS;
	return 0;
}

// One answer; *ret_done is set by the last one. Returns an exit code.
static int take_answer(struct fp_agent_link *link, const struct fp_snapshot_options *options,
		       const json_t *answer, struct fp_snapshot_result *ret, bool *ret_done)
{
	const char *type = fp_json_text(answer, "type");
	int r;

	if (strcmp(type, "accepted") == 0) {
		ret->pid = (uint32_t)fp_json_number(answer, "pid");
		snprintf(ret->comm, sizeof(ret->comm), "%s", fp_json_text(answer, "comm"));
		return 0;
	}
	if (strcmp(type, "progress") == 0) {
		fp_snapshot_progress(options, fp_json_number(answer, "elapsed_ms") * FP_NS_PER_MS,
				     fp_json_number(answer, "samples"),
				     fp_json_number(answer, "off_cpu_intervals"));
		return 0;
	}
	*ret_done = true;
	fp_snapshot_progress(options, 0, 0, 0);
	if (strcmp(type, "error") == 0)
		return fp_link_refused(answer);
	if (strcmp(type, "result") != 0)
		return fp_link_fail(-EBADMSG, options->socket);
	r = take_batch(link, answer, ret);
	return r < 0 ? fp_link_fail(r, options->socket) : 0;
}

static int converse(struct fp_agent_link *link, const struct fp_snapshot_options *options,
		    struct fp_snapshot_result *ret)
{
	bool done = false, stopping = false;
	int code = 0;

	while (!done && code == 0) {
		json_t *answer FP_CLEANUP(fp_json_freep) = NULL;
		int r;

		if (fp_snapshot_interrupted && !stopping) {
			stopping = true;
			fp_link_send(link, "{\"verb\":\"stop\"}\n");
		}
		r = fp_link_line(link, LINE_TIMEOUT_MS, &answer);
		if (r == -EINTR)
			continue;
		if (r < 0) {
			fp_snapshot_progress(options, 0, 0, 0);
			return fp_link_fail(r, options->socket);
		}
		code = take_answer(link, options, answer, ret, &done);
	}
	return code;
}

int fp_snapshot_by_agent(const struct fp_snapshot_options *options, struct fp_snapshot_result *ret)
{
	struct fp_agent_link link FP_CLEANUP(fp_link_close) = { .fd = -1 };
	int r = fp_link_open(options->socket, &link);

	if (r == -ENOENT || r == -ECONNREFUSED)
		return FP_EXIT_NOT_RUNNING;
	if (r == 0)
		r = ask(&link, options);
	if (r < 0)
		return fp_link_fail(r, options->socket);
	return converse(&link, options, ret);
}
