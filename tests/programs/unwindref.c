// SPDX-License-Identifier: Apache-2.0
//
// Stops threads of a process and of those below it at random instants and prints how their stacks
// are walked by libdwfl and by our walker. Lines:
//   V <version> <pid>                                mappings were read
//   M <version> <start> <end> <offset> <build-ID or -> <path in hex>
//   X <tid> <begin_ns>                               it was stopped perhaps, but not walked
//   S <version> <tid> <begin_ns> <end_ns> <end> [<address>…] | <end> [<address>…]
// The first walk of a stop is the reference's, the second ours; numbers but versions and thread ids
// and times are hexadecimal.
#include "unwindref.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
	struct ref_target target;
	uint32_t stops, frames_max;
	double rate, seconds;
	bool no_tables;
};

struct run {
	struct ref_processes *processes;
	struct ref_tables *tables;
	struct ref_stop stop;
	struct ref_chain reference, ours;
	uint32_t printed; // version whose mappings were printed last
	uint32_t taken, missed;
};

static void print_hex(const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)bytes)[i]);
	if (size == 0)
		putchar('-');
}

static void print_maps(const struct ref_process *process)
{
	printf("V %u %d\n", process->number, process->pid);
	for (uint32_t i = 0; i < process->maps_count; i++) {
		const struct fp_procfs_map *map = &process->maps[i].map;

		printf("M %u %" PRIx64 " %" PRIx64 " %" PRIx64 " ", process->number, map->start,
		       map->end, map->page_offset);
		print_hex(map->build_id, map->build_id_len);
		putchar(' ');
		print_hex(map->name, strlen(map->name));
		putchar('\n');
	}
}

static void print_chain(const struct ref_chain *chain)
{
	printf(" %s", chain->end);
	for (uint32_t i = 0; i < chain->count; i++)
		printf(" %" PRIx64, chain->frames[i]);
}

static void print_stop(const struct run *run, const struct ref_process *process)
{
	printf("S %u %d %" PRIu64 " %" PRIu64, process->number, run->stop.tid, run->stop.begin_ns,
	       run->stop.end_ns);
	print_chain(&run->reference);
	printf(" |");
	print_chain(&run->ours);
	putchar('\n');
}

// Both walks of a stopped thread.
static int walk_both(struct run *run, const struct options *options, struct ref_process **ret)
{
	struct ref_process *process;
	int error = ref_process_now(run->processes, run->stop.pid, &process);

	if (error == 0 && process->parts == NULL && !options->no_tables)
		error = ref_tables_ranges(run->tables, process, &process->parts);
	if (error != 0)
		return error;
	ref_dwfl_walk(process, &run->stop, &run->reference);
	ref_walker_walk(process, &run->stop, options->frames_max, &run->ours);
	*ret = process;
	return 0;
}

static int one_stop(struct run *run, const struct options *options)
{
	struct ref_process *process;
	pid_t pid, tid;
	int error = ref_choose(&options->target, &pid, &tid);

	if (error != 0)
		return error;
	error = ref_stop_begin(pid, tid, &run->stop);
	if (error == 0) {
		error = walk_both(run, options, &process);
		ref_stop_end(&run->stop);
	}
	if (error != 0) {
		printf("X %d %" PRIu64 "\n", tid, run->stop.begin_ns);
		return error;
	}
	if (process->number > run->printed) {
		print_maps(process);
		run->printed = process->number;
	}
	print_stop(run, process);
	return 0;
}

// Exponentially distributed, so that no rhythm of the program is met more often than another.
static void wait_a_while(double rate)
{
	double seconds = -log(1 - drand48()) / rate;
	struct timespec time = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };

	nanosleep(&time, NULL);
}

static int stop_and_walk(struct run *run, const struct options *options)
{
	uint64_t end_ns = fp_monotonic_ns() + (uint64_t)(options->seconds * FP_NS_PER_S);

	while (run->taken < options->stops && fp_monotonic_ns() < end_ns) {
		int error;

		wait_a_while(options->rate);
		error = one_stop(run, options);
		run->taken += error == 0;
		run->missed += error != 0;
	}
	fprintf(stderr, "unwindref: %u stops, %u that came to nothing\n", run->taken, run->missed);
	return run->taken > 0 ? 0 : 1;
}

static _Noreturn void usage(const char *program)
{
	fprintf(stderr,
		"usage: %s --tree PID [--executable REGEX] [--stops N] [--rate HZ] [--seconds S]\n"
		"       [--running SHARE] [--frames N] [--seed N] [--no-tables]\n",
		program);
	exit(2);
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{ "tree", required_argument, NULL, 't' },
		{ "executable", required_argument, NULL, 'e' },
		{ "stops", required_argument, NULL, 'n' },
		{ "rate", required_argument, NULL, 'r' },
		{ "seconds", required_argument, NULL, 's' },
		{ "running", required_argument, NULL, 'R' },
		{ "frames", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 'S' },
		{ "no-tables", no_argument, NULL, 'N' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		if (option == 't')
			options->target.root = (pid_t)strtol(optarg, NULL, 10);
		else if (option == 'e')
			options->target.executable = optarg;
		else if (option == 'n')
			options->stops = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			options->rate = strtod(optarg, NULL);
		else if (option == 's')
			options->seconds = strtod(optarg, NULL);
		else if (option == 'R')
			options->target.running = strtod(optarg, NULL);
		else if (option == 'f')
			options->frames_max = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'S')
			srand48(strtol(optarg, NULL, 10));
		else if (option == 'N')
			options->no_tables = true;
		else
			usage(argv[0]);
	}
	if (optind != argc || options->target.root <= 0 || options->rate <= 0 ||
	    options->frames_max == 0 || options->frames_max > REF_FRAMES_MAX)
		usage(argv[0]);
}

int main(int argc, char **argv)
{
	struct options options = { .target.running = 0.75,
				   .stops = 2000,
				   .frames_max = REF_FRAMES_MAX,
				   .rate = 200,
				   .seconds = 60 };
	struct run *run FP_AUTOFREE = calloc(1, sizeof(*run));
	int error;

	parse(argc, argv, &options);
	if (run == NULL || ref_processes_new(&run->processes) != 0 ||
	    ref_tables_new(&run->tables) != 0) {
		fprintf(stderr, "unwindref: out of memory\n");
		return 1;
	}
	error = stop_and_walk(run, &options);
	ref_processes_free(run->processes);
	ref_tables_free(run->tables);
	return error;
}
