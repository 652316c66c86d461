// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include "client.h"
#include "command.h"
#include "common/clock.h"

#include <errno.h>
#include <string.h>

#define STOPPED_PERCENT 5 // of a program's stacks: below, it is noise
#define SILENT_AFTER_NS (300 * FP_NS_PER_S)

static void judge_balance(struct fp_doctor *doctor, const json_t *status)
{
	uint64_t errors = fp_json_number(status, "balance_errors");

	if (errors == 0)
		fp_doctor_add(doctor, "balance", FP_PREFLIGHT_PASS, "",
			      "all of %llu epochs balance: every run of a program is accounted for",
			      (unsigned long long)fp_json_number(status, "epochs"));
	else
		fp_doctor_add(doctor, "balance", FP_PREFLIGHT_FAIL,
			      "this is a defect: report it with `agentctl status --json`",
			      "%llu epochs did not balance", (unsigned long long)errors);
}

static void judge_spool(struct fp_doctor *doctor, const json_t *delivery)
{
	uint64_t dropped = fp_json_number(delivery, "batches_dropped");

	if (json_is_false(json_object_get(delivery, "spool_writable")))
		fp_doctor_add(doctor, "spool", FP_PREFLIGHT_FAIL,
			      "make room on its file system; the agent's log names the cause",
			      "the spool could not take the last window");
	else if (dropped)
		fp_doctor_add(doctor, "spool", FP_PREFLIGHT_WARN,
			      "see fleetprof_agent_spool_dropped_batches_total for the reasons",
			      "%llu batches were dropped since the agent started",
			      (unsigned long long)dropped);
	else
		fp_doctor_add(doctor, "spool", FP_PREFLIGHT_PASS, "",
			      "%llu batches wait, none was dropped",
			      (unsigned long long)fp_json_number(delivery, "batches_queued"));
}

static void judge_delivery(struct fp_doctor *doctor, const json_t *delivery)
{
	uint64_t last_ns = fp_json_number(delivery, "last_success_ns");
	uint64_t now_ns = fp_realtime_ns();

	if (!fp_json_text(delivery, "collector")[0] ||
	    fp_json_number(delivery, "batches_queued") == 0)
		return;
	if (last_ns == 0)
		fp_doctor_add(doctor, "delivery", FP_PREFLIGHT_WARN,
			      "wait for a window to end, or see the agent's log",
			      "no batch has reached the collector yet");
	else if (now_ns > last_ns && now_ns - last_ns > SILENT_AFTER_NS)
		fp_doctor_add(doctor, "delivery", FP_PREFLIGHT_WARN,
			      "see the agent's log and the row `collector`",
			      "the last batch reached the collector %llu s ago",
			      (unsigned long long)((now_ns - last_ns) / FP_NS_PER_S));
}

static void judge_builds(struct fp_doctor *doctor, const json_t *builds)
{
	size_t i;
	json_t *build;

	json_array_foreach((json_t *)builds, i, build)
	{
		uint64_t stacks = fp_json_number(build, "stacks");
		uint64_t stopped = fp_json_number(build, "stopped");

		if (stacks == 0 || stopped * 100 < stacks * STOPPED_PERCENT)
			continue;
		fp_doctor_add(doctor, "frame_pointers", FP_PREFLIGHT_WARN,
			      "build it with -fno-omit-frame-pointer, or install a build that is",
			      "'%s': %llu of its %llu stacks in the last window stop short",
			      fp_json_text(build, "path"), (unsigned long long)stopped,
			      (unsigned long long)stacks);
	}
}

void fp_doctor_judge_agent(struct fp_doctor *doctor, const char *socket_path, const json_t *status,
			   int error)
{
	const json_t *delivery = json_object_get(status, "delivery");

	if (!status || strcmp(fp_json_text(status, "type"), "status") != 0) {
		fp_doctor_add(doctor, "agent", FP_PREFLIGHT_WARN,
			      error == -EACCES ? "run as root"
					       : "start it: systemctl start fleetprof-agent",
			      "no agent answers on '%s': %s", socket_path,
			      error ? strerror(-error) : fp_json_text(status, "message"));
		return;
	}
	fp_doctor_add(doctor, "agent", FP_PREFLIGHT_PASS, "",
		      "agent %s runs with pid %llu; CPU: %llu Hz, off-CPU: %s",
		      fp_json_text(status, "version"),
		      (unsigned long long)fp_json_number(status, "pid"),
		      (unsigned long long)fp_json_number(json_object_get(status, "cpu"), "hz"),
		      fp_json_text(json_object_get(status, "off_cpu"), "hook"));
	judge_balance(doctor, status);
	judge_spool(doctor, delivery);
	judge_delivery(doctor, delivery);
	judge_builds(doctor, json_object_get(status, "stopped_builds"));
}
