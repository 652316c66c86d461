// SPDX-License-Identifier: Apache-2.0
//
// unwindwalk: what one CPU sample costs by who walks its user stack and how deep it is: by unwind
// tables, by frame pointer, and by the kernel's helper (bpf_get_stack). The times are those of the
// kernel's statistics of the very programs that the agent loads:
//
//   ticks  of a perf event on tests/programs/deep, built with frame pointers and without; the mean,
//          with whatever the CPU was doing meanwhile: caches are as cold as they are in real use
//   runs   one after the other, by BPF_PROG_TEST_RUN of the tick's twin from a stack of this
//          program; the median: caches are warm
//
// What is left of a sample when one frame alone is taken is not the walk's. Needs root.
//
//   unwindwalk OBJECT PROGRAMS [HZ [SECONDS]]   OBJECT: fleetprof_bpf.bpf.o; SECONDS 0: no ticks
#include "tests/bpf/kernelspace.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define WARM_UP_MS 300
#define RUNS	   2001

struct options {
	const char *object, *programs;
	uint64_t hz;
	double seconds;
};

struct walk_kind {
	const char *name, *program;
	bool tables, helper;
	uint32_t max_frames;
	bool by_file;
};

static const struct walk_kind kinds[] = {
	{ "one frame alone", "deep", false, false, 1, false },
	{ "kernel's helper", "deep", false, true, FP_DEFAULT_USER_FRAMES, false },
	{ "frame pointers", "deep", false, false, FP_DEFAULT_USER_FRAMES, false },
	{ "unwind tables", "deep_nofp", true, false, FP_DEFAULT_USER_FRAMES, false },
	{ "tables, process without ranges", "deep_nofp", true, false, FP_DEFAULT_USER_FRAMES,
	  true },
};

struct cost {
	double sample_ns;
	uint32_t frames;
	uint64_t samples;
	enum fp_walk_end end;
};

struct seen { // of the stack records
	struct fp_stack_record record;
	uint32_t frames_max;
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "unwindwalk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wait_ms(double milliseconds)
{
	struct timespec time = { .tv_sec = (time_t)(milliseconds / 1000) };

	time.tv_nsec = (long)((milliseconds - (double)time.tv_sec * 1000) * 1e6);
	nanosleep(&time, NULL);
}

static pid_t start(const struct options *options, const char *program, uint32_t depth)
{
	char path[512], frames[16];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/%s", options->programs, program);
	snprintf(frames, sizeof(frames), "%u", depth);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(1);
		execl(path, path, "--depth", frames, "--pin", "--seconds", "3600", NULL);
		_exit(127);
	}
	if (pid < 0)
		fail(program);
	wait_ms(WARM_UP_MS);
	return pid;
}

static struct bpf_object *load(const struct options *options, const struct walk_kind *kind,
			       const char *wanted)
{
	struct bpf_object *object = bpf_object__open_file(options->object, NULL);
	struct bpf_program *program;

	if (!object || set_variable(object, ".rodata", "fp_unwind_tables", &kind->tables, 1) ||
	    set_variable(object, ".rodata", "fp_use_helper_walk", &kind->helper, 1) ||
	    set_variable(object, ".rodata", "fp_max_user_frames", &kind->max_frames, 4))
		fail(options->object);
	bpf_object__for_each_program(program, object)
	    bpf_program__set_autoload(program, strcmp(bpf_program__name(program), wanted) == 0);
	if (bpf_object__load(object))
		fail("loading the programs");
	return object;
}

// Ticks of the load's one working thread, its first besides the main one.
static int tick(const struct options *options, pid_t pid)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = options->hz };
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid + 1, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		fail("perf_event_open");
	return fd;
}

static int note_record(void *context, void *data, size_t size)
{
	const struct fp_stack_record *record = data;
	struct seen *seen = context;

	if (record->user_len >= seen->frames_max) { // not one of a tick in the leaf's callees
		seen->frames_max = record->user_len;
		memcpy(&seen->record, record, sizeof(*record));
	}
	return 0;
}

static int program_fd(const struct bpf_object *object, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

static struct bpf_prog_info statistics(int fd)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		fail("statistics");
	return info;
}

// One that its walks have met and stopped at. False: none any more.
static bool learn(struct kernel_space *kernel)
{
	struct fp_unwind_file_key key;
	struct fp_unwind_met met;
	struct kernel_space_place place;

	if (!kernel_space_met(kernel, &key, &met))
		return false;
	if (!kernel_space_place(met.tgid, met.address, &place))
		fail("a file that was met");
	kernel_space_know(kernel, &key, place.path);
	return true;
}

// Who the load is says its first record; then its ranges can be made.
static void map_tables(struct kernel_space *kernel, struct bpf_object *object, pid_t pid,
		       const struct fp_stack_record *record)
{
	struct fp_unwind_ranges who = { .start_boottime_ns = record->start_boottime_ns,
					.exec_id = record->exec_id,
					.version = 1 };

	kernel_space_open(kernel, object, 16);
	kernel_space_process(kernel, (uint32_t)pid, &who);
}

static struct cost measure_ticks(const struct options *options, const struct walk_kind *kind,
				 uint32_t depth)
{
	pid_t pid = start(options, kind->program, depth);
	struct bpf_object *object = load(options, kind, "cpu_tick");
	struct seen seen = { .frames_max = 0 };
	struct ring_buffer *ring = ring_buffer__new(
	    bpf_object__find_map_fd_by_name(object, "cpu_stacks"), note_record, &seen, NULL);
	struct bpf_link *link = bpf_program__attach_perf_event(
	    bpf_object__find_program_by_name(object, "cpu_tick"), tick(options, pid));
	struct bpf_prog_info before, after;
	struct kernel_space kernel;
	struct cost cost;

	if (!ring || !link)
		fail("attaching");
	wait_ms(WARM_UP_MS);
	ring_buffer__consume(ring);
	if (kind->by_file)
		kernel_space_open(&kernel, object, 16);
	else if (kind->tables)
		map_tables(&kernel, object, pid, &seen.record);
	do
		wait_ms(WARM_UP_MS);
	while (kind->by_file && learn(&kernel));
	before = statistics(program_fd(object, "cpu_tick"));
	wait_ms(options->seconds * 1000);
	after = statistics(program_fd(object, "cpu_tick"));
	ring_buffer__consume(ring);
	cost = (struct cost){ .samples = after.run_cnt - before.run_cnt,
			      .frames = seen.record.user_len,
			      .end = (enum fp_walk_end)seen.record.walk_end };
	cost.sample_ns = (double)(after.run_time_ns - before.run_time_ns) / (double)cost.samples;
	if (kind->tables)
		kernel_space_close(&kernel);
	bpf_link__destroy(link);
	ring_buffer__free(ring);
	bpf_object__close(object);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return cost;
}

static struct {
	union bpf_attr attr;
	int fd;
	uint64_t nanoseconds[RUNS];
} runs;
static volatile uint32_t sink; // written after each call, so that none is a tail call

#define LEAF	static inline __attribute__((always_inline)) void
#define POINTED __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
#define BARE	__attribute__((noinline, noclone, optimize("omit-frame-pointer")))

// The system call is made here: the C library's function has no frame pointer.
LEAF run_once(void)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_bpf), "D"(BPF_PROG_TEST_RUN), "S"(&runs.attr),
			   "d"(sizeof(runs.attr))
			 : "rcx", "r11", "memory");
	if (result)
		abort();
}

LEAF run_all(void)
{
	for (int i = 0; i < RUNS; i++) {
		uint64_t before = statistics(runs.fd).run_time_ns;

		run_once();
		runs.nanoseconds[i] = statistics(runs.fd).run_time_ns - before;
	}
}

POINTED static void dive_pointed(uint32_t remaining)
{
	if (remaining > 1)
		dive_pointed(remaining - 1);
	else
		run_all();
	sink = remaining;
}

BARE static void dive_bare(uint32_t remaining)
{
	if (remaining > 1)
		dive_bare(remaining - 1);
	else
		run_all();
	sink = remaining;
}

static void dive(const struct walk_kind *kind, uint32_t depth)
{
	if (kind->tables)
		dive_bare(depth);
	else
		dive_pointed(depth);
}

static int compare_words(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static struct cost measure_runs(const struct options *options, const struct walk_kind *kind,
				uint32_t depth)
{
	struct bpf_object *object = load(options, kind, "cpu_tick_twin");
	struct seen seen = { .frames_max = 0 };
	struct ring_buffer *ring = ring_buffer__new(
	    bpf_object__find_map_fd_by_name(object, "cpu_stacks"), note_record, &seen, NULL);
	struct kernel_space kernel;

	runs.fd = program_fd(object, "cpu_tick_twin");
	runs.attr.test.prog_fd = (uint32_t)runs.fd;
	dive(kind, depth); // also says who this program is
	ring_buffer__consume(ring);
	if (kind->tables) {
		if (kind->by_file)
			kernel_space_open(&kernel, object, 16);
		else
			map_tables(&kernel, object, getpid(), &seen.record);
		seen.frames_max = 0;
		do
			dive(kind, depth);
		while (kind->by_file && learn(&kernel));
		ring_buffer__consume(ring);
		kernel_space_close(&kernel);
	}
	ring_buffer__free(ring);
	bpf_object__close(object);
	qsort(runs.nanoseconds, RUNS, sizeof(runs.nanoseconds[0]), compare_words);
	return (struct cost){ .sample_ns = (double)runs.nanoseconds[RUNS / 2],
			      .samples = RUNS,
			      .frames = seen.record.user_len };
}

typedef struct cost (*measure_fn)(const struct options *options, const struct walk_kind *kind,
				  uint32_t depth);

static void print_depth(const struct options *options, const char *method, measure_fn measure,
			uint32_t depth)
{
	double base_ns = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct cost cost = measure(options, &kinds[k], depth);
		double walk_ns, steps = cost.frames > 1 ? cost.frames - 1 : 1;

		base_ns = k == 0 ? cost.sample_ns : base_ns;
		walk_ns = cost.sample_ns - base_ns;
		printf("| %s | %u | %s | %u | %llu | %.0f | %.0f | %.1f |\n", method, depth,
		       kinds[k].name, cost.frames, (unsigned long long)cost.samples, cost.sample_ns,
		       walk_ns, walk_ns / steps);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const uint32_t depths[] = { 10, 30, 100 };
	struct options options = { .hz = 997, .seconds = 4 };
	int switch_fd;

	if (argc < 3) {
		fprintf(stderr, "usage: unwindwalk OBJECT PROGRAMS [HZ [SECONDS]]\n");
		return 2;
	}
	options.object = argv[1];
	options.programs = argv[2];
	options.hz = argc > 3 ? strtoull(argv[3], NULL, 10) : options.hz;
	options.seconds = argc > 4 ? strtod(argv[4], NULL) : options.seconds;
	switch_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (switch_fd < 0)
		fail("statistics of BPF programs");
	printf("| By | Depth | Walk | Frames | Samples | ns a sample | of these the walk | "
	       "ns a frame |\n|---|---|---|---|---|---|---|---|\n");
	for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++)
		print_depth(&options, "runs", measure_runs, depths[d]);
	for (size_t d = 0; options.seconds > 0 && d < sizeof(depths) / sizeof(depths[0]); d++)
		print_depth(&options, "ticks", measure_ticks, depths[d]);
	close(switch_fd);
	return 0;
}
