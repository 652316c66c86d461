// SPDX-License-Identifier: Apache-2.0
#include "reference.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

noreturn void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static noreturn void usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--seconds S] [--threads N] [--depth N] [--round-trips N] [--gate]\n"
		"       [--gate] [--migrate] [--same-cpu] [--pin] [--processes]\n",
		program);
	exit(2);
}

static double number(const char *program, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= 0 && value <= 1e9))
		usage(program);
	return value;
}

void options_parse(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
		{ "depth", required_argument, NULL, 'd' },
		{ "round-trips", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 'S' },
		{ "gate", no_argument, NULL, 'g' },
		{ "migrate", no_argument, NULL, 'm' },
		{ "same-cpu", no_argument, NULL, 'c' },
		{ "pin", no_argument, NULL, 'p' },
		{ "processes", no_argument, NULL, 'P' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (option) {
		case 's':
			options->seconds = number(argv[0], optarg);
			break;
		case 't':
			options->threads = (int)number(argv[0], optarg);
			break;
		case 'd':
			options->depth = (int)number(argv[0], optarg);
			break;
		case 'n':
			options->round_trips = (uint64_t)number(argv[0], optarg);
			break;
		case 'S':
			options->seed = (uint64_t)number(argv[0], optarg);
			break;
		case 'g':
			options->gate = true;
			break;
		case 'm':
			options->migrate = true;
			break;
		case 'c':
			options->same_cpu = true;
			break;
		case 'p':
			options->pin = true;
			break;
		case 'P':
			options->processes = true;
			break;
		default:
			usage(argv[0]);
		}
	}
	if (optind != argc || options->threads < 1 || options->depth < 1)
		usage(argv[0]);
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now) != 0)
		die("clock_gettime");
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

void gate_enter(const struct options *options)
{
	char byte;

	if (!options->gate)
		return;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) != 1) {
		fprintf(stderr, "the gate was closed before the start\n");
		exit(1);
	}
}

void gate_leave(const struct options *options)
{
	char byte;

	fflush(stdout);
	while (options->gate && read(STDIN_FILENO, &byte, 1) == 1)
		;
}

int usable_cpus(int *cpus, int capacity)
{
	cpu_set_t set;
	int count = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[count++] = cpu;
	}
	return count;
}

void pin_to_cpu(int index)
{
	int cpus[64];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus[index % usable_cpus(cpus, 64)], &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die("sched_setaffinity");
}
