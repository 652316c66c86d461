// SPDX-License-Identifier: Apache-2.0
//
// perfmap: the names of JITed functions from a perf map, the text file that runtimes write:
// `<hex address> <hex size> <name>` a line, 0x before the numbers allowed, the name to the end
// of the line. The file grows while it is read; of two lines that cover an address the later
// one counts. Only ranges are kept, 16 bytes a function: names are read from the file when
// they are asked for, and its line is checked again then, so that a file which was written
// anew (shrunk, or other text before where reading stopped) is noticed and read from the start.
// When the program that writes the file has ended, its map is *sealed*: a later program may write
// the same file, in a container that is started again even as the same pid. From then on names come
// from what the file held, kept here as text; of a file too large for that, from the file as long
// as it stands, and from nowhere once it does not. What others write is never read.
// Stage: symbols role. Input: a regular file of any owner and content.
// Trust: foreign. Lines that are none are skipped and counted, a last line without its end
// waits for it, names are bytes cut at FP_STRING_MAX, size and number of ranges are bounded.
// Ownership: the map owns the descriptor. Threads: none shared.
#pragma once

#include "common/buf.h"

#define FP_PERF_MAP_BYTES_MAX ((uint64_t)1 << 30)
// Text kept of one sealed map: some 200,000 functions. A JVM of a few thousand classes writes 2 MiB,
// and several of them are to fit the role's bound for all maps.
#define FP_PERF_MAP_TEXT_MAX ((uint64_t)16 << 20)

struct fp_perf_map;

// fd: taken over when 0 is returned. Nothing is read yet. Errors: -EINVAL no regular file,
// -ENOMEM.
int fp_perf_map_new(int fd, struct fp_perf_map **ret_map);
void fp_perf_map_free(struct fp_perf_map *map);
static inline void fp_perf_map_freep(struct fp_perf_map **map)
{
	fp_perf_map_free(*map);
	*map = NULL;
}
#define FP_AUTOPERFMAP FP_CLEANUP(fp_perf_map_freep)

// Reads what the file has grown by, up to `step` bytes of it. Errors: -EAGAIN there is more,
// call again before asking for names; -EFBIG over a bound, -ENOMEM, -errno of reading: the map
// is empty then, because part of it might name what a later line took over. Of a sealed map
// nothing is read; -ESTALE its names are gone for good.
int fp_perf_map_refresh(struct fp_perf_map *map, size_t step);
// The program has ended, at ended_ns of CLOCK_REALTIME: what the file holds is its work unless it
// was written to later. 0: at a time that nobody knows: then as long as what has been read, which
// must be something, still stands. Reads the rest, up to `step` bytes of it, and seals the map.
// Errors: -EAGAIN there is more, call again; -ESTALE somebody else has written to the file, -EFBIG,
// -ENOMEM, -errno of reading: it is sealed without any name.
int fp_perf_map_seal(struct fp_perf_map *map, uint64_t ended_ns, size_t step);
// Appends the name of the function that covers the address. Errors: -ENOENT none does; -ESTALE
// the file is another one than was read: refresh again; -ENOMEM, -errno of reading.
int fp_perf_map_name(struct fp_perf_map *map, uint64_t address, struct fp_buf *name);
// Frees what has been read; the next refresh reads the file from its start. A sealed map has lost
// its names for good.
void fp_perf_map_forget(struct fp_perf_map *map);
size_t fp_perf_map_bytes(const struct fp_perf_map *map); // held by what has been read, or kept

struct fp_perf_map_stats { // of the text read since the last start
	uint64_t bytes, lines, bad_lines;
};
struct fp_perf_map_stats fp_perf_map_stats(const struct fp_perf_map *map);
