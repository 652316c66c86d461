// SPDX-License-Identifier: Apache-2.0
//
// symbols: (build, offset) → function names. A *symbol table* is a sorted array of
// [address, size, name] for one build, made once per build and looked up many times; a
// *symbolizer* holds the tables of many builds and knows the sources to make them from,
// in order: tables given to it, debug files by build-ID below its debug directories
// (/usr/lib/debug/.build-id/xx/yyyy.debug), tables shipped by agents (load_table), the file
// the build was mapped from if its build-ID note matches. One without a function is passed
// over. A build without an id is looked up by path only when `allow_paths_without_id` is set
// (agentctl on the same host).
// Offsets are file offsets; ELF program headers are applied here. Callers' return addresses
// are looked up at offset - 1, leaves at offset: the caller passes `is_leaf`.
// Names are demangled (libiberty) once, when they are first looked up.
// Trust: ELF files are foreign; reads are pread-based through libelf with size limits.
// Ownership: the symbolizer owns its tables; returned names live as long as it, also when
// the table they came from has left the cache.
// Threads: none shared.
#pragma once

#include "proto/profile.h"

struct fp_symbolizer;

struct fp_symbolizer_options {
	const char *const
	    *debug_dirs;	 // NULL-terminated, outlives the symbolizer; NULL: /usr/lib/debug
	bool use_local_files;	 // the mapped path, verified by build-ID, and our own vDSO
	const char *root_prefix; // put before mapped paths, e.g. /proc/PID/root; may be NULL
	bool allow_paths_without_id;
	const char *kallsyms_path;	// "/proc/kallsyms" to name this host's kernel; NULL: none
	const uint8_t *kernel_build_id; // the build kallsyms belongs to (20 bytes), or NULL
	size_t table_cache_bytes; // bound on all tables, least recently used leave; 0: 256 MiB
	// Asked for a build whose table is not in the cache and which has no debug file: appends
	// table text (see fp_symbolizer_add_table), or returns -ENOENT. For stores that hold more
	// tables than fit the cache; NULL: none.
	int (*load_table)(void *context, const uint8_t *id, size_t id_len, struct fp_buf *ret_text);
	void *load_context;
};

enum fp_symbol_status { // of a build, for people
	FP_SYMBOLS_FOUND,
	FP_SYMBOLS_NO_FILE,	// no source had the build
	FP_SYMBOLS_ID_MISMATCH, // the file at the path is another build
	FP_SYMBOLS_NO_SYMBOLS,	// file found, but it holds no symbols
	FP_SYMBOLS_BAD_FILE,	// malformed, or larger than the bounds allow
	FP_SYMBOLS_HIDDEN,	// the kernel shows its addresses as zeros
};
const char *fp_symbol_status_text(enum fp_symbol_status status);

int fp_symbolizer_new(const struct fp_symbolizer_options *options, struct fp_symbolizer **ret);
void fp_symbolizer_free(struct fp_symbolizer *symbolizer);
static inline void fp_symbolizer_freep(struct fp_symbolizer **symbolizer)
{
	fp_symbolizer_free(*symbolizer);
	*symbolizer = NULL;
}
// Gives a ready table for a build: text lines `<hex offset> <name>\n`, sorted or not, the
// offset in the build's own terms (from _stext for the kernel, from the load address for a
// module, in the file for a program or library). A function ends where the next line begins;
// a line named `-` begins nothing. Bad lines are skipped and counted in *ret_bad_lines (may be NULL). It counts
// against the cache bound but stays until it is forgotten or given again: nobody could load
// it once more. Errors: -EINVAL without an id, -E2BIG, -ENOMEM.
int fp_symbolizer_add_table(struct fp_symbolizer *symbolizer, const uint8_t *id, size_t id_len,
			    const char *text, size_t size, uint64_t *ret_bad_lines);
// Forgets what is known of a build, so that a source which has appeared since is asked.
void fp_symbolizer_forget(struct fp_symbolizer *symbolizer, const uint8_t *id, size_t id_len);
// Name of the function, or NULL when unknown. path: the build's path string.
const char *fp_symbolizer_lookup(struct fp_symbolizer *symbolizer, const struct fp_build *build,
				 const char *path, enum fp_frame_kind kind, uint64_t offset,
				 bool is_leaf);
enum fp_symbol_status fp_symbolizer_status(struct fp_symbolizer *symbolizer,
					   const struct fp_build *build, const char *path,
					   enum fp_frame_kind kind);
