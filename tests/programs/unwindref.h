// SPDX-License-Identifier: Apache-2.0
//
// unwindref: a reference for stacks. A thread is stopped by ptrace at a random instant, and its
// stack is walked there twice from the same registers and memory: by libdwfl, which knows nothing
// of us, and by the walker of the BPF programs (bpf/unwind.h, compiled natively) over tables that
// the agent's own code made and placed.
// Stage: tests only. Trust: the stopped programs are the test's own.
// Ownership: whoever makes a thing frees it. Threads: one.
#pragma once

#include "agent/procfs.h"
#include "bpf/abi.h"

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/user.h>

#define REF_FRAMES_MAX	 1000
#define REF_MEMORY_PAGES 64

struct ref_chain { // frames leaf first; what a signal interrupted is given with 1 added
	uint64_t frames[REF_FRAMES_MAX];
	uint32_t count;
	char end[64]; // a word; "whole" when the outermost frame was reached
};

struct ref_memory { // of a stopped thread's stack, from below the stack pointer on
	pid_t pid;
	uint64_t start;
	size_t size;
	uint8_t bytes[REF_MEMORY_PAGES * 4096];
};

struct ref_stop {
	pid_t pid, tid;
	uint64_t begin_ns, end_ns; // CLOCK_MONOTONIC, just before it was stopped and let go
	struct user_regs_struct registers;
	struct ref_memory memory;
};

struct ref_map { // executable memory that belongs to a file
	struct fp_procfs_map map;
	char *name;
	uint64_t changed_ns; // the file, last
};

struct ref_process {
	pid_t pid;
	uint32_t number; // differs for each reading of mappings
	uint64_t start_ticks;
	struct ref_map *maps; // by address
	uint32_t maps_count;
	Dwfl *dwfl;
	const struct ref_stop *stop; // whose registers and memory libdwfl sees
	struct fp_unwind_ranges *parts;
};

// unwindref_stop.c: threads and memory
struct ref_target {		// which threads are meant
	pid_t root;		// this process and all below it
	const char *executable; // expression that the base name of the program matches; NULL: any
	double running;		// share of stops in which it must be a thread that wants to run
};
// A thread, by lot. -ESRCH: there is none; -EAGAIN: none wants to run now.
int ref_choose(const struct ref_target *target, pid_t *ret_pid, pid_t *ret_tid);
// Stops the thread and reads registers and memory. -errno: it is gone, or was about to take a
// signal, and goes on; begin_ns and ids are set all the same.
int ref_stop_begin(pid_t pid, pid_t tid, struct ref_stop *ret);
void ref_stop_end(struct ref_stop *stop); // lets it go on
int ref_read(const struct ref_memory *memory, void *to, size_t size, uint64_t address);

// unwindref_process.c: what is mapped
struct ref_processes;
// The mapped file itself, whatever lies at its path now.
void ref_map_path(pid_t pid, const struct fp_procfs_map *map, char *ret, size_t size);
int ref_processes_new(struct ref_processes **ret);
void ref_processes_free(struct ref_processes *processes);
// The process as it is now; stays the owner's and valid until the next call.
int ref_process_now(struct ref_processes *processes, pid_t pid, struct ref_process **ret);

// unwindref_dwfl.c: the reference
int ref_dwfl_open(struct ref_process *process);
void ref_dwfl_walk(struct ref_process *process, const struct ref_stop *stop, struct ref_chain *ret);

// unwindref_walker.c: the walker and its tables
struct ref_tables;
int ref_tables_new(struct ref_tables **ret);
void ref_tables_free(struct ref_tables *tables);
// Makes and places the tables of what the process has mapped. *ret_parts is the caller's.
int ref_tables_ranges(struct ref_tables *tables, const struct ref_process *process,
		      struct fp_unwind_ranges **ret_parts);
void ref_walker_walk(const struct ref_process *process, const struct ref_stop *stop,
		     uint32_t frames_max, struct ref_chain *ret);
