// SPDX-License-Identifier: Apache-2.0
//
// status: what the running agent says of itself, for people or, with --json, as it came.
#include "command.h"

#include "client.h"
#include "common/clock.h"

#include <errno.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS 5000

struct status_options {
	const char *socket;
	bool json;
};

static int set_option(char id, const char *value, void *context)
{
	struct status_options *options = context;

	if (id == 's')
		options->socket = value;
	else
		options->json = true;
	return 0;
}

static void print_age(const char *label, uint64_t realtime_ns)
{
	uint64_t now_ns = fp_realtime_ns();

	if (realtime_ns && realtime_ns <= now_ns)
		printf("%s%llu s ago", label,
		       (unsigned long long)((now_ns - realtime_ns) / FP_NS_PER_S));
}

static void append_duration(struct fp_buf *line, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { FP_NS_PER_S, "s" }, { FP_NS_PER_MS, "ms" }, { 1000, "µs" }, { 1, "ns" } };
	size_t i = 0;

	while (i + 1 < FP_ARRAY_SIZE(units) && ns < units[i].ns)
		i++;
	fp_buf_printf(line, ns < 1000 * units[i].ns ? "%.3g %s" : "%.0f %s",
		      (double)ns / (double)units[i].ns, units[i].name);
}

int fp_status_waits(const json_t *source, struct fp_buf *ret_line)
{
	uint64_t quantum_ns = fp_json_number(source, "quantum_ns");
	uint64_t weight = fp_json_number(source, "weight");
	uint64_t budget = fp_json_number(source, "walk_budget");
	const char *hook = fp_json_text(source, "hook");
	bool way_out = strcmp(hook, "way_out") == 0; // which knows no length when it draws the lot

	fp_buf_printf(ret_line, "%s, %llu intervals (%.1f s), %llu without their stack", hook,
		      (unsigned long long)fp_json_number(source, "samples"),
		      (double)fp_json_number(source, "nanoseconds") / 1e9,
		      (unsigned long long)fp_json_number(source, "stacks_lost"));
	if (strcmp(hook, "off") == 0)
		return ret_line->error;
	if (way_out && weight > 1) {
		fp_buf_printf(ret_line, "; one departure in %llu", (unsigned long long)weight);
	} else if (quantum_ns && !way_out) {
		fp_buf_str(ret_line, "; quantum ");
		append_duration(ret_line, quantum_ns);
	} else {
		fp_buf_str(ret_line, "; every interval kept");
	}
	if (budget)
		fp_buf_printf(ret_line, ", about %llu stacks a second", (unsigned long long)budget);
	return ret_line->error;
}

static void print_waits(const char *title, const json_t *source)
{
	FP_AUTOBUF struct fp_buf line = { 0 };

	if (source && fp_status_waits(source, &line) == 0)
		printf("  %-9s %s\n", title, (const char *)line.data);
}

static void print_sources(const json_t *status)
{
	const json_t *cpu = json_object_get(status, "cpu"),
		     *off = json_object_get(status, "off_cpu");
	uint64_t hz = fp_json_number(cpu, "hz"), asked = fp_json_number(cpu, "hz_requested");

	if (asked && hz != asked)
		printf("  CPU       %llu Hz (asked for %llu), ", (unsigned long long)hz,
		       (unsigned long long)asked);
	else if (asked)
		printf("  CPU       %llu Hz, ", (unsigned long long)hz);
	else
		printf("  CPU       off, ");
	printf("%llu samples, %llu without their stack\n",
	       (unsigned long long)fp_json_number(cpu, "samples"),
	       (unsigned long long)fp_json_number(cpu, "stacks_lost"));
	print_waits("off-CPU", off);
	print_waits("run queue", json_object_get(status, "run_queue"));
	print_waits("wakers", json_object_get(status, "waker"));
}

static void print_programs(const json_t *programs)
{
	const char *name, *outcome;
	json_t *program, *count;

	json_object_foreach((json_t *)programs, name, program)
	{
		const char *separator = "";

		printf("  program   %s: ", name);
		json_object_foreach(program, outcome, count)
		{
			printf("%s%s %lld", separator, outcome,
			       (long long)json_integer_value(count));
			separator = ", ";
		}
		printf("\n");
	}
}

static void print_kernel_side(const json_t *status)
{
	printf(
	    "  maps      %llu of %llu stacks at most, %.1f MiB; %llu epochs, %llu out of balance\n",
	    (unsigned long long)fp_json_number(status, "map_entries_peak"),
	    (unsigned long long)fp_json_number(status, "map_capacity"),
	    (double)fp_json_number(status, "map_bytes") / 1048576.0,
	    (unsigned long long)fp_json_number(status, "epochs"),
	    (unsigned long long)fp_json_number(status, "balance_errors"));
	printf("  processes %llu known; %llu events, %llu lost\n",
	       (unsigned long long)fp_json_number(status, "processes"),
	       (unsigned long long)fp_json_number(status, "process_events"),
	       (unsigned long long)fp_json_number(status, "process_events_lost"));
}

// How often it was started anew after it had ended.
static void append_restarts(struct fp_buf *line, const char *role, uint64_t starts)
{
	if (starts)
		fp_buf_printf(line, "%s restarted %llu times", role,
			      (unsigned long long)starts - 1);
	else
		fp_buf_printf(line, "%s not started", role);
}

int fp_status_names(const json_t *status, struct fp_buf *ret_line)
{
	const json_t *symbols = json_object_get(status, "symbols");
	const struct {
		const char *member, *words;
	} counts[] = {
		{ "perf_maps_open", "perf maps open" },
		{ "perf_maps_refused", "refused" },
		{ "files_timed_out", "files timed out" },
		{ "files_denied", "denied" },
		{ "questions_dropped", "questions dropped, the queue being full" },
	};

	if (!json_is_true(json_object_get(symbols, "enabled")))
		return fp_buf_str(ret_line, "off");
	append_restarts(ret_line, "opener", fp_json_number(symbols, "opener_starts"));
	append_restarts(ret_line, ", symbols role", fp_json_number(symbols, "role_starts"));
	for (size_t i = 0; i < FP_ARRAY_SIZE(counts); i++)
		fp_buf_printf(ret_line, "%s%llu %s", i ? ", " : "; ",
			      (unsigned long long)fp_json_number(symbols, counts[i].member),
			      counts[i].words);
	return ret_line->error;
}

static void print_names(const json_t *status)
{
	FP_AUTOBUF struct fp_buf line = { 0 };

	if (fp_status_names(status, &line) == 0)
		printf("  names     %s\n", (const char *)line.data);
}

int fp_status_unwinding(const json_t *status, struct fp_buf *ret_line)
{
	const json_t *unwind = json_object_get(status, "unwind");
	const struct {
		const char *member, *words;
	} counts[] = {
		{ "waiting", "to come" },
		{ "evicted", "evicted" },
		{ "no_room", "without room" },
		{ "records_cut", "stacks cut" },
	};

	if (!json_is_true(json_object_get(unwind, "enabled")))
		return fp_buf_printf(ret_line, "off: %s", fp_json_text(unwind, "why"));
	fp_buf_printf(ret_line, "%llu tables in %.1f of %.0f MiB, %llu processes",
		      (unsigned long long)fp_json_number(unwind, "tables"),
		      (double)fp_json_number(unwind, "bytes") / 1048576.0,
		      (double)fp_json_number(unwind, "bytes_max") / 1048576.0,
		      (unsigned long long)fp_json_number(unwind, "processes"));
	for (size_t i = 0; i < FP_ARRAY_SIZE(counts); i++)
		fp_buf_printf(ret_line, "%s%llu %s", i ? ", " : "; ",
			      (unsigned long long)fp_json_number(unwind, counts[i].member),
			      counts[i].words);
	return ret_line->error;
}

static void print_unwinding(const json_t *status)
{
	FP_AUTOBUF struct fp_buf line = { 0 };

	if (json_object_get(status, "unwind") && fp_status_unwinding(status, &line) == 0)
		printf("  unwinding %s\n", (const char *)line.data);
}

static void print_delivery(const json_t *status)
{
	const json_t *windows = json_object_get(status, "windows");
	const json_t *delivery = json_object_get(status, "delivery");
	const char *collector = fp_json_text(delivery, "collector");

	printf("  windows   %llu closed, of %.0f s",
	       (unsigned long long)fp_json_number(windows, "closed"),
	       (double)fp_json_number(windows, "length_ms") / 1000.0);
	print_age(", the last ", fp_json_number(windows, "last_end_ns"));
	printf("\n  spool     %llu batches (%.1f KiB) queued, %llu dropped\n",
	       (unsigned long long)fp_json_number(delivery, "batches_queued"),
	       (double)fp_json_number(delivery, "bytes_queued") / 1024.0,
	       (unsigned long long)fp_json_number(delivery, "batches_dropped"));
	printf("  collector %s: %llu batches stored, %llu tries failed",
	       collector[0] ? collector : "none",
	       (unsigned long long)fp_json_number(delivery, "batches_shipped"),
	       (unsigned long long)fp_json_number(delivery, "retries"));
	print_age(", the last stored ", fp_json_number(delivery, "last_success_ns"));
	printf("\n");
}

static void print_status(const json_t *status)
{
	const json_t *warnings = json_object_get(status, "warnings");

	printf("fleetprof-agent %s, pid %llu, on %s (Linux %s), %llu CPUs, up %llu s\n",
	       fp_json_text(status, "version"), (unsigned long long)fp_json_number(status, "pid"),
	       fp_json_text(status, "hostname"), fp_json_text(status, "kernel"),
	       (unsigned long long)fp_json_number(status, "cpus"),
	       (unsigned long long)fp_json_number(status, "uptime_ms") / 1000);
	print_sources(status);
	print_programs(json_object_get(status, "programs"));
	print_kernel_side(status);
	print_names(status);
	print_unwinding(status);
	print_delivery(status);
	for (size_t i = 0; i < json_array_size(warnings); i++)
		printf("  warning   %s\n", json_string_value(json_array_get(warnings, i)));
}

int fp_status_fetch(const char *socket_path, json_t **ret)
{
	struct fp_agent_link link FP_CLEANUP(fp_link_close) = { .fd = -1 };
	int r = fp_link_open(socket_path, &link);

	if (r == 0)
		r = fp_link_send(&link, "{\"verb\":\"status\"}\n");
	return r == 0 ? fp_link_line(&link, ANSWER_TIMEOUT_MS, ret) : r;
}

static int run_status(const struct fp_command *command, int argc, char **argv)
{
	struct status_options options = { .socket = fp_default_socket() };
	json_t *status FP_CLEANUP(fp_json_freep) = NULL;
	int r = fp_command_parse(command, argc, argv, set_option, &options, NULL);

	if (r != 0)
		return r == FP_COMMAND_DONE ? FP_EXIT_OK : r;
	r = fp_status_fetch(options.socket, &status);
	if (r < 0)
		return fp_link_fail(r, options.socket);
	if (strcmp(fp_json_text(status, "type"), "status") != 0)
		return fp_link_refused(status);
	if (!options.json)
		print_status(status);
	else if (json_dumpf(status, stdout, JSON_INDENT(2)) < 0 || puts("") < 0)
		return FP_EXIT_FAILED;
	return fflush(stdout) ? FP_EXIT_FAILED : FP_EXIT_OK;
}

static const struct fp_option status_options[] = {
	{ 's', "socket", "PATH", "control socket of the agent" },
	{ 'j', "json", NULL, "print the agent's answer as JSON" },
};

const struct fp_command fp_command_status = {
	.name = "status",
	.arguments = "",
	.help = "Shows what the agent of this host is doing.",
	.options = status_options,
	.options_count = FP_ARRAY_SIZE(status_options),
	.run = run_status,
};
