// SPDX-License-Identifier: Apache-2.0
//
// profile: the in-memory profile, the type that every stage from fold to render speaks.
// It is one window of one host: tables of strings, builds, frames, stacks and label sets,
// sample rows that point into them, and a quality record per profile type. All tables are
// deduplicated by content as they are filled; ids are dense indexes.
// Trust: a profile built by the agent is trusted; one that comes out of fp_batch_decode has
// been checked (all indexes in range, all limits kept), but its strings are foreign bytes.
// Ownership: the profile owns everything in it. Threads: none shared.
#pragma once

#include "common/buf.h"
#include "common/hashmap.h"
#include "common/intern.h"

// What a frame is. Values are on the wire; never renumber.
enum fp_frame_kind {
	FP_FRAME_FILE = 1,   // build, offset = file offset
	FP_FRAME_KERNEL = 2, // build = kernel, offset from _stext
	FP_FRAME_MODULE = 3, // build = module, offset from the module's load address
	FP_FRAME_VDSO = 4,   // build = vDSO, offset from its start
	FP_FRAME_NAMED = 5,  // name = string id (JIT, BPF program); no build
	FP_FRAME_ANON = 6,   // executable memory that belongs to no file; offset 0
	FP_FRAME_ERROR = 7,  // name = string id of an explained exception, e.g. "stack lost"
};

// How a build is identified. Values are on the wire.
enum fp_build_kind {
	FP_BUILD_NONE = 0, // no id known; the path is all there is
	FP_BUILD_GNU = 1,  // GNU build-ID note
	FP_BUILD_GO = 2,
	FP_BUILD_HASH = 3, // OpenTelemetry's file hash
};

// Values are on the wire.
enum fp_profile_type {
	FP_PROFILE_CPU = 1,	  // value = samples; nanoseconds = samples × period_ns
	FP_PROFILE_OFF_CPU = 2,	  // value = nanoseconds blocked
	FP_PROFILE_RUN_QUEUE = 3, // value = nanoseconds ready to run but not running
	FP_PROFILE_WAKER = 4,	  // value = nanoseconds blocked, by who ended it
};
#define FP_PROFILE_TYPES 5 // array size for indexing by type
// "cpu", "off_cpu", "run_queue", "waker"
const char *fp_profile_type_name(enum fp_profile_type type);
int fp_profile_type_from_name(const char *name); // or -ENOENT

#define FP_BUILD_ID_MAX 32
#define FP_STACK_ID_LEN 16
// Longer strings are cut to this when added: a path fits (PATH_MAX), and one absurd JIT name
// must not cost the window it stands in.
#define FP_STRING_MAX 4096
#define FP_NO_BUILD   UINT32_MAX

struct fp_build {
	uint8_t kind; // enum fp_build_kind
	uint8_t id_len;
	uint8_t id[FP_BUILD_ID_MAX];
	uint32_t path; // string: file name as mapped, "[kernel]", "[module]", "[vdso]"
};

struct fp_frame {
	uint8_t kind;	// enum fp_frame_kind
	uint32_t build; // build index, or FP_NO_BUILD
	uint32_t name;	// string id for NAMED and ERROR, else 0
	uint64_t offset;
};

struct fp_stack {
	uint8_t id
	    [FP_STACK_ID_LEN]; // XXH3-128 over the frames' content, see proto/stack id in docs/wire.md
	uint32_t first;	       // into stack_frames
	uint32_t count;	       // frames, leaf first; kernel frames before user frames
};

struct fp_label {
	uint32_t name, value; // strings
};

struct fp_labels {	// a label set, names unique and sorted by bytes
	uint32_t first; // into label_pool
	uint32_t count;
};

struct fp_sample {
	uint32_t type;	 // enum fp_profile_type
	uint32_t labels; // label set index
	uint32_t stack;	 // stack index
	uint64_t count;	 // samples, or off-CPU intervals
	uint64_t value;	 // cpu: samples; off_cpu: nanoseconds
};

// Quality counters. X(identifier, name on the wire and in metrics, text for people)
// The runs/kept/filtered/dropped counters of a type's programs are added as
// "<program>.<outcome>" pairs by the agent through fp_quality_set_named.
#define FP_QUALITY_COUNTERS(X)                                                                     \
	X(SAMPLES, "samples", "samples or intervals in this profile")                              \
	X(EXPECTED_SAMPLES, "expected_samples", "samples that the busy CPU time predicts")         \
	X(HZ_REQUESTED, "hz_requested", "sampling rate asked for")                                 \
	X(HZ_ACTUAL, "hz_actual", "sampling rate the kernel gave")                                 \
	X(CPUS, "cpus", "CPUs that were sampled")                                                  \
	X(STACKS_LOST, "stacks_lost", "samples whose frames never reached user space")             \
	X(USER_STACKS, "user_stacks", "samples with a user side")                                  \
	X(USER_COMPLETE, "user_complete", "user stacks that reached their outermost frame")        \
	X(USER_BROKEN, "user_broken",                                                              \
	  "user stacks that stopped in code without frame pointers, unwind tables being off")      \
	X(USER_FAULT, "user_fault", "user stacks that stopped at unreadable memory")               \
	X(USER_DEPTH, "user_depth", "user stacks cut at the depth limit")                          \
	X(USER_UNKNOWN, "user_unknown", "user stacks whose end is not known")                      \
	X(FRAMES, "frames", "frames in samples")                                                   \
	X(FRAMES_NO_BUILD_ID, "frames_no_build_id", "file frames of builds without a build-ID")    \
	X(FRAMES_ANON, "frames_anon", "frames in executable memory that belongs to no file")       \
	X(FRAMES_UNMAPPED, "frames_unmapped", "frames at addresses no mapping covers")             \
	X(PROCESSES_UNKNOWN, "processes_unknown",                                                  \
	  "samples of processes whose mappings were never seen")                                   \
	X(SIDEBAND_LOST, "sideband_lost", "process events lost by the kernel")                     \
	X(MAP_ENTRIES_PEAK, "map_entries_peak", "most stacks held in one epoch")                   \
	X(MAP_CAPACITY, "map_capacity", "stacks one epoch can hold")                               \
	X(EPOCHS, "epochs", "epoch switches in this window")                                       \
	X(FRAMES_JIT, "frames_jit", "frames of JITed code that a perf map names")                  \
	X(INTERVALS, "intervals", "off-CPU intervals that ended or were cut, kept or not")         \
	X(INTERVALS_NS, "intervals_ns", "their time in all, as measured and not estimated")        \
	X(INTERVALS_CUT, "intervals_cut", "intervals that went on beyond the window's end")        \
	X(QUANTUM_MIN_NS, "quantum_min_ns", "least quantum of threshold sampling")                 \
	X(QUANTUM_MAX_NS, "quantum_max_ns", "greatest quantum of threshold sampling")              \
	X(WEIGHT_MAX, "weight_max", "most intervals that one kept on the way out stands for")      \
	X(WALKS, "walks", "off-CPU stacks walked")                                                 \
	X(WALK_BUDGET, "walk_budget", "off-CPU stacks per second that may be walked, about")       \
	X(USER_NO_TABLE, "user_no_table",                                                          \
	  "user stacks that stopped in code without unwind table and frame pointers")              \
	X(USER_CANNOT, "user_cannot",                                                              \
	  "user stacks that stopped at an entry of an unwind table that cannot be followed")       \
	X(USER_JIT, "user_jit", "user stacks that stopped in JITed code without frame pointers")   \
	X(USER_STALE, "user_stale", "user stacks cut where code had just given way to other code") \
	X(FRAMES_BY_TABLE, "frames_by_table", "user frames found by unwind table")

#define FP_QUALITY_ENUM(id, name, text) FP_QUALITY_##id,
enum fp_quality_counter { FP_QUALITY_COUNTERS(FP_QUALITY_ENUM) FP_QUALITY_COUNT };
const char *fp_quality_name(enum fp_quality_counter counter);
const char *fp_quality_text(enum fp_quality_counter counter);
int fp_quality_from_name(const char *name); // index or -ENOENT

// Why a walk of user frames stopped short in a build. X(identifier, label on the wire, text that
// follows the build's name, what can be done about it). Labels are never given another meaning.
#define FP_STOPS(X)                                                                                \
	X(NONE, "none", "the cause is not known", "")                                              \
	X(NOT_LOADED, "not_loaded", "its unwind table was not loaded yet",                         \
	  "nothing need be done: a table is loaded within seconds of its build being met")         \
	X(NEW_PROCESS, "new_process", "the process had just begun",                                \
	  "nothing need be done: a process is followed from its first stack on at the latest")     \
	X(NO_ROOM, "no_room", "there was no room for its unwind table", "raise unwind.memory")     \
	X(NO_ENTRIES, "no_entries", "it has neither call frame information nor frame pointers",    \
	  "build it with -fasynchronous-unwind-tables or with -fno-omit-frame-pointer")            \
	X(NO_ENTRY, "no_entry", "its call frame information leaves out the code that it was in",   \
	  "give the hand-written code call frame information or frame pointers")                   \
	X(NO_FILE, "no_file", "its file could not be read",                                        \
	  "see symbols.deny_file_systems, and the file's file system")                             \
	X(MALFORMED, "malformed", "its call frame information is malformed",                       \
	  "build it with another toolchain, or with -fno-omit-frame-pointer")                      \
	X(TOO_LARGE, "too_large", "its unwind table is too large",                                 \
	  "raise unwind.memory, or build it with -fno-omit-frame-pointer")                         \
	X(MACHINE, "machine", "it is not code of this machine", "")                                \
	X(NO_IDENTITY, "no_identity", "nothing identifies its file", "link it with --build-id")    \
	X(OFF, "off", "it has no frame pointers, and unwind tables are off",                       \
	  "set unwind.tables = on, or build it with -fno-omit-frame-pointer")                      \
	X(EXPRESSION, "expression", "an entry is of a form that compilers do not emit", "")        \
	X(REGISTER, "register", "an entry hangs on a register that is not followed", "")           \
	X(RETURN_ADDRESS, "return_address", "an entry has its return address where it never is",   \
	  "")                                                                                      \
	X(RANGE, "range", "an entry has an offset too large for a row", "")                        \
	X(ENTRY, "entry", "an entry breaks the format's rules", "")                                \
	X(RULES_FULL, "rules_full", "there was no room for a rule of its unwind table", "")        \
	X(ROWS_FULL, "rows_full", "its unwind table has more rows in a page than fit", "")         \
	X(ASTRAY, "astray", "an entry led to what cannot be a frame", "")                          \
	X(MEMORY, "memory", "stack memory could not be read", "")                                  \
	X(STALE, "stale", "the code there had just given way to other code", "")

#define FP_STOP_ENUM(id, label, text, fix) FP_STOP_##id,
enum fp_stop { FP_STOPS(FP_STOP_ENUM) FP_STOP_COUNT };
const char *fp_stop_label(enum fp_stop stop);
// By label, so that one of a newer agent is told of as well: its label stands for the text then,
// and there is no fix.
const char *fp_stop_text(const char *label);
const char *fp_stop_fix(const char *label);

struct fp_named_counter { // e.g. "cpu.runs", "switch_in.dropped.map_full"
	uint32_t name;	  // string
	uint64_t value;
};

struct fp_build_quality { // builds in which user walks stopped short, per build
	uint32_t build;
	uint64_t stacks;  // user stacks that end or start in this build
	uint64_t stopped; // of these, walks that stopped short in it
};

struct fp_build_stop { // of the stopped ones, those for one reason
	uint32_t build;
	uint32_t reason; // string: a label of FP_STOPS
	uint64_t count;
};

struct fp_quality {
	bool present;
	uint64_t counters[FP_QUALITY_COUNT];
	uint32_t hook; // string: how the source was attached, e.g. "perf_event", "sched_exit_tp"
	struct fp_named_counter *named;
	uint32_t named_count, named_capacity;
	struct fp_build_quality *builds;
	uint32_t builds_count, builds_capacity;
	struct fp_build_stop *stops;
	uint32_t stops_count, stops_capacity;
	struct fp_hashmap build_rows, stop_rows; // private: where those are
};

struct fp_profile {
	// Identity: together the batch id (see docs/wire.md).
	uint8_t host_id[16]; // machine-id bytes, or a random id kept in the state directory
	uint8_t boot_id[16];
	uint64_t sequence;
	// Window.
	uint64_t start_boottime_ns, end_boottime_ns;
	uint64_t start_realtime_ns, end_realtime_ns;
	uint64_t period_ns;					   // of CPU samples
	uint32_t hostname, kernel_release, machine, agent_version; // strings

	struct fp_intern strings;
	struct fp_build *builds;
	uint32_t builds_count, builds_capacity;
	struct fp_frame *frames;
	uint32_t frames_count, frames_capacity;
	struct fp_stack *stacks;
	uint32_t stacks_count, stacks_capacity;
	uint32_t *stack_frames; // pool of frame indexes
	uint32_t stack_frames_count, stack_frames_capacity;
	struct fp_label *label_pool;
	uint32_t label_pool_count, label_pool_capacity;
	struct fp_labels *labels;
	uint32_t labels_count, labels_capacity;
	struct fp_sample *samples;
	uint32_t samples_count, samples_capacity;
	struct fp_quality quality[FP_PROFILE_TYPES];

	struct fp_hashmap build_index, frame_index, stack_index, labels_index,
	    sample_index; // private
};

int fp_profile_new(struct fp_profile **ret_profile);
void fp_profile_free(struct fp_profile *profile);
static inline void fp_profile_freep(struct fp_profile **profile)
{
	fp_profile_free(*profile);
	*profile = NULL;
}
#define FP_AUTOPROFILE FP_CLEANUP(fp_profile_freep)

// Kinds that carry a build and an offset / a name; ANON carries neither.
bool fp_frame_kind_has_build(enum fp_frame_kind kind);
bool fp_frame_kind_has_name(enum fp_frame_kind kind);

// Each adds when new and yields the dense index of the entry. Errors: -ENOMEM, -EINVAL when
// an index in the argument is out of range or the kind lacks what it needs.
int fp_profile_string(struct fp_profile *profile, const char *string, size_t size,
		      uint32_t *ret_id);
int fp_profile_cstring(struct fp_profile *profile, const char *string, uint32_t *ret_id);
int fp_profile_build(struct fp_profile *profile, const struct fp_build *build, uint32_t *ret_id);
int fp_profile_frame(struct fp_profile *profile, const struct fp_frame *frame, uint32_t *ret_id);
// frames: count frame indexes, leaf first.
int fp_profile_stack(struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		     uint32_t *ret_id);
// Sorts labels in place by name; the last of two with the same name wins.
int fp_profile_labels(struct fp_profile *profile, struct fp_label *labels, uint32_t count,
		      uint32_t *ret_id);
// Adds count and value to the row {type, labels, stack}.
int fp_profile_sample(struct fp_profile *profile, const struct fp_sample *sample);
// A name of FP_QUALITY_COUNTERS sets that counter, any other a named one.
int fp_quality_set_named(struct fp_profile *profile, enum fp_profile_type type, const char *name,
			 uint64_t value);
// Finds or adds the row of the build and yields it (valid until the next call). NULL: -ENOMEM
// or no such build.
struct fp_build_quality *fp_quality_build(struct fp_profile *profile, enum fp_profile_type type,
					  uint32_t build);
// Adds to the number of walks that stopped in the build for a reason. -EINVAL: no such build or
// string; -ENOMEM.
int fp_quality_stop(struct fp_profile *profile, enum fp_profile_type type, uint32_t build,
		    uint32_t reason, uint64_t count);
// The reason for which most walks stopped in the build; NULL: none is given.
const char *fp_quality_worst_stop(const struct fp_profile *profile, enum fp_profile_type type,
				  uint32_t build);
size_t fp_profile_bytes(const struct fp_profile *profile); // memory held

static inline const char *fp_profile_str(const struct fp_profile *profile, uint32_t id)
{
	return fp_intern_get(&profile->strings, id);
}
