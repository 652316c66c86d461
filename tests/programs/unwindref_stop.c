// SPDX-License-Identifier: Apache-2.0
//
// Stopping one thread at a time. It is seized for the stop alone, so that nothing of the program is
// traced in between: signals, forks and ends are none of our business.
#include "unwindref.h"

#include "common/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define THREADS_MAX   1024
#define PROCESSES_MAX 256
#define RED_ZONE      128 // bytes below the stack pointer that a leaf may use
#define PAGE	      4096u

struct thread {
	pid_t pid, tid;
	bool running;
};

struct threads {
	struct thread list[THREADS_MAX];
	uint32_t count, running;
};

static ssize_t read_text(const char *path, char *text, size_t size)
{
	FILE *file FP_AUTOFCLOSE = fopen(path, "re");
	size_t length;

	if (file == NULL)
		return -errno;
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	return (ssize_t)length;
}

// The letter behind the name, which may hold anything; 0 when the thread is gone.
static char state_of(pid_t pid, pid_t tid)
{
	char path[64], text[512];
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return 0;
	end = strrchr(text, ')');
	return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static void add_threads(struct threads *threads, pid_t pid)
{
	char path[64];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	directory = opendir(path);
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		char state = isdigit((unsigned char)entry->d_name[0]) ? state_of(pid, tid) : 0;

		if (strchr("RSD", state) == NULL || state == 0 || threads->count == THREADS_MAX)
			continue;
		threads->list[threads->count++] = (struct thread){ pid, tid, state == 'R' };
		threads->running += state == 'R';
	}
	if (directory != NULL)
		closedir(directory);
}

static bool is_meant(const struct ref_target *target, pid_t pid)
{
	char path[64], name[4096];
	ssize_t length;
	regex_t regex;
	int differs;

	if (target->executable == NULL)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	length = readlink(path, name, sizeof(name) - 1);
	if (length <= 0)
		return false;
	name[length] = '\0';
	if (regcomp(&regex, target->executable, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	differs = regexec(&regex, strrchr(name, '/') + 1, 0, NULL, 0);
	regfree(&regex);
	return differs == 0;
}

static void add_children(pid_t pid, pid_t *list, uint32_t *count)
{
	char path[64], text[4096], *place = text, *end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return;
	for (;;) {
		pid_t child = (pid_t)strtol(place, &end, 10);

		if (end == place || *count == PROCESSES_MAX)
			return;
		list[(*count)++] = child;
		place = end;
	}
}

int ref_choose(const struct ref_target *target, pid_t *ret_pid, pid_t *ret_tid)
{
	pid_t list[PROCESSES_MAX] = { target->root };
	struct threads threads = { .count = 0 };
	bool running;
	uint32_t count = 1, lot;

	for (uint32_t i = 0; i < count; i++) {
		add_children(list[i], list, &count);
		if (is_meant(target, list[i]))
			add_threads(&threads, list[i]);
	}
	if (threads.count == 0)
		return -ESRCH;
	running = drand48() < target->running;
	if (running && threads.running == 0)
		return -EAGAIN;
	lot = (uint32_t)(drand48() * (running ? threads.running : threads.count));
	for (uint32_t i = 0; i < threads.count; i++) {
		if (running && !threads.list[i].running)
			continue;
		if (lot-- == 0) {
			*ret_pid = threads.list[i].pid;
			*ret_tid = threads.list[i].tid;
			return 0;
		}
	}
	return -ESRCH;
}

// As much of the stack as there is, a page per element, so that it ends where the memory does.
static void read_memory(struct ref_memory *memory, pid_t pid, uint64_t stack_pointer)
{
	struct iovec to = { memory->bytes, sizeof(memory->bytes) }, from[REF_MEMORY_PAGES];
	ssize_t size;

	memory->pid = pid;
	memory->start = (stack_pointer - RED_ZONE) & ~(uint64_t)(PAGE - 1);
	for (uint32_t i = 0; i < REF_MEMORY_PAGES; i++)
		from[i] =
		    (struct iovec){ (void *)(uintptr_t)(memory->start + (uint64_t)i * PAGE), PAGE };
	size = process_vm_readv(pid, &to, 1, from, REF_MEMORY_PAGES, 0);
	memory->size = size > 0 ? (size_t)size : 0;
}

int ref_read(const struct ref_memory *memory, void *to, size_t size, uint64_t address)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)address, size };

	if (address >= memory->start && address - memory->start + size <= memory->size) {
		memcpy(to, memory->bytes + (address - memory->start), size);
		return 0;
	}
	return process_vm_readv(memory->pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0
											: -EFAULT;
}

// Stopped as asked. One that was about to take a signal is let go with it.
static int await_stop(pid_t tid)
{
	int status;

	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return -ESRCH;
	if (status >> 16 == PTRACE_EVENT_STOP)
		return 0;
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)WSTOPSIG(status));
	return -EAGAIN;
}

int ref_stop_begin(pid_t pid, pid_t tid, struct ref_stop *ret)
{
	int error;

	ret->pid = pid;
	ret->tid = tid;
	ret->begin_ns = fp_monotonic_ns();
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	error = await_stop(tid);
	if (error != 0)
		return error;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &ret->registers) != 0) {
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
		return -ESRCH;
	}
	read_memory(&ret->memory, pid, ret->registers.rsp);
	return 0;
}

void ref_stop_end(struct ref_stop *stop)
{
	stop->end_ns = fp_monotonic_ns();
	ptrace(PTRACE_DETACH, stop->tid, NULL, NULL);
}
