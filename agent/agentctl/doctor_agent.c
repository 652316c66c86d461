// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include "client.h"
#include "command.h"
#include "common/clock.h"
#include "proto/profile.h"

#include <errno.h>
#include <string.h>

#define STOPPED_PERCENT 5 // of a program's stacks: below, it is noise
#define STOPPED_FEWEST	5 // stacks: a few of a program that has just begun say nothing
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

// Tables and ranges come by themselves.
static bool passes_by_itself(const char *reason)
{
	return strcmp(reason, "not_loaded") == 0 || strcmp(reason, "new_process") == 0;
}

static void judge_build(struct fp_doctor *doctor, const json_t *build, uint64_t stacks,
			uint64_t stopped)
{
	const char *reason = fp_json_text(build, "reason");
	const char *fix = reason[0] ? fp_stop_fix(reason) : "";

	if (!fix[0])
		fix = "build it with -fno-omit-frame-pointer, or install a build that is";
	fp_doctor_add(doctor, "whole_stacks",
		      passes_by_itself(reason) ? FP_PREFLIGHT_PASS : FP_PREFLIGHT_WARN, fix,
		      "'%s': %llu of its %llu stacks in the last window stop short%s%s",
		      fp_json_text(build, "path"), (unsigned long long)stopped,
		      (unsigned long long)stacks, reason[0] ? ": " : "",
		      reason[0] ? fp_stop_text(reason) : "");
}

static void judge_builds(struct fp_doctor *doctor, const json_t *builds)
{
	size_t i;
	json_t *build;

	json_array_foreach((json_t *)builds, i, build)
	{
		uint64_t stacks = fp_json_number(build, "stacks");
		uint64_t stopped = fp_json_number(build, "stopped");

		if (stopped < STOPPED_FEWEST || stopped * 100 < stacks * STOPPED_PERCENT)
			continue;
		judge_build(doctor, build, stacks, stopped);
	}
}

static void judge_unwinding(struct fp_doctor *doctor, const json_t *unwind)
{
	uint64_t cut = fp_json_number(unwind, "records_cut");

	if (!unwind) // an agent from before the tables
		return;
	if (!json_is_true(json_object_get(unwind, "enabled")))
		fp_doctor_add(doctor, "unwind_tables", FP_PREFLIGHT_WARN,
			      "set unwind.tables = on and limits.walk = auto, where the kernel is "
			      "not one of agent.kernel_no_user_read",
			      "stacks are whole only where programs have frame pointers: %s",
			      fp_json_text(unwind, "why"));
	else if (fp_json_number(unwind, "no_room"))
		fp_doctor_add(doctor, "unwind_tables", FP_PREFLIGHT_WARN, "raise unwind.memory",
			      "%llu times a table found no room in %.0f MiB, %llu were evicted",
			      (unsigned long long)fp_json_number(unwind, "no_room"),
			      (double)fp_json_number(unwind, "bytes_max") / 1048576.0,
			      (unsigned long long)fp_json_number(unwind, "evicted"));
	else
		fp_doctor_add(doctor, "unwind_tables", FP_PREFLIGHT_PASS, "",
			      "%llu builds have their table loaded, in %.1f MiB; %llu stacks cut "
			      "since code had just been replaced",
			      (unsigned long long)fp_json_number(unwind, "tables"),
			      (double)fp_json_number(unwind, "bytes") / 1048576.0,
			      (unsigned long long)cut);
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
	judge_unwinding(doctor, json_object_get(status, "unwind"));
	judge_builds(doctor, json_object_get(status, "stopped_builds"));
}
