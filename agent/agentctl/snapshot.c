// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include "agent/control.h"
#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

// The first ones are the rows of fp_aspects, in their order.
enum {
	OPTION_CPU = 1,
	OPTION_OFF_CPU,
	OPTION_RUN_QUEUE,
	OPTION_WAKERS,
	OPTION_WALL,
	OPTION_BOTH,
	OPTION_RAW,
	OPTION_SOCKET,
	OPTION_STANDALONE
};

volatile sig_atomic_t fp_snapshot_interrupted;

bool fp_snapshot_shows(const struct fp_snapshot_options *options, const struct fp_aspect *aspect)
{
	return options->shown & 1u << (aspect - fp_aspects);
}

// Run queue and wakers are parts of off-CPU intervals, which must be followed for them.
bool fp_snapshot_records(const struct fp_snapshot_options *options, enum fp_profile_type type)
{
	uint32_t types = 0;

	for (size_t i = 0; i < fp_aspects_count; i++)
		if (fp_snapshot_shows(options, &fp_aspects[i]))
			types |= fp_aspects[i].types;
	if (types & (FP_TYPE_BIT(FP_PROFILE_RUN_QUEUE) | FP_TYPE_BIT(FP_PROFILE_WAKER)))
		types |= FP_TYPE_BIT(FP_PROFILE_OFF_CPU);
	return types & FP_TYPE_BIT(type);
}

void fp_snapshot_result_clear(struct fp_snapshot_result *result)
{
	fp_profile_free(result->profile);
	*result = (struct fp_snapshot_result){ 0 };
}

static void on_interrupt(int signal_number)
{
	fp_snapshot_interrupted = 1;
}

// Without SA_RESTART, so that waiting ends; once, so that a second signal kills.
static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void fp_snapshot_progress(const struct fp_snapshot_options *options, uint64_t elapsed_ns,
			  uint64_t samples, uint64_t intervals)
{
	if (options->quiet || !isatty(STDERR_FILENO))
		return;
	if (elapsed_ns == 0) {
		fprintf(stderr, "\r\033[K");
		return;
	}
	fprintf(stderr, "\r\033[K%.0f of %.0f s", (double)elapsed_ns / 1e9,
		(double)options->duration_ns / 1e9);
	if (fp_snapshot_records(options, FP_PROFILE_CPU))
		fprintf(stderr, ", %llu samples", (unsigned long long)samples);
	if (fp_snapshot_records(options, FP_PROFILE_OFF_CPU))
		fprintf(stderr, ", %llu off-CPU intervals", (unsigned long long)intervals);
	fprintf(stderr, " (Ctrl-C ends early)");
	fflush(stderr);
}

static int set_pid(const char *value, struct fp_snapshot_options *options)
{
	uint64_t number;

	if (fp_number_parse(value, 1, 1 << 22, &number) < 0)
		return fp_command_fail(FP_EXIT_USAGE, "'%s' is no process id, give a number",
				       value);
	options->pid = (uint32_t)number;
	return 0;
}

static int set_hz(const char *value, struct fp_snapshot_options *options)
{
	uint64_t number;

	if (fp_number_parse(value, 1, FP_SNAPSHOT_HZ_MAX, &number) < 0)
		return fp_command_fail(FP_EXIT_USAGE,
				       "'%s' is no sampling rate, give a number from 1 to %d",
				       value, FP_SNAPSHOT_HZ_MAX);
	options->hz = (uint32_t)number;
	return 0;
}

static int set_duration(const char *value, struct fp_snapshot_options *options)
{
	if (fp_duration_parse(value, &options->duration_ns) < 0 ||
	    options->duration_ns < FP_SNAPSHOT_SECONDS_MIN * FP_NS_PER_S ||
	    options->duration_ns > FP_SNAPSHOT_SECONDS_MAX_TRUSTED * FP_NS_PER_S)
		return fp_command_fail(FP_EXIT_USAGE,
				       "'%s' is no duration, give e.g. 1500ms, 10s or 2min, at "
				       "least %ds and at most %ds",
				       value, FP_SNAPSHOT_SECONDS_MIN,
				       FP_SNAPSHOT_SECONDS_MAX_TRUSTED);
	return 0;
}

static uint32_t picture_of(char id)
{
	return 1u << (id - OPTION_CPU);
}

static int set_option(char id, const char *value, void *context)
{
	struct fp_snapshot_options *options = context;

	switch (id) {
	case 'p':
		return set_pid(value, options);
	case 'F':
		return set_hz(value, options);
	case 'd':
		return set_duration(value, options);
	case 'f':
		options->format = value;
		break;
	case 'o':
		options->output = value;
		break;
	case 'q':
		options->quiet = true;
		break;
	case OPTION_CPU:
	case OPTION_OFF_CPU:
	case OPTION_RUN_QUEUE:
	case OPTION_WAKERS:
	case OPTION_WALL:
		options->shown |= picture_of(id);
		break;
	case OPTION_BOTH:
		options->shown |= picture_of(OPTION_CPU) | picture_of(OPTION_OFF_CPU);
		break;
	case OPTION_RAW:
		options->raw = true;
		break;
	case OPTION_SOCKET:
		options->socket = value;
		break;
	case OPTION_STANDALONE:
		options->standalone = true;
		break;
	}
	return 0;
}

// Held from before the snapshot, so that files of a process that ends can still be named.
static int open_root(uint32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int take(const struct fp_snapshot_options *options, struct fp_snapshot_result *result)
{
	int code;

	if (options->standalone)
		return fp_snapshot_alone(options, result);
	code = fp_snapshot_by_agent(options, result);
	if (code != FP_EXIT_NOT_RUNNING)
		return code;
	if (geteuid() != 0)
		return fp_command_fail(
		    FP_EXIT_NOT_RUNNING,
		    "no agent answers on '%s'; start it (systemctl start "
		    "fleetprof-agent), or run agentctl as root to sample without one",
		    options->socket);
	if (!options->quiet)
		fp_command_say("agentctl: no agent answers on '%s', sampling without it",
			       options->socket);
	return fp_snapshot_alone(options, result);
}

static void say_end(const struct fp_snapshot_options *options,
		    const struct fp_snapshot_result *result)
{
	if (options->quiet)
		return;
	if (result->pid != options->pid)
		fp_command_say(
		    "agentctl: %u is a thread of process %u ('%s'), which was taken whole",
		    options->pid, result->pid, result->comm);
	if (strcmp(result->ended, "process_ended") == 0)
		fp_command_say("agentctl: process %u ('%s') ended after %.1f s; this is what was "
			       "collected until then",
			       result->pid, result->comm, (double)result->elapsed_ns / 1e9);
	else if (strcmp(result->ended, "stopped") == 0)
		fp_command_say("agentctl: ended early, after %.1f s",
			       (double)result->elapsed_ns / 1e9);
}

static int run_snapshot(const struct fp_command *command, int argc, char **argv)
{
	struct fp_snapshot_options options = {
		.duration_ns = 10 * FP_NS_PER_S,
		.hz = 99,
		.socket = fp_default_socket(),
	};
	struct fp_snapshot_result result FP_CLEANUP(fp_snapshot_result_clear) = { 0 };
	int root_fd FP_AUTOCLOSE = -1;
	int r = fp_command_parse(command, argc, argv, set_option, &options, NULL);

	if (r != 0)
		return r == FP_COMMAND_DONE ? FP_EXIT_OK : r;
	if (options.pid == 0)
		return fp_command_fail(FP_EXIT_USAGE, "no process, give one with --pid");
	if (!options.shown)
		options.shown = picture_of(OPTION_CPU);
	if (!options.format)
		options.format = !options.output && isatty(STDOUT_FILENO) ? "table" : "folded";
	if (!fp_snapshot_view_check(&options))
		return FP_EXIT_USAGE;
	root_fd = open_root(options.pid);
	catch_interrupts();
	r = take(&options, &result);
	if (r != 0)
		return r;
	say_end(&options, &result);
	return fp_snapshot_view(&options, &result, root_fd);
}

static const struct fp_option snapshot_options[] = {
	{ 'p', "pid", "N", "the process; a thread's number takes its process" },
	{ 'd', "duration", "TIME", "how long, e.g. 1500ms, 10s, 2min (10s)" },
	{ 'F', "hz", "N", "samples per second of CPU time, at most 997 (99)" },
	{ OPTION_CPU, "cpu", NULL, "where it uses the CPU (the default)" },
	{ OPTION_OFF_CPU, "off-cpu", NULL, "where it is blocked" },
	{ OPTION_RUN_QUEUE, "run-queue", NULL, "where it is ready to run, but not running" },
	{ OPTION_WAKERS, "wakers", NULL, "who ends its waits, on top of where it waits" },
	{ OPTION_WALL, "wall", NULL, "all of that time but wakers in one picture, as nanoseconds" },
	{ OPTION_BOTH, "both", NULL, "the same as --cpu --off-cpu" },
	{ 'f', "format", "FORMAT", "folded, svg, pprof, table or json" },
	{ 'o', "output", "FILE", "write there instead of to standard output" },
	{ OPTION_RAW, "raw", NULL, "frames as build-ID+offset, as an agent ships them" },
	{ OPTION_SOCKET, "socket", "PATH", "control socket of the agent" },
	{ OPTION_STANDALONE, "standalone", NULL, "sample without the agent (root)" },
	{ 'q', "quiet", NULL, "no progress and no summary on standard error" },
};

const struct fp_command fp_command_snapshot = {
	.name = "snapshot",
	.arguments = "--pid N",
	.help = "Profiles one process, now.",
	.notes =
	    "Pictures can be combined, except --wall, which holds the others; with -o each gets a\n"
	    "file of its own. Wakers may be other users' processes, so they are for root and the\n"
	    "agent's control group.\n\n"
	    "The running agent takes the snapshot; without one, root samples on its own. Without\n"
	    "--format a terminal gets a table, anything else folded stacks. How far the profile "
	    "can\n"
	    "be trusted is said on standard error.\n",
	.options = snapshot_options,
	.options_count = FP_ARRAY_SIZE(snapshot_options),
	.run = run_snapshot,
};
