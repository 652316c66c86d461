// SPDX-License-Identifier: Apache-2.0
//
// briefs [--round-trips PROCESSES] [--threads N]: thousands of processes that live 2 to 20 ms
// each, N at a time (default: one per CPU). Three of four are brief.c, executed; the fourth is a
// child that executes nothing, blocks in forked_wait and works in forked_leaf_<n>. Prints how
// many there were, the CPU time spent in every leaf and the time in both waits.
#define LEAF(number) forked_leaf_##number
#define WAIT	     forked_wait
#include "brief_work.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct job {
	pthread_t thread;
	uint64_t first, step, end;	       // numbers of its processes
	uint64_t leaf_cpu_ns[2][BRIEF_LEAVES]; // [forked][leaf]
	uint64_t waited_ns[2];
	uint64_t count[2];
};

static char brief_path[4096];

static uint64_t life_us(uint64_t number)
{
	return 2000 + number * 7919 % 18001; // evenly spread from 2 to 20 ms
}

// In the child: nothing but what is safe after a fork of a threaded program.
static noreturn void be_brief(uint64_t number, bool forked, int report_fd)
{
	uint64_t born_ns = clock_ns(CLOCK_MONOTONIC);
	char born[24], life[24], leaf[24];

	dup2(report_fd, BRIEF_FD);
	if (forked) {
		brief_live(born_ns, life_us(number), (uint32_t)(number / 4), 1);
		_exit(0);
	}
	snprintf(born, sizeof(born), "%llu", (unsigned long long)born_ns);
	snprintf(life, sizeof(life), "%llu", (unsigned long long)life_us(number));
	snprintf(leaf, sizeof(leaf), "%u", (uint32_t)(number / 4) % BRIEF_LEAVES);
	execl(brief_path, "brief", born, life, leaf, (char *)NULL);
	_exit(127);
}

static void run_one(struct job *job, uint64_t number, const int *pipe_fds)
{
	bool forked = number % 4 == 3;
	struct brief_report report;
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0)
		be_brief(number, forked, pipe_fds[1]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
	    read(pipe_fds[0], &report, sizeof(report)) != sizeof(report)) {
		fprintf(stderr, "a process failed\n");
		exit(1);
	}
	job->leaf_cpu_ns[report.forked][report.leaf] += report.leaf_cpu_ns;
	job->waited_ns[report.forked] += report.waited_ns;
	job->count[report.forked]++;
}

static void *job_main(void *argument)
{
	struct job *job = argument;
	int pipe_fds[2];

	if (pipe(pipe_fds) != 0)
		die("pipe");
	for (uint64_t number = job->first; number < job->end; number += job->step)
		run_one(job, number, pipe_fds);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return NULL;
}

static void print_truth(const struct job *jobs, int threads)
{
	uint64_t count[2] = { 0 }, waited_ns[2] = { 0 };

	printf("{\"program\":\"briefs\",\"pid\":%d,\"leaves\":{", (int)getpid());
	for (int forked = 0; forked < 2; forked++) {
		for (int leaf = 0; leaf < BRIEF_LEAVES; leaf++) {
			uint64_t cpu_ns = 0;

			for (int i = 0; i < threads; i++)
				cpu_ns += jobs[i].leaf_cpu_ns[forked][leaf];
			printf("%s\"%s_leaf_%d\":%llu", forked || leaf ? "," : "",
			       forked ? "forked" : "brief", leaf, (unsigned long long)cpu_ns);
		}
		for (int i = 0; i < threads; i++) {
			count[forked] += jobs[i].count[forked];
			waited_ns[forked] += jobs[i].waited_ns[forked];
		}
	}
	printf("},\"waits\":{\"brief_wait\":%llu,\"forked_wait\":%llu},"
	       "\"executed\":%llu,\"forked\":%llu}\n",
	       (unsigned long long)waited_ns[0], (unsigned long long)waited_ns[1],
	       (unsigned long long)count[0], (unsigned long long)count[1]);
}

// brief lies beside this program.
static void find_brief(void)
{
	ssize_t size = readlink("/proc/self/exe", brief_path, sizeof(brief_path) - 8);
	char *slash;

	if (size < 0)
		die("/proc/self/exe");
	brief_path[size] = '\0';
	slash = strrchr(brief_path, '/');
	if (slash == NULL)
		die("/proc/self/exe");
	strcpy(slash + 1, "brief");
	if (access(brief_path, X_OK) != 0)
		die("brief");
}

int main(int argc, char **argv)
{
	int cpus[64];
	struct options options = {
		.seconds = 10, .threads = usable_cpus(cpus, 64), .depth = 1, .round_trips = 2000
	};
	struct job *jobs;

	options_parse(argc, argv, &options);
	find_brief();
	jobs = calloc((size_t)options.threads, sizeof(*jobs));
	if (jobs == NULL)
		die("calloc");
	gate_enter(&options);
	for (int i = 0; i < options.threads; i++) {
		jobs[i].first = (uint64_t)i;
		jobs[i].step = (uint64_t)options.threads;
		jobs[i].end = options.round_trips;
		if (pthread_create(&jobs[i].thread, NULL, job_main, &jobs[i]) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < options.threads; i++)
		pthread_join(jobs[i].thread, NULL);
	print_truth(jobs, options.threads);
	gate_leave(&options);
	free(jobs);
	return 0;
}
