/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwindlookup: from an address to the rule that holds there (bpf/abi.h): the range of its process,
 * or of the file that is mapped there → page → row → rule.
 *
 * Nothing that the maps hold can make a look-up read outside them or loop: indexes are masked, and
 * searches take a fixed number of steps.
 *
 * The four maps are reached through FP_UNWIND_*_AT, and FP_UNWIND_TABLES says whether there is
 * anything in them; FP_UNWIND_FIND_FILE looks at what the kernel has mapped (bpf/unwindfile.h).
 * Tests define these natively.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_UNWINDLOOKUP_H
#define FLEETPROF_UNWINDLOOKUP_H

#include "bpf/walk.h"

#ifndef FP_UNWIND_RANGES_AT
#include "bpf/unwindmaps.h"
struct fp_walk;
static __always_inline void fp_unwind_find_file(struct fp_walk *walk, fp_u64 address);
#define FP_UNWIND_FIND_FILE(walk, address) fp_unwind_find_file(walk, address)
#endif
#ifndef FP_UNWIND_FIND_FILE /* natively, without a kernel to ask */
#define FP_UNWIND_FIND_FILE(walk, address) ((void)(walk), (void)(address))
#endif

/* Keeps an index inside an array in a way the compiler cannot prove away. */
#ifdef __bpf__
#define FP_UNWIND_MASK(index, mask) __asm__ volatile("%0 &= " #mask : "+r"(index))
#define FP_UNWIND_BARRIER()	    __asm__ volatile("" ::: "memory")
#else
#define FP_UNWIND_MASK(index, mask) ((index) &= (mask))
#ifndef FP_UNWIND_BARRIER /* tests let an entry change there */
#define FP_UNWIND_BARRIER() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif
#endif
_Static_assert(FP_UNWIND_FILE_TAGS == 8, "a mask of 7");
_Static_assert(FP_UNWIND_PARTS == 32 && FP_UNWIND_PART_RANGES == 32, "masks of 31");
_Static_assert(FP_UNWIND_CHUNK_ROWS == 16384, "masks of 16383");

/* All ones when a <= b, else 0, for b below 2^63; an `a` from there on is above. Without a branch,
 * since every branch in a search doubles what the verifier walks. */
static inline __attribute__((always_inline)) fp_u64 fp_unwind_up_to(fp_u64 a, fp_u64 b)
{
	return -(((a - b - 1) & ~a) >> 63);
}

/* Index of the last of the rising addresses that is not above `address`; 0 when all are. */
static inline __attribute__((always_inline)) fp_u64 fp_unwind_part_of(const fp_u64 *starts,
								      fp_u64 address)
{
	fp_u64 index = 0, probe;

	for (fp_u64 half = FP_UNWIND_PARTS / 2; half; half /= 2) {
		probe = index + half;
		FP_UNWIND_MASK(probe, 31);
		index += half & fp_unwind_up_to(starts[probe], address);
	}
	return index;
}

static inline __attribute__((always_inline)) fp_u64
fp_unwind_range_of(const struct fp_unwind_range *ranges, fp_u64 address)
{
	fp_u64 index = 0, probe;

	for (fp_u64 half = FP_UNWIND_PART_RANGES / 2; half; half /= 2) {
		probe = index + half;
		FP_UNWIND_MASK(probe, 31);
		index += half & fp_unwind_up_to(ranges[probe].start, address);
	}
	return index;
}

/* Whether the entry is of the program that is walked. */
static inline __attribute__((always_inline)) int
fp_unwind_belongs(const struct fp_walk *walk, const volatile struct fp_unwind_ranges *entry)
{
	fp_u64 start = entry->start_boottime_ns;
	fp_u64 other = (start ^ walk->start_boottime_ns) | (entry->exec_id ^ walk->exec_id);

	return !start | !other;
}

/* And of that version. */
static inline __attribute__((always_inline)) int
fp_unwind_is_version(const struct fp_walk *walk, const volatile struct fp_unwind_ranges *entry,
		     fp_u32 version)
{
	return fp_unwind_belongs(walk, entry) & (entry->version == version);
}

/* Code that no table covers: `size` bytes from `start`. */
static inline __attribute__((always_inline)) void fp_unwind_no_range(struct fp_walk *walk,
								     fp_u64 start, fp_u64 size)
{
	walk->range_start = start;
	walk->range_size = size;
	walk->range_tag = 0;
}

/*
 * Copies the range of `address` out of its part, or the space up to the next one: before the next
 * range of the part or, behind the last, before `end`.
 */
static inline __attribute__((always_inline)) void
fp_unwind_take_range(struct fp_walk *walk, const struct fp_unwind_ranges *part, fp_u64 address,
		     fp_u64 end)
{
	fp_u64 index = fp_unwind_range_of(part->ranges, address), next = index + 1;
	const struct fp_unwind_range *range;

	FP_UNWIND_MASK(index, 31);
	range = &part->ranges[index];
	if (address - range->start < range->size) {
		walk->range_start = range->start;
		walk->range_size = range->size;
		walk->range_at = range->at;
		walk->range_tag = range->tag;
		return;
	}
	if (address < range->start) { /* only before the very first */
		fp_unwind_no_range(walk, 0, range->start);
		return;
	}
	if (next < FP_UNWIND_PART_RANGES) {
		FP_UNWIND_MASK(next, 31);
		if (part->ranges[next].start < end)
			end = part->ranges[next].start;
	}
	fp_unwind_no_range(walk, range->start + range->size, end - range->start - range->size);
}

/*
 * Makes the walk's range the one of `address` among those of the process. An entry may be replaced,
 * and its memory become another's, while it is read; then its head no longer is what it was before.
 */
static inline __attribute__((always_inline)) void fp_unwind_find_own_range(struct fp_walk *walk,
									   fp_u64 address)
{
	const struct fp_unwind_ranges *first = FP_UNWIND_RANGES_AT(walk->tgid, 0), *part = first;
	fp_u64 end = ~0ULL, index, next;
	fp_u32 version = walk->version;

	if (!first)
		return;
	if (!version)
		version = *(const volatile fp_u32 *)&first->version;
	if (!fp_unwind_is_version(walk, first, version))
		return;
	index = fp_unwind_part_of(first->part_start, address);
	next = index + 1;
	if (next < FP_UNWIND_PARTS) {
		FP_UNWIND_MASK(next, 31);
		end = first->part_start[next];
	}
	if (index)
		part = FP_UNWIND_RANGES_AT(walk->tgid, index);
	if (!part)
		return;
	fp_unwind_take_range(walk, part, address, end);
	FP_UNWIND_BARRIER();
	if (fp_unwind_is_version(walk, first, version) && fp_unwind_is_version(walk, part, version))
		walk->version = version;
	else
		fp_unwind_no_range(walk, 0, ~0ULL);
}

/*
 * Makes the walk's range the one of `address`: of the ranges of the process, or, where these have
 * none, of the file that is mapped there.
 */
static inline __attribute__((always_inline)) void fp_unwind_find_range(struct fp_walk *walk,
								       fp_u64 address)
{
	fp_unwind_no_range(walk, 0, ~0ULL);
	if (walk->version != FP_UNWIND_BY_FILE)
		fp_unwind_find_own_range(walk, address);
	if (!walk->range_tag)
		FP_UNWIND_FIND_FILE(walk, address);
}

/* Whether the table may be used: all that were found so are in the record. */
static inline __attribute__((always_inline)) int fp_unwind_note_tag(struct fp_walk *walk,
								    fp_u16 tag)
{
	fp_u64 at = walk->file_tag_count;
	fp_u32 known = 0;

	for (int i = 0; i < FP_UNWIND_FILE_TAGS; i++)
		known |= walk->file_tags[i] == tag;
	if (known)
		return 1;
	if (at >= FP_UNWIND_FILE_TAGS)
		return 0;
	FP_UNWIND_MASK(at, 7);
	walk->file_tags[at] = tag;
	walk->file_tag_count = at + 1;
	return 1;
}

/*
 * Takes the part of a mapping, of [start, end) and from `offset` of its file on, that the file's
 * table covers, or the space about `address` that it does not.
 */
static inline __attribute__((always_inline)) void
fp_unwind_take_file(struct fp_walk *walk, const struct fp_unwind_file *file, fp_u64 start,
		    fp_u64 end, fp_u64 offset, fp_u64 address)
{
	fp_u64 from = offset, to = offset + (end - start), at = address - start + offset;

	if (from < file->offset)
		from = file->offset;
	if (to > file->offset + file->size)
		to = file->offset + file->size;
	if (!file->tag || from >= to) {
		fp_unwind_no_range(walk, start, end - start);
		return;
	}
	if (at < from) {
		fp_unwind_no_range(walk, start, from - offset);
		return;
	}
	if (at >= to) {
		fp_unwind_no_range(walk, start + (to - offset), end - start - (to - offset));
		return;
	}
	if (!fp_unwind_note_tag(walk, file->tag)) {
		fp_unwind_no_range(walk, start, end - start);
		return;
	}
	walk->range_start = start + (from - offset);
	walk->range_size = to - from;
	walk->range_at = file->at + (fp_u32)(from - file->offset);
	walk->range_tag = file->tag;
}

/* One step of the search for a row: of the `left` rows from `base` on, one half. */
#define FP_UNWIND_HALVE()                                                                          \
	do {                                                                                       \
		fp_u64 half = left / 2, probe = base + half;                                       \
		FP_UNWIND_MASK(probe, 16383);                                                      \
		base += half & (fp_u64)((fp_i64)((chunk->rows[probe] & 0xffff) - behind) >> 63);   \
		left -= half;                                                                      \
	} while (0)

/* The last of `count` rows from `first` on that is not behind `place`, of 16 bits. */
static inline __attribute__((always_inline)) fp_u32
fp_unwind_row_of(const struct fp_unwind_chunk *chunk, fp_u64 first, fp_u64 count, fp_u64 place)
{
	fp_u64 base = first, left = count, behind = place + 1;

	if (left > 2048) { /* 64 KiB of code have a thousand or so */
		FP_UNWIND_HALVE();
		FP_UNWIND_HALVE();
		FP_UNWIND_HALVE();
	}
	if (left > 256) {
		FP_UNWIND_HALVE();
		FP_UNWIND_HALVE();
		FP_UNWIND_HALVE();
	}
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_HALVE();
	FP_UNWIND_MASK(base, 16383);
	return chunk->rows[base];
}

/* The rule for the code at `address`; NULL: no table covers it. */
static inline __attribute__((always_inline)) const struct fp_unwind_rule *
fp_unwind_find(struct fp_walk *walk, fp_u64 address)
{
	const struct fp_unwind_chunk *chunk;
	const fp_u64 *page;
	fp_u64 word;
	fp_u32 place;

	if (address - walk->range_start >= walk->range_size)
		fp_unwind_find_range(walk, address);
	if (!walk->range_tag)
		return (void *)0;
	place = (fp_u32)(address - walk->range_start) + walk->range_at;
	page = FP_UNWIND_PAGE_AT(place >> FP_UNWIND_PAGE_BITS);
	word = page ? *(const volatile fp_u64 *)page : 0;
	if (word >> 48 != walk->range_tag)
		return (void *)0;
	chunk = FP_UNWIND_CHUNK_AT(word & 0xffff);
	if (!chunk)
		return (void *)0;
	return FP_UNWIND_RULE_AT(
	    fp_unwind_row_of(chunk, word >> 16 & 0xffff, word >> 32 & 0xffff, place & 0xffff) >>
	    16);
}

#ifdef __bpf__
#include "bpf/unwindfile.h"
#endif

#endif
