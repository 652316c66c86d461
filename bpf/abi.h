/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * abi: what the BPF programs and user space say to each other, and the only header of
 * bpf/ that user space includes. It includes nothing; all types are fixed width, padding
 * is explicit and sizes are asserted.
 *
 * Words: a *source* is a kind of profile (CPU, off-CPU); a *program* is one BPF program;
 * an *epoch* is the interval between two switches of the map sets; an *outcome* is what a
 * run of a program came to. Every run ends in exactly one outcome, so that per epoch and
 * program: runs = kept + filtered{reason} + dropped{reason}.
 */
#ifndef FLEETPROF_ABI_H
#define FLEETPROF_ABI_H

typedef __UINT8_TYPE__ fp_u8; /* the very types of stdint.h, without including it */
typedef __UINT16_TYPE__ fp_u16;
typedef __UINT32_TYPE__ fp_u32;
typedef __UINT64_TYPE__ fp_u64;

#define FP_COMM_LEN   16
#define FP_MAX_FRAMES 127 /* per side; also kernel.perf_event_max_stack */
#define FP_EPOCHS     2

enum fp_source { FP_SOURCE_CPU, FP_SOURCE_OFFCPU, FP_SOURCE_COUNT };

enum fp_program {
	FP_PROGRAM_CPU,	       /* perf event, one run per tick */
	FP_PROGRAM_SWITCH_OUT, /* sched_switch: notes when and why a task left the CPU */
	FP_PROGRAM_SWITCH_IN,  /* the task is back: duration and stack */
	FP_PROGRAM_COUNT
};

/*
 * X(identifier, class, label, text): class is KEPT, FILTERED or DROPPED; label is the
 * `reason` in metrics and quality records; text is for people.
 */
#define FP_OUTCOMES(X)                                                                             \
	X(AGGREGATED, KEPT, "aggregated", "counted in the map under its stack")                    \
	X(NOTED, KEPT, "noted", "departure time and state stored with the task")                   \
	X(IDLE, FILTERED, "idle", "the idle task")                                                 \
	X(KERNEL_THREAD, FILTERED, "kernel_thread", "a kernel thread, not asked for")              \
	X(OTHER_PROCESS, FILTERED, "other_process", "not the process the session is about")        \
	X(PREEMPTED, FILTERED, "preempted", "left the CPU while runnable, so it did not block")    \
	X(EXITING, FILTERED, "exiting", "the task is dying and will not come back")                \
	X(NOT_BLOCKED, FILTERED, "not_blocked", "the task that came back had no noted departure")  \
	X(MAP_FULL, DROPPED, "map_full", "the count map had no room for a new stack")              \
	X(MAP_BUSY, DROPPED, "map_busy", "the count map's bucket was locked or gave an error")     \
	X(NO_STORAGE, DROPPED, "no_storage", "no task storage could be had for the departure")     \
	X(CLOCK_BACKWARDS, DROPPED, "clock_backwards",                                             \
	  "the return was stamped before the departure")                                           \
	X(NO_SCRATCH, DROPPED, "no_scratch", "per-CPU scratch memory was missing")

#define FP_OUTCOME_ENUM(id, class, label, text) FP_OUTCOME_##id,
enum fp_outcome { FP_OUTCOMES(FP_OUTCOME_ENUM) FP_OUTCOME_COUNT };

/* How a walk of user frames ended. X(identifier, label, text) */
#define FP_WALK_ENDS(X)                                                                            \
	X(NONE, "none", "no user stack: a kernel thread or no user registers")                     \
	X(ROOT, "root", "the outermost frame was reached")                                         \
	X(BROKEN, "broken", "the next frame pointer was not one: code without frame pointers")     \
	X(FAULT, "fault", "the stack memory could not be read")                                    \
	X(DEPTH, "depth", "the depth limit was reached")                                           \
	X(UNKNOWN, "unknown", "walked by the kernel's helper, which does not say how it ended")

#define FP_WALK_END_ENUM(id, label, text) FP_WALK_END_##id,
enum fp_walk_end { FP_WALK_ENDS(FP_WALK_END_ENUM) FP_WALK_END_COUNT };

/* Key of a count map: 128-bit hash of process instance, thread name, state and frames. */
struct fp_key {
	fp_u64 hi;
	fp_u64 lo;
};

/* Value of a count map. */
struct fp_count {
	fp_u64 count;	  /* samples, or off-CPU intervals */
	fp_u64 value;	  /* nanoseconds off CPU; 0 for CPU samples */
	fp_u32 tgid;	  /* so that a key whose frames never arrived still has a process */
	fp_u32 announced; /* 1: the frames were sent in this epoch */
};

/* Per program and epoch, per CPU. */
struct fp_totals {
	fp_u64 runs;
	fp_u64 outcomes[FP_OUTCOME_COUNT];
	fp_u64 value;		/* nanoseconds added to the count map */
	fp_u64 announced;	/* stack records sent */
	fp_u64 announce_failed; /* did not fit the ring; retried on the next hit */
	fp_u64 unclosed; /* departures of tasks whose return no hook saw, found at the next one */
};

/*
 * Sent through the ring buffer the first time a key is seen in an epoch, at its real
 * length: kernel_len then user_len addresses follow, each leaf first. Return addresses
 * stay as captured.
 */
struct fp_stack_record {
	struct fp_key key;
	fp_u64 time_ns;		  /* CLOCK_MONOTONIC, of this hit */
	fp_u64 start_ns;	  /* group leader's start, CLOCK_MONOTONIC */
	fp_u64 start_boottime_ns; /* the same in CLOCK_BOOTTIME, comparable with /proc/PID/stat */
	fp_u64 user_root_gap;	  /* bytes between the last frame pointer followed and the stack's
				     known top; ~0 when unknown */
	fp_u64 cgroup_id; /* of the task, in the hierarchy of fp_cgroup_subsystem; 0: unknown */
	fp_u32 tgid;
	fp_u32 tid;
	fp_u32 exec_id; /* changes at every exec */
	fp_u8 source;	/* enum fp_source */
	fp_u8 state;	/* off-CPU: 1 interruptible, 2 uninterruptible, 3 stopped or traced */
	fp_u8 walk_end; /* enum fp_walk_end */
	fp_u8 epoch;	/* 0 or 1 */
	fp_u16 kernel_len;
	fp_u16 user_len;
	fp_u8 kernel_thread; /* 1: of no process; exiting tasks are of one, and have no user side */
	fp_u8 kernel_truncated; /* 1: the kernel stack may be cut at the limit */
	fp_u8 padding[2];
	char comm[FP_COMM_LEN]; /* thread name, raw bytes */
	fp_u64 frames[];
};

#define FP_STACK_RECORD_MAX (sizeof(struct fp_stack_record) + 2 * FP_MAX_FRAMES * sizeof(fp_u64))

_Static_assert(sizeof(struct fp_key) == 16, "abi");
_Static_assert(sizeof(struct fp_count) == 24, "abi");
_Static_assert(sizeof(struct fp_stack_record) == 96, "abi");
_Static_assert(sizeof(struct fp_totals) == 8 * (5 + FP_OUTCOME_COUNT), "abi");

#endif
