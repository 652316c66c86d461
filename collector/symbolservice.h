// SPDX-License-Identifier: Apache-2.0
//
// symbolservice: the collector's one symbolizer, the tables that agents uploaded, what is known of
// each build, and which builds agents are asked to send tables of. Uploads are kept as files `symbols/<build-id hex>.sym` below the data
// directory: a line with the path the agent gave, then the zstd text table as it came. A table
// without a line says that whoever has the file found no functions in it.
// Input: foreign tables, bounded before and during decompression.
// Threads: any; a user of the symbolizer holds it alone between acquire and release.
#pragma once

#include "profile/symbols.h"
#include "symbolwanted.h"

#include <pthread.h>

struct fp_symbol_service;

struct fp_symbol_service_options {
	const char *directory;	// the data directory
	const char *debug_dirs; // colon-separated
	bool use_local_files;
	bool request; // ask agents for what no source has
	size_t cache_bytes;
	size_t max_table_bytes; // of an upload, decompressed
	uint64_t max_bytes;	// of all uploads, as they lie on the disk
};

int fp_symbol_service_open(const struct fp_symbol_service_options *options,
			   struct fp_symbol_service **ret_service);
void fp_symbol_service_close(struct fp_symbol_service *service);

bool fp_symbol_service_has(struct fp_symbol_service *service, const uint8_t *id, size_t id_len);
// Decompresses an uploaded table and looks whether it is one, whether there is room for it, and
// whether it has more functions than one that is here already, so that a stripped file's table is
// no obstacle to a better one. 0: to be put; 1: the one that is here stays.
// Takes fp_symbol_service_check_bytes of memory: the caller says how many may run at once.
// Errors: -EBADMSG, -EMSGSIZE, -ENOSPC (max_bytes) with a static sentence in *ret_reason; -ENOMEM.
int fp_symbol_service_check(struct fp_symbol_service *service, const struct fp_build *build,
			    const struct fp_buf *body, const char **ret_reason);
// What decompressing may take at most, from what the frame says of itself.
size_t fp_symbol_service_check_bytes(struct fp_symbol_service *service, const struct fp_buf *body);
// Stores a table that was checked, in place of one that is here.
// Errors: -ENOSPC with a static sentence in *ret_reason; -errno of the disk.
int fp_symbol_service_put(struct fp_symbol_service *service, const struct fp_build *build,
			  const char *path, const struct fp_buf *body, const char **ret_reason);

// The builds of a received profile that no source is known to have and that nobody was asked for
// lately, hottest first, at most FP_SYMBOLS_WANTED_MAX. Waits for no query and reads no file.
int fp_symbol_service_wanted(struct fp_symbol_service *service, const struct fp_profile *profile,
			     struct fp_build *ret_builds);

// The symbolizer, with builds of the profile that had no symbols a while ago forgotten so that
// they are looked for again. It reads uploaded tables when it needs them.
struct fp_symbolizer *fp_symbol_service_acquire(struct fp_symbol_service *service,
						const struct fp_profile *profile);
// kinds: for each build of the profile, the enum fp_frame_kind it is used with, 0 for none;
// NULL: do not look at statuses. ret_statuses: one enum fp_symbol_status per build, or NULL.
void fp_symbol_service_release(struct fp_symbol_service *service, const struct fp_profile *profile,
			       const uint8_t *kinds, uint8_t *ret_statuses);

struct fp_symbol_counts {
	uint64_t found, missing; // builds
	uint64_t bytes;		 // of uploaded tables on the disk
};
// Waits for nobody who uses the symbolizer.
struct fp_symbol_counts fp_symbol_service_counts(struct fp_symbol_service *service);

// Hexadecimal build-ID → build. -EINVAL when it is not one.
int fp_build_id_parse(const char *hex, struct fp_build *ret_build);
void fp_build_id_print(const struct fp_build *build, char ret_hex[2 * FP_BUILD_ID_MAX + 1]);
