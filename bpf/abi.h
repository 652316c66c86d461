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
typedef __INT16_TYPE__ fp_i16;
typedef __INT32_TYPE__ fp_i32;
typedef __INT64_TYPE__ fp_i64;

#define FP_COMM_LEN   16
#define FP_MAX_FRAMES 127 /* of the kernel side; also kernel.perf_event_max_stack */
#define FP_EPOCHS     2

/* Frames of the user side: most that a setting can ask for, and what is taken when none does. */
#define FP_MAX_USER_FRAMES     512
#define FP_DEFAULT_USER_FRAMES 127

enum fp_source {
	FP_SOURCE_CPU,	    /* on a CPU, at a tick */
	FP_SOURCE_OFFCPU,   /* blocked: from leaving the CPU until back on it, or until woken */
	FP_SOURCE_RUNQUEUE, /* ready but not running: preempted, or woken and waiting for a CPU */
	FP_SOURCE_WAKER,    /* blocked, under the stack that blocked and the one that woke it */
	FP_SOURCE_COUNT
};

/* What a thread is off the CPU for. Values are in records and keys. */
enum fp_away_reason {
	FP_AWAY_RUNNING, /* it is not away */
	FP_AWAY_INTERRUPTIBLE,
	FP_AWAY_UNINTERRUPTIBLE,
	FP_AWAY_STOPPED,   /* stopped or traced */
	FP_AWAY_PREEMPTED, /* left the CPU while it wanted to run */
	FP_AWAY_WOKEN	   /* no longer blocked, not yet running */
};

enum fp_program {
	FP_PROGRAM_CPU,	       /* perf event, one run per tick */
	FP_PROGRAM_SWITCH_OUT, /* sched_switch: notes when and why a task left the CPU */
	FP_PROGRAM_SWITCH_IN,  /* the task is back: the interval is closed, and perhaps kept */
	FP_PROGRAM_RUN_QUEUE,  /* the same for the part of it, or the preemption, spent ready */
	FP_PROGRAM_BLOCKED,    /* a visit to a task that is away when a window opens or closes */
	FP_PROGRAM_WAKE,       /* sched_waking: when, and perhaps by whom, a task is woken */
	FP_PROGRAM_WAKER,      /* the task is back: its time counted under a kept wake-up */
	FP_PROGRAM_COUNT
};

/*
 * X(identifier, class, label, text): class is KEPT, FILTERED or DROPPED; label is the
 * `reason` in metrics and quality records; text is for people.
 */
#define FP_OUTCOMES(X)                                                                             \
	X(AGGREGATED, KEPT, "aggregated", "counted in the map under its stack")                    \
	X(NOTED, KEPT, "noted", "a time and a state stored with the task")                         \
	X(NOT_KEPT, KEPT, "not_kept",                                                              \
	  "an interval shorter than the quantum that its lot left out; those kept stand for it")   \
	X(IDLE, FILTERED, "idle", "the idle task")                                                 \
	X(KERNEL_THREAD, FILTERED, "kernel_thread", "a kernel thread, not asked for")              \
	X(OTHER_PROCESS, FILTERED, "other_process", "not the process the session is about")        \
	X(PREEMPTED, FILTERED, "preempted", "left the CPU while runnable, so it did not block")    \
	X(EXITING, FILTERED, "exiting", "the task is dying and will not come back")                \
	X(NOT_BLOCKED, FILTERED, "not_blocked", "the task that came back had no noted departure")  \
	X(RETURNED, FILTERED, "returned", "came back while it was visited; counted there")         \
	X(MAP_FULL, DROPPED, "map_full", "the count map had no room for a new stack")              \
	X(MAP_BUSY, DROPPED, "map_busy", "the count map's bucket was locked or gave an error")     \
	X(NO_STORAGE, DROPPED, "no_storage", "no task storage could be had for the departure")     \
	X(CLOCK_BACKWARDS, DROPPED, "clock_backwards",                                             \
	  "the return was stamped before the departure")                                           \
	X(RETURN_UNSEEN, DROPPED, "return_unseen",                                                 \
	  "kept, but the hook that takes its stack did not run when the task was back")            \
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
	X(UNKNOWN, "unknown", "walked by the kernel's helper, which does not say how it ended")    \
	X(OUTERMOST, "outermost", "an unwind table says that no frame is further out")             \
	X(NO_TABLE, "no_table", "code that no unwind table covers, and no frame pointer leads on") \
	X(CANNOT, "cannot", "an entry of an unwind table that cannot be followed")                 \
	X(ASTRAY, "astray", "an entry of an unwind table led to what cannot be a frame")           \
	X(STALE, "stale", "cut off: tables of code that was no longer there led on")

#define FP_WALK_END_ENUM(id, label, text) FP_WALK_END_##id,
enum fp_walk_end { FP_WALK_ENDS(FP_WALK_END_ENUM) FP_WALK_END_COUNT };

/* Key of a count map: 128-bit hash of process instance, thread name, state and frames. */
struct fp_key {
	fp_u64 hi;
	fp_u64 lo;
};

/* Value of a count map. */
struct fp_count {
	fp_u64 count;	 /* samples, or kept off-CPU intervals */
	fp_u64 value;	 /* nanoseconds off CPU, estimated; 0 for CPU samples */
	fp_u32 tgid;	 /* so that a key whose frames never arrived still has a process */
	fp_u8 announced; /* 1: the frames were sent in this epoch */
	fp_u8 source;	 /* enum fp_source; one map holds all of what the scheduler tells */
	fp_u8 padding[2];
};

/* Per program and epoch, per CPU. */
struct fp_totals {
	fp_u64 runs;
	fp_u64 outcomes[FP_OUTCOME_COUNT];
	fp_u64 walks;		/* stacks walked */
	fp_u64 value;		/* nanoseconds added to the count map */
	fp_u64 announced;	/* stack records sent */
	fp_u64 announce_failed; /* did not fit the ring; retried on the next hit */
	fp_u64 unclosed; /* departures whose return no hook saw, found at the next one; returns
			    whose wake-up none saw */
};

#define FP_UNWIND_FILE_TAGS 8 /* tables of one stack that were found by file, at most */

/*
 * Sent through the ring buffer the first time a key is seen in an epoch, at its real
 * length: kernel_len then user_len addresses follow, each leaf first. Return addresses
 * stay as captured, so but for the leaf's one lies behind its call. The instruction that a signal
 * interrupted is given with 1 added, so that one less is inside the function there as well.
 */
struct fp_stack_record {
	struct fp_key key;
	fp_u64 time_ns;		  /* CLOCK_MONOTONIC, of this hit */
	fp_u64 start_ns;	  /* group leader's start, CLOCK_MONOTONIC */
	fp_u64 start_boottime_ns; /* the same in CLOCK_BOOTTIME, comparable with /proc/PID/stat */
	fp_u64 user_root_gap;	  /* bytes between the last frame pointer followed and the stack's
				     known top; ~0 when unknown, or the last step was by table */
	fp_u64 cgroup_id; /* of the task, in the hierarchy of fp_cgroup_subsystem; 0: unknown */
	fp_u32 tgid;
	fp_u32 tid;
	fp_u32 exec_id; /* changes at every exec */
	fp_u8 source;	/* enum fp_source */
	fp_u8 state;	/* off-CPU: enum fp_away_reason */
	fp_u8 walk_end; /* enum fp_walk_end */
	fp_u8 epoch;	/* 0 or 1 */
	fp_u16 kernel_len;
	fp_u16 user_len;
	fp_u8 kernel_thread; /* 1: of no process; exiting tasks are of one, and have no user side */
	fp_u8 kernel_truncated; /* 1: the kernel stack may be cut at the limit */
	fp_u16 by_table;	/* user frames found by table; the others by frame pointer */
	fp_u32 unwind_version;	/* of the ranges that the walk went by; 0: it had none;
				   FP_UNWIND_BY_FILE */
	fp_u8 cannot;		/* FP_WALK_END_CANNOT: enum fp_unwind_cannot */
	fp_u8 stop;		/* left 0; the agent notes why the walk stopped: enum fp_stop */
	fp_u8 end_has_table;	/* the code of the last frame is in the range of a table */
	fp_u8 padding;
	/* Of the tables that were found by the file that is mapped (bpf/unwindfile.h), without
	 * doubles; 0 behind the last. User space sees to it that they are what the process had. */
	fp_u16 file_tags[FP_UNWIND_FILE_TAGS];
	char comm[FP_COMM_LEN]; /* thread name, raw bytes */
	fp_u64 frames[];
};

/*
 * A record of source FP_SOURCE_WAKER has no frames of its own: in their place, as user_len =
 * 4 words, stand the keys (hi, lo) of the stack that blocked and of the one that woke it. The
 * waker's own record is of that source too and has its frames, kernel_len + user_len of them,
 * with state FP_AWAY_RUNNING, since nothing is ever counted under its key.
 */
#define FP_PAIR_WORDS 4

/*
 * How off-CPU intervals are kept: see bpf/threshold.h. User space sets quantum and weight to keep
 * the walks within its budget; between two of its looks the brake does.
 */
struct fp_offcpu_control {
	fp_u64 quantum_ns;  /* 0: every interval is kept at its own length */
	fp_u64 weight;	    /* on the way out: departures that one kept stands for; at least 1 */
	fp_u64 slice_walks; /* walks per slice before the brake doubles both; at least 1 */
};

#define FP_QUANTUM_LEAST  1000ULL      /* what the brake doubles when every interval is kept */
#define FP_QUANTUM_MOST	  (1ULL << 46) /* 19.5 hours */
#define FP_WEIGHT_MOST	  (1ULL << 20)
#define FP_BRAKE_SLICE_NS 100000000ULL

struct fp_brake { /* shared by all CPUs */
	fp_u64 slice_start_ns;
	fp_u64 walks;	       /* in this slice */
	fp_u64 level;	       /* doublings carried over from the slices before */
	fp_u64 quantum_ns;     /* raised, in this slice since its last walk; 0: to be reckoned */
	fp_u64 quantum_max_ns; /* greatest in effect since user space last set this to 0 */
	fp_u64 weight_max;
};

/* Durations of all intervals that were closed, kept or not, per epoch and CPU: [0] below 1 µs, [n]
 * from 2^(n-1) µs to below 2^n µs, the last without an upper end (from 36 minutes). */
#define FP_DURATION_BUCKETS 33
struct fp_durations {
	fp_u64 count[FP_DURATION_BUCKETS];
	fp_u64 sum_ns[FP_DURATION_BUCKETS];
};

enum fp_duration_row { /* per epoch */
		       FP_DURATIONS_BLOCKED,
		       FP_DURATIONS_READY,
		       FP_DURATIONS_CUT_BLOCKED, /* parts cut off when a window closed: of visits alone */
		       FP_DURATIONS_CUT_READY,
		       FP_DURATIONS_ROWS
};

enum fp_visit_kind {		    /* what a visit of all tasks does; FP_PROGRAM_BLOCKED */
		     FP_VISIT_MARK, /* sampling begins: those away already are away from now on */
		     FP_VISIT_SUM,  /* how many are away, and for how long in all */
		     FP_VISIT_CUT /* a window closes: each interval ends here and the next one begins */
};

struct fp_visit {
	fp_u32 kind;		  /* enum fp_visit_kind; set by user space, as all up to `open` */
	fp_u32 kernel_only;	  /* user stacks are not read */
	fp_u64 now_ns;		  /* the moment that is marked or cut at, CLOCK_MONOTONIC */
	fp_u64 quantum_ns;	  /* of a cut, as that of fp_offcpu_control */
	fp_u64 weight;		  /* of a cut on the way out: of the part that begins there */
	struct fp_durations open; /* filled by SUM: intervals not closed yet */
	fp_u64 cut;		  /* intervals cut */
	fp_u32 tgid;		  /* whose user stack is being read; 0: none is */
	fp_u32 padding;
};

#define FP_STACK_RECORD_MAX                                                                        \
	(sizeof(struct fp_stack_record) + (FP_MAX_FRAMES + FP_MAX_USER_FRAMES) * sizeof(fp_u64))

_Static_assert(sizeof(struct fp_key) == 16, "abi");
_Static_assert(sizeof(struct fp_count) == 24, "abi");
_Static_assert(sizeof(struct fp_stack_record) == 120, "abi");
_Static_assert(sizeof(struct fp_totals) == 8 * (6 + FP_OUTCOME_COUNT), "abi");

/*
 * Unwind tables: what bpf/unwind.h walks by. A *table* is of one build: rows in order of file
 * offset, each of which says by which *rule* the caller's registers are found from there up to
 * the next row. Tables lie in pages of one space of 32-bit *places*: 64 KiB of code a page. A
 * process has *ranges*, mapped code whose build has its table in that space.
 */
enum fp_unwind_cfa {		    /* how the canonical frame address (CFA) is found */
		     FP_UNWIND_GAP, /* no entry covers the code: it is walked by frame pointer */
		     FP_UNWIND_END, /* the return address is undefined: the outermost frame */
		     FP_UNWIND_RSP, /* rsp + offset */
		     FP_UNWIND_RBP, /* rbp + offset */
		     FP_UNWIND_REGISTER, /* reg + offset; r12 to r15 are known in the innermost frame alone */
		     FP_UNWIND_RSP_DEREF, /* *(rsp + offset) + add */
		     FP_UNWIND_RBP_DEREF, /* *(rbp + offset) + add */
		     FP_UNWIND_PLT,	  /* rsp + offset + ((rip & 15) >= add ? 8 : 0) */
		     FP_UNWIND_SIGNAL, /* a signal's frame: struct ucontext lies at rsp + offset */
		     FP_UNWIND_CANNOT, /* add: enum fp_unwind_cannot */
		     FP_UNWIND_INDEXED, /* *(rsp + 8 * reg + offset) + add; reg as above. OpenSSL's bn_mul_mont, hot in P-384 */
		     FP_UNWIND_CFA_COUNT
};

/* Why code cannot be unwound by its entry. X(identifier, label, text) */
#define FP_UNWIND_CANNOTS(X)                                                                       \
	X(EXPRESSION, "expression", "an expression of a form that compilers do not emit")          \
	X(REGISTER, "register", "the frame hangs on a register that is not followed")              \
	X(RETURN_ADDRESS, "return_address", "the return address is not where it always is")        \
	X(RANGE, "range", "an offset too large for a row")                                         \
	X(MALFORMED, "malformed", "the entry breaks the format's rules")                           \
	X(RULES_FULL, "rules_full", "no room for another rule")                                    \
	X(ROWS_FULL, "rows_full", "more rows in 64 KiB of code than fit")
#define FP_UNWIND_CANNOT_ENUM(id, label, text) FP_UNWIND_CANNOT_##id,
enum fp_unwind_cannot { FP_UNWIND_CANNOTS(FP_UNWIND_CANNOT_ENUM) FP_UNWIND_CANNOT_COUNT };

enum fp_unwind_saved {			 /* where the caller's rbp or rbx is */
		       FP_UNWIND_SAME,	 /* untouched */
		       FP_UNWIND_AT_CFA, /* at CFA + at */
		       FP_UNWIND_AT_RBP, /* at rbp + at, with this frame's rbp */
		       FP_UNWIND_LOST	 /* not to be had */
};

#define FP_UNWIND_RETURN_AT_CFA 255 /* the return address is at CFA - 8 */

struct fp_unwind_rule {
	fp_u8 cfa;	  /* enum fp_unwind_cfa */
	fp_u8 reg;	  /* DWARF number of the register; 0 unless REGISTER or INDEXED */
	fp_u8 saved;	  /* enum fp_unwind_saved of rbp, | that of rbx << 2 */
	fp_u8 return_reg; /* the register with the return address (innermost frame alone), or
			     FP_UNWIND_RETURN_AT_CFA */
	fp_i32 offset;
	fp_i32 add;
	fp_i16 rbp_at, rbx_at; /* bytes; 0 when SAME or LOST */
};

/*
 * A table as the symbols role makes it. Behind the header: fp_u32 offsets[rows], rising strictly,
 * file offsets of code; fp_u16 rule_of[rows]; padding to 8; struct fp_unwind_rule rules[rules].
 * The first rule is all zero (FP_UNWIND_GAP); the last row has it.
 */
#define FP_UNWIND_MAGIC 0x31574e5550464cULL /* "LFPUNW1" */
struct fp_unwind_table {
	fp_u64 magic;
	fp_u32 rows;
	fp_u32 rules;			       /* 1 … 65536 */
	fp_u32 entries;			       /* frame description entries read */
	fp_u32 rejected;		       /* those that break the format's rules */
	fp_u32 cannot[FP_UNWIND_CANNOT_COUNT]; /* rows, by reason */
	fp_u32 padding;
};

/* Rows of many tables share chunks; a chunk is the one value of a map of its own. */
#define FP_UNWIND_PAGE_BITS	 16
#define FP_UNWIND_PAGES		 65536u
#define FP_UNWIND_CHUNK_ROWS	 16384u
#define FP_UNWIND_CHUNKS	 1024u
#define FP_UNWIND_RULES		 32768u
#define FP_UNWIND_RANGES_ENTRIES 2048u /* parts, of all processes together */
#define FP_UNWIND_FILES		 4096u /* known to have a table, or none */
#define FP_UNWIND_FILES_MET	 1024u /* not known yet */
struct fp_unwind_chunk {
	fp_u32 rows[FP_UNWIND_CHUNK_ROWS]; /* low 16 bits: place within the page; high: rule */
};

/* The rows of a page in one word, so that it changes at once. All zero: no table is there. A page
 * whose first row lies behind its beginning has a row for what covers the beginning. */
#define FP_UNWIND_PAGE(chunk, first, count, tag)                                                   \
	((fp_u64)(chunk) | (fp_u64)(first) << 16 | (fp_u64)(count) << 32 | (fp_u64)(tag) << 48)

/* Mapped code of one table. A place = address - start + at. */
struct fp_unwind_range {
	fp_u64 start;
	fp_u32 size;
	fp_u32 at;
	fp_u16 tag; /* of the table, as in its pages: else the table is gone */
	fp_u16 padding[3];
};

/*
 * The ranges of a process, sorted by start. The entry of part 0 lists where each part begins;
 * entries are replaced whole, and `version` is the same in all that belong together.
 */
#define FP_UNWIND_PARTS	      32u
#define FP_UNWIND_PART_RANGES 32u
struct fp_unwind_ranges_key {
	fp_u32 tgid;
	fp_u32 part;
};
struct fp_unwind_ranges {
	fp_u64 start_boottime_ns; /* with exec_id: of which program they are; 0: of whichever runs
				     under the tgid, which has just begun and is not known better */
	fp_u32 exec_id;
	fp_u32 version; /* never 0 */
	fp_u32 count;	/* in this part */
	fp_u32 parts;
	fp_u64 part_start[FP_UNWIND_PARTS]; /* of each part's first range; ~0 behind the last */
	struct fp_unwind_range ranges[FP_UNWIND_PART_RANGES]; /* behind the last: start ~0 */
};

/*
 * A file as the kernel knows it, whatever its name: of what is mapped where a process has no ranges
 * (yet). Content that changes changes its time as well. All zero: the vDSO.
 */
struct fp_unwind_file_key {
	fp_u64 inode;
	fp_u64 changed; /* ctime: seconds << 30 | nanoseconds */
	fp_u32 device;
	fp_u32 generation;
};
struct fp_unwind_file { /* its table. A place = file offset - offset + at. */
	fp_u64 offset, size;
	fp_u32 at;
	fp_u16 tag; /* as in struct fp_unwind_range; 0: it has none */
	fp_u16 padding;
};
/* Where a file was met that is not known: user space finds out what the process had mapped there. */
struct fp_unwind_met {
	fp_u64 time_ns, start_ns, start_boottime_ns;
	fp_u64 address, offset; /* the one is of the other in the file */
	fp_u32 tgid, exec_id;
};
/* In place of a version: the walk went by files, which are those that were mapped at that moment. */
#define FP_UNWIND_BY_FILE 0xffffffffu

_Static_assert(sizeof(struct fp_unwind_rule) == 16, "abi");
_Static_assert(sizeof(struct fp_unwind_range) == 24, "abi");
_Static_assert(sizeof(struct fp_unwind_file_key) == 24, "abi");
_Static_assert(sizeof(struct fp_unwind_file) == 24, "abi");
_Static_assert(sizeof(struct fp_unwind_chunk) == 65536, "abi");

#endif
