// SPDX-License-Identifier: Apache-2.0
//
// storm: a compile storm. --threads jobs (default: one per CPU) run gcc over and over on a
// small source for --seconds: some hundred short-lived processes a second with cc1's large
// and varied stacks, the hardest ordinary load for a profiler's tables.
#include "reference.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source_text[] =
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "struct item { int key; char name[32]; double weight; struct item *next; };\n"
    "static int order(const void *a, const void *b)\n"
    "{ const struct item *x = a, *y = b; return (x->key > y->key) - (x->key < y->key); }\n"
    "double total(struct item *items, int n)\n"
    "{ double sum = 0; qsort(items, n, sizeof(*items), order);\n"
    "  for (int i = 0; i < n; i++) { items[i].next = i + 1 < n ? &items[i + 1] : 0;\n"
    "    if (strlen(items[i].name) % 3 == 1) sum += items[i].weight * i; else sum /= 1.5; }\n"
    "  return sum; }\n"
    "int main(int argc, char **argv)\n"
    "{ struct item *items = calloc(argc, sizeof(*items));\n"
    "  for (int i = 0; i < argc; i++) { items[i].key = atoi(argv[i]); items[i].weight = i;\n"
    "    snprintf(items[i].name, sizeof(items[i].name), \"%s\", argv[i]); }\n"
    "  printf(\"%f\\n\", total(items, argc)); free(items); return 0; }\n";

extern char **environ;

static volatile sig_atomic_t stopped;

// The compiles under way end and the files are removed.
static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

struct job {
	pthread_t thread;
	const char *source;
	uint64_t end_ns;
	uint64_t compiles;
};

static void compile(const char *source)
{
	char *arguments[] = { "gcc", "-O2", "-c", "-o", "/dev/null", (char *)source, NULL };
	int status;
	pid_t pid;

	errno = posix_spawnp(&pid, "gcc", NULL, NULL, arguments, environ);
	if (errno != 0)
		die("gcc");
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if ((!WIFEXITED(status) || WEXITSTATUS(status) != 0) && !stopped) {
		fprintf(stderr, "gcc failed\n");
		exit(1);
	}
}

static void *job_main(void *argument)
{
	struct job *job = argument;

	while (!stopped && clock_ns(CLOCK_MONOTONIC) < job->end_ns) {
		compile(job->source);
		job->compiles++;
	}
	return NULL;
}

static void write_source(const char *path)
{
	FILE *file = fopen(path, "we");

	if (file == NULL || fputs(source_text, file) < 0 || fclose(file) != 0)
		die(path);
}

int main(int argc, char **argv)
{
	int cpus[64];
	struct options options = { .seconds = 10, .threads = usable_cpus(cpus, 64), .depth = 1 };
	char folder[] = "/tmp/storm.XXXXXX", source[sizeof(folder) + 16];
	uint64_t compiles = 0, start;
	struct job *jobs;

	options_parse(argc, argv, &options);
	if (mkdtemp(folder) == NULL)
		die("mkdtemp");
	snprintf(source, sizeof(source), "%s/storm.c", folder);
	write_source(source);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	jobs = calloc((size_t)options.threads, sizeof(*jobs));
	if (jobs == NULL)
		die("calloc");
	gate_enter(&options);
	start = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < options.threads; i++) {
		jobs[i].source = source;
		jobs[i].end_ns = start + (uint64_t)(options.seconds * 1e9);
		if (pthread_create(&jobs[i].thread, NULL, job_main, &jobs[i]) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < options.threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		compiles += jobs[i].compiles;
	}
	printf("{\"program\":\"storm\",\"pid\":%d,\"compiles\":%llu,\"wall_ns\":%llu}\n",
	       (int)getpid(), (unsigned long long)compiles,
	       (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - start));
	gate_leave(&options);
	unlink(source);
	rmdir(folder);
	free(jobs);
	return 0;
}
