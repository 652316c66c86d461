// SPDX-License-Identifier: Apache-2.0
//
// make_batches: batches whose content is known, for tests of the collector and for its
// benchmarks. Writes DIR/<host>-<sequence>.batch and, per batch, one line to stdout:
//   <file> <batch id> <cpu samples> <off-CPU nanoseconds>
// The same arguments give the same bytes.
//
//   make_batches --out=DIR [--host=a] [--first=1] [--count=1] [--start=UNIX] [--step=60]
//     [--stacks=200] [--depth=20] [--hz=19] [--seed=1] [--hostile] [--bad-quality] [--waits]
//
// --waits: also states, run-queue time, wakers, and the quality records of what is off the CPU.
#include "proto/batch.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct plan {
	const char *out, *host;
	uint64_t first, count, start_s, step_s, stacks, depth, hz, seed;
	bool hostile, bad_quality, waits;
};

static uint64_t random_state;

static uint64_t next_random(uint64_t below) // xorshift64*
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 2685821657736338717ULL >> 33) % below;
}

static const char *const words[] = {
	"server_loop",
	"do_query",
	"parse_row",
	"index_row",
	"do_ingest",
	"leaf_io",
	"leaf_alloc",
	"std::sort",
	"hash_lookup",
	"json_parse",
	"read_block",
	"compress",
	"encode",
	"checksum",
	"flush",
	"lock",
	"memcpy",
	"malloc",
	"tls_write",
	"http_handle",
	"route",
	"render",
	"template<int>::apply",
};
static const char *const executables[] = { "web", "db", "ingest", "batch" };
static const char *const threads[] = { "main", "worker-1", "worker-2", "io", "gc" };
static const char *const hostile_words[] = {
	"<script>document.title='owned'</script>",
	"\"><img src=x onerror=\"document.title='owned'\">",
	"';alert(1)//",
	"</title><script>document.title='owned'</script>",
	"]]><script xmlns='http://www.w3.org/1999/xhtml'>document.title='owned'</script>",
	"a;b _[k]\n12\x01\xff\xfe",
	"\\u003cscript\\u003e",
	"javascript:document.title='owned'",
};

static uint32_t string(struct fp_profile *profile, const char *text)
{
	uint32_t id = 0;

	if (fp_profile_cstring(profile, text, &id) < 0)
		exit(1);
	return id;
}

static const char *pick_word(const struct plan *plan)
{
	if (plan->hostile)
		return hostile_words[next_random(FP_ARRAY_SIZE(hostile_words))];
	return words[next_random(FP_ARRAY_SIZE(words))];
}

static uint32_t add_build(struct fp_profile *profile, const char *path, uint8_t fill)
{
	struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20 };
	uint32_t id = 0;

	memset(build.id, fill, build.id_len);
	build.path = string(profile, path);
	if (fp_profile_build(profile, &build, &id) < 0)
		exit(1);
	return id;
}

static uint32_t add_frame(struct fp_profile *profile, const struct plan *plan, uint64_t level,
			  const uint32_t *builds)
{
	struct fp_frame frame = { .kind = FP_FRAME_NAMED, .build = FP_NO_BUILD };
	uint32_t id = 0;

	if (level == 0 && next_random(3) == 0) {
		frame.kind = FP_FRAME_KERNEL;
		frame.build = builds[0];
		frame.offset = 0x1000 * (1 + next_random(8)) + 0x10;
	} else if (next_random(4) == 0) {
		frame.kind = FP_FRAME_FILE;
		frame.build = builds[1];
		frame.offset = 0x4000 + 0x100 * next_random(40);
	} else {
		frame.name = string(profile, pick_word(plan));
	}
	if (fp_profile_frame(profile, &frame, &id) < 0)
		exit(1);
	return id;
}

// Stacks share their outer frames, as real ones do: each copies a random outer part of the
// one before it and makes the rest new.
static void add_stacks(struct fp_profile *profile, const struct plan *plan)
{
	const uint32_t builds[] = {
		add_build(profile, "[kernel]", 0x11),
		add_build(profile, plan->hostile ? hostile_words[1] : "/usr/bin/web", 0x22)
	};
	FP_AUTOFREE uint32_t *root_first = calloc(plan->depth + 1, sizeof(*root_first));
	FP_AUTOFREE uint32_t *leaf_first = calloc(plan->depth + 1, sizeof(*leaf_first));

	if (!root_first || !leaf_first)
		exit(1);
	for (uint64_t i = 0; i < plan->stacks; i++) {
		uint64_t depth = plan->depth / 2 + next_random(plan->depth / 2 + 1);
		uint64_t shared = i ? next_random(depth + 1) : 0;
		uint32_t id;

		for (uint64_t j = shared; j < depth; j++)
			root_first[j] = add_frame(profile, plan, depth - 1 - j, builds);
		for (uint64_t j = 0; j < depth; j++)
			leaf_first[j] = root_first[depth - 1 - j];
		if (fp_profile_stack(profile, leaf_first, (uint32_t)depth, &id) < 0)
			exit(1);
	}
}

// state: NULL for none.
static uint32_t add_labels(struct fp_profile *profile, const struct plan *plan, uint64_t i,
			   const char *state)
{
	const char *executable = executables[i % FP_ARRAY_SIZE(executables)];
	const char *thread = threads[i / 4 % FP_ARRAY_SIZE(threads)];
	struct fp_label labels[] = {
		{ string(profile, "executable"),
		  string(profile, plan->hostile ? pick_word(plan) : executable) },
		{ string(profile, "thread"),
		  string(profile, plan->hostile ? pick_word(plan) : thread) },
		{ string(profile, "state"), string(profile, state ? state : "") },
	};
	uint32_t id = 0;

	if (fp_profile_labels(profile, labels, state ? 3 : 2, &id) < 0)
		exit(1);
	return id;
}

static void add_sample(struct fp_profile *profile, enum fp_profile_type type, uint32_t labels,
		       uint32_t stack, uint64_t value)
{
	struct fp_sample sample = { .type = type, .labels = labels, .stack = stack };

	sample.count = type == FP_PROFILE_CPU ? value : 1 + value / 10000000;
	sample.value = value;
	if (fp_profile_sample(profile, &sample) < 0)
		exit(1);
}

// Why walks stopped in the worst build; the last reason is of an agent younger than its reader.
static void add_stops(struct fp_profile *profile, uint64_t stopped)
{
	static const char *const reasons[] = { "no_entry", "not_loaded", "of_tomorrow" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(reasons); i++) {
		uint64_t count = i + 1 < FP_ARRAY_SIZE(reasons) ? stopped * 2 / 3 : stopped;

		if (fp_quality_stop(profile, FP_PROFILE_CPU, 1, string(profile, reasons[i]),
				    count) < 0)
			exit(1);
		stopped -= count;
	}
}

static void add_quality(struct fp_profile *profile, const struct plan *plan, uint64_t samples)
{
	uint64_t bad = plan->bad_quality ? samples / 2 : samples / 200;
	struct fp_build_quality *worst = fp_quality_build(profile, FP_PROFILE_CPU, 1);
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "samples", samples },
		{ "expected_samples", samples + samples / 100 },
		{ "hz_requested", plan->hz },
		{ "hz_actual", plan->hz },
		{ "cpus", 4 },
		{ "user_stacks", samples },
		{ "user_complete", samples - bad },
		{ "user_broken", bad },
		{ "frames", samples * plan->depth },
		{ "epochs", 6 },
		{ "map_capacity", 16384 },
		{ "map_entries_peak", plan->stacks },
		{ "cpu.runs", samples + 700 },
		{ "cpu.filtered.idle", 700 },
	};

	if (!worst)
		exit(1);
	worst->stacks = samples / 2;
	worst->stopped = bad;
	add_stops(profile, bad);
	for (size_t i = 0; i < FP_ARRAY_SIZE(counters); i++)
		fp_quality_set_named(profile, FP_PROFILE_CPU, counters[i].name, counters[i].value);
	profile->quality[FP_PROFILE_CPU].hook = string(profile, "perf_event");
}

// The stack with that of another on it, turned around, and who that was between.
static uint32_t add_pair(struct fp_profile *profile, uint32_t sleeper, uint32_t waker)
{
	const struct fp_stack *below = &profile->stacks[sleeper], *above = &profile->stacks[waker];
	struct fp_frame mark = { .kind = FP_FRAME_ERROR,
				 .build = FP_NO_BUILD,
				 .name = string(profile, "[woken by io]") };
	FP_AUTOFREE uint32_t *frames =
	    calloc((size_t)below->count + above->count + 1, sizeof(*frames));
	uint32_t count = 0, id = 0;

	if (!frames)
		exit(1);
	for (uint32_t i = above->count; i-- > 0;)
		frames[count++] = profile->stack_frames[above->first + i];
	if (fp_profile_frame(profile, &mark, &frames[count++]) < 0)
		exit(1);
	for (uint32_t i = 0; i < below->count; i++)
		frames[count++] = profile->stack_frames[below->first + i];
	if (fp_profile_stack(profile, frames, count, &id) < 0)
		exit(1);
	return id;
}

// Off-CPU time by state, and what else the scheduler can tell of the stack.
static void add_waits(struct fp_profile *profile, const struct plan *plan, uint32_t stack,
		      uint64_t off_ns)
{
	static const char *const states[] = { "interruptible", "interruptible", "uninterruptible",
					      "stopped" };
	const char *state = states[stack % FP_ARRAY_SIZE(states)];
	uint32_t plain = add_labels(profile, plan, stack, state);

	add_sample(profile, FP_PROFILE_OFF_CPU, plain, stack, off_ns);
	add_sample(profile, FP_PROFILE_WAKER, plain,
		   add_pair(profile, stack, (uint32_t)(stack * 7 % plan->stacks)), off_ns);
	add_sample(profile, FP_PROFILE_RUN_QUEUE,
		   add_labels(profile, plan, stack, stack % 3 ? "woken" : "preempted"), stack,
		   off_ns / 10);
}

static void add_waits_quality(struct fp_profile *profile, const uint64_t *sums)
{
	for (int type = FP_PROFILE_OFF_CPU; type < FP_PROFILE_TYPES; type++) {
		const struct {
			const char *name;
			uint64_t value;
		} counters[] = {
			{ "samples", 1 + sums[type] / 10000000 },
			{ "cpus", 4 },
			{ "epochs", 6 },
			{ "intervals", 1 + sums[type] / 9000000 },
			{ "intervals_ns", sums[type] - sums[type] / 100 },
			{ "intervals_cut", 12 },
			{ "quantum_min_ns", 1000000 },
			{ "quantum_max_ns", 8000000 },
			{ "weight_max", 1 },
			{ "walks", 1 + sums[type] / 90000000 },
			{ "walk_budget", 500 },
		};

		for (size_t i = 0; i < FP_ARRAY_SIZE(counters); i++)
			fp_quality_set_named(profile, type, counters[i].name, counters[i].value);
		profile->quality[type].hook = string(profile, "sched_exit_tp");
	}
}

static void set_header(struct fp_profile *profile, const struct plan *plan, uint64_t sequence)
{
	uint64_t start_s = plan->start_s + (sequence - plan->first) * plan->step_s;

	memset(profile->host_id, 0x40, sizeof(profile->host_id));
	memcpy(profile->host_id, plan->host, strnlen(plan->host, sizeof(profile->host_id)));
	memset(profile->boot_id, 0x50, sizeof(profile->boot_id));
	profile->sequence = sequence;
	profile->start_realtime_ns = start_s * FP_NS_PER_S;
	profile->end_realtime_ns = (start_s + plan->step_s) * FP_NS_PER_S;
	profile->start_boottime_ns = sequence * plan->step_s * FP_NS_PER_S;
	profile->end_boottime_ns = (sequence + 1) * plan->step_s * FP_NS_PER_S;
	profile->period_ns = FP_NS_PER_S / plan->hz;
	profile->hostname = string(profile, plan->host);
	profile->kernel_release = string(profile, "6.1.0-test");
	profile->machine = string(profile, "x86_64");
	profile->agent_version = string(profile, FP_VERSION);
}

static int write_batch(const struct plan *plan, const struct fp_profile *profile,
		       const uint64_t *sums)
{
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	FP_AUTOFREE char *path = NULL;
	FP_AUTOCLOSE int fd = -1;
	uint8_t id[FP_BATCH_ID_LEN];
	int r = fp_batch_encode(profile, &bytes);

	if (r < 0 || asprintf(&path, "%s/%s-%06llu.batch", plan->out, plan->host,
			      (unsigned long long)profile->sequence) < 0)
		return r < 0 ? r : -ENOMEM;
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	fp_batch_id(profile, id);
	printf("%s ", path);
	for (size_t i = 0; i < sizeof(id); i++)
		printf("%02x", id[i]);
	printf(" %llu %llu\n", (unsigned long long)sums[FP_PROFILE_CPU],
	       (unsigned long long)sums[FP_PROFILE_OFF_CPU]);
	return fp_write_all(fd, bytes.data, bytes.len);
}

static int make_batch(const struct plan *plan, uint64_t sequence)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	uint64_t sums[FP_PROFILE_TYPES] = { 0 };
	uint32_t stacks;
	int r = fp_profile_new(&profile);

	if (r < 0)
		return r;
	random_state = plan->seed * 0x9e3779b97f4a7c15ULL + 1; // stacks are alike in all batches
	set_header(profile, plan, sequence);
	add_stacks(profile, plan);
	random_state ^= sequence << 32;
	stacks = profile->stacks_count; // wakers make more
	for (uint32_t i = 0; i < stacks; i++) {
		uint32_t labels = add_labels(profile, plan, i, NULL);
		uint64_t cpu = 1 + next_random(next_random(20) == 0 ? 200 : 5);
		uint64_t off = 1000000 * (1 + next_random(500));

		add_sample(profile, FP_PROFILE_CPU, labels, i, cpu);
		if (plan->waits)
			add_waits(profile, plan, i, off);
		else
			add_sample(profile, FP_PROFILE_OFF_CPU, labels, i, off);
		sums[FP_PROFILE_CPU] += cpu;
		sums[FP_PROFILE_OFF_CPU] += off;
		sums[FP_PROFILE_RUN_QUEUE] += off / 10;
		sums[FP_PROFILE_WAKER] += off;
	}
	add_quality(profile, plan, sums[FP_PROFILE_CPU]);
	if (plan->waits)
		add_waits_quality(profile, sums);
	return write_batch(plan, profile, sums);
}

static bool read_switch(const char *argument, const char *name, bool *value)
{
	bool same = strcmp(argument, name) == 0;

	*value |= same;
	return same;
}

static bool read_argument(struct plan *plan, const char *argument)
{
	const struct {
		const char *name;
		uint64_t *number;
		const char **text;
	} options[] = {
		{ "--out=", NULL, &plan->out },	      { "--host=", NULL, &plan->host },
		{ "--first=", &plan->first, NULL },   { "--count=", &plan->count, NULL },
		{ "--start=", &plan->start_s, NULL }, { "--step=", &plan->step_s, NULL },
		{ "--stacks=", &plan->stacks, NULL }, { "--depth=", &plan->depth, NULL },
		{ "--hz=", &plan->hz, NULL },	      { "--seed=", &plan->seed, NULL },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(options); i++) {
		size_t size = strlen(options[i].name);

		if (strncmp(argument, options[i].name, size) != 0)
			continue;
		if (options[i].text)
			*options[i].text = argument + size;
		else
			*options[i].number = strtoull(argument + size, NULL, 10);
		return true;
	}
	return read_switch(argument, "--hostile", &plan->hostile) ||
	       read_switch(argument, "--bad-quality", &plan->bad_quality) ||
	       read_switch(argument, "--waits", &plan->waits);
}

int main(int argc, char **argv)
{
	struct plan plan = { .host = "a",
			     .first = 1,
			     .count = 1,
			     .step_s = 60,
			     .stacks = 200,
			     .depth = 20,
			     .hz = 19,
			     .seed = 1 };

	plan.start_s = fp_realtime_ns() / FP_NS_PER_S - 60;
	for (int i = 1; i < argc; i++) {
		if (!read_argument(&plan, argv[i])) {
			fprintf(stderr, "make_batches: unknown argument '%s'\n", argv[i]);
			return 2;
		}
	}
	if (!plan.out || !plan.hz || plan.depth < 2) {
		fprintf(stderr, "make_batches: --out=DIR is needed; hz and depth are positive\n");
		return 2;
	}
	for (uint64_t i = 0; i < plan.count; i++) {
		int r = make_batch(&plan, plan.first + i);

		if (r < 0) {
			fprintf(stderr, "make_batches: %s\n", strerror(-r));
			return 1;
		}
	}
	return 0;
}
