/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwind: one step from a frame to its caller, by what the unwind tables (bpf/abi.h) say of the
 * code, and by frame pointer where they say nothing. An address → range of its process → page →
 * row → rule → the caller's registers.
 *
 * Nothing that a table or a stack holds can make a step read outside the maps or loop: indexes are
 * masked, searches take a fixed number of steps, and user memory is read by a helper that fails.
 * A wrong table makes wrong frames, which is why the agent checks tables before it loads them.
 *
 * The four maps are reached through FP_UNWIND_*_AT, and FP_UNWIND_TABLES says whether there is
 * anything in them; FP_UNWIND_FIND_FILE looks at what the kernel has mapped (bpf/unwindfile.h).
 * Tests define these natively.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_UNWIND_H
#define FLEETPROF_UNWIND_H

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

static inline __attribute__((always_inline)) long fp_unwind_cannot(struct fp_walk *walk,
								   fp_u32 reason)
{
	walk->cannot = reason < FP_UNWIND_CANNOT_COUNT ? reason : FP_UNWIND_CANNOT_MALFORMED;
	return fp_walk_ends(walk, FP_WALK_END_CANNOT);
}

/* The value of a register in the frame. */
static inline __attribute__((always_inline)) long
fp_unwind_register(struct fp_walk *walk, fp_u32 number, const struct fp_reader *reader, fp_u64 *ret)
{
	fp_u64 index = number;

	if (number >= FP_REGISTERS || !(walk->known >> number & 1))
		return fp_unwind_cannot(walk, FP_UNWIND_CANNOT_REGISTER);
	if (number == FP_RBP && fp_walk_fetch(walk, FP_RBP, &walk->frame_pointer_at, reader))
		return 1;
	if (number == FP_RBX && fp_walk_fetch(walk, FP_RBX, &walk->rbx_at, reader))
		return 1;
	FP_UNWIND_MASK(index, 15);
	*ret = walk->registers[index];
	return 0;
}

/* The canonical frame address, which is the caller's stack pointer. */
static inline __attribute__((always_inline)) long fp_unwind_cfa(struct fp_walk *walk,
								const struct fp_unwind_rule *rule,
								const struct fp_reader *reader,
								fp_u64 *ret)
{
	fp_u32 kind = rule->cfa, number = FP_RSP;
	fp_u64 value, index = 0;

	if (kind == FP_UNWIND_RBP || kind == FP_UNWIND_RBP_DEREF)
		number = FP_RBP;
	if (kind == FP_UNWIND_REGISTER)
		number = rule->reg;
	if (fp_unwind_register(walk, number, reader, &value))
		return 1;
	if (kind == FP_UNWIND_INDEXED && fp_unwind_register(walk, rule->reg, reader, &index))
		return 1;
	value += (fp_u64)(fp_i64)rule->offset + 8 * index;
	if (kind == FP_UNWIND_RSP_DEREF || kind == FP_UNWIND_RBP_DEREF ||
	    kind == FP_UNWIND_INDEXED) {
		if (FP_READ_USER(reader, &value, sizeof(value), value))
			return fp_walk_ends(walk, FP_WALK_END_FAULT);
		value += (fp_u64)(fp_i64)rule->add;
	}
	if (kind == FP_UNWIND_PLT && (walk->ip & 15) >= (fp_u32)rule->add)
		value += 8;
	/* The stack of a caller lies above. Code that has just begun may have switched it. */
	if (!fp_frame_address(value) || (!walk->exact && value <= walk->registers[FP_RSP]))
		return fp_walk_ends(walk, FP_WALK_END_ASTRAY);
	*ret = value;
	return 0;
}

/* Where a register of the caller is: `at` becomes its place, or stays when it is untouched. */
static inline __attribute__((always_inline)) void
fp_unwind_saved(struct fp_walk *walk, fp_u32 kind, fp_u32 number, fp_u64 *at, fp_u64 place)
{
	if (kind == FP_UNWIND_LOST)
		walk->known &= ~(1 << number);
	if (kind == FP_UNWIND_AT_CFA || kind == FP_UNWIND_AT_RBP) {
		walk->known |= 1 << number;
		*at = place;
	}
}

/*
 * Registers that a function keeps for its caller, and perhaps has changed by now: where, tables do
 * not say. Any other that code relies on across a call is not touched by what it calls:
 * OpenSSL's AES-GCM has its stack pointer in rax and calls helpers of its own.
 */
#define FP_UNWIND_UNTRACKED (1 << 12 | 1 << 13 | 1 << 14 | 1 << 15) /* r12 to r15 */

/* What the caller's registers are, given its stack pointer: in memory mostly, from where they are
 * read when they are needed. */
static inline __attribute__((always_inline)) long
fp_unwind_restore(struct fp_walk *walk, const struct fp_unwind_rule *rule, fp_u64 cfa,
		  const struct fp_reader *reader)
{
	fp_u32 rbp = rule->saved & 3, rbx = rule->saved >> 2 & 3;
	fp_u64 rbp_base = cfa, rbx_base = cfa, frame = 0;

	if (rbp == FP_UNWIND_AT_RBP || rbx == FP_UNWIND_AT_RBP) {
		if (fp_unwind_register(walk, FP_RBP, reader, &frame))
			return 1;
		rbp_base = rbp == FP_UNWIND_AT_RBP ? frame : cfa;
		rbx_base = rbx == FP_UNWIND_AT_RBP ? frame : cfa;
	}
	fp_unwind_saved(walk, rbp, FP_RBP, &walk->frame_pointer_at,
			rbp_base + (fp_u64)(fp_i64)rule->rbp_at);
	fp_unwind_saved(walk, rbx, FP_RBX, &walk->rbx_at, rbx_base + (fp_u64)(fp_i64)rule->rbx_at);
	walk->known &= ~FP_UNWIND_UNTRACKED;
	walk->known |= 1 << FP_RSP;
	walk->registers[FP_RSP] = cfa;
	return 0;
}

/* The return address; with it comes the frame pointer where that lies beside it. */
static inline __attribute__((always_inline)) long
fp_unwind_return(struct fp_walk *walk, const struct fp_unwind_rule *rule, fp_u64 cfa,
		 const struct fp_reader *reader, fp_u64 *ret)
{
	fp_u64 pair[FP_PAIR_LEN];

	if (rule->return_reg != FP_UNWIND_RETURN_AT_CFA) {
		if (fp_unwind_register(walk, rule->return_reg, reader, ret))
			return 1;
		return fp_unwind_restore(walk, rule, cfa, reader);
	}
	if ((rule->saved & 3) != FP_UNWIND_AT_CFA || rule->rbp_at != -(fp_i32)sizeof(pair)) {
		if (FP_READ_USER(reader, ret, sizeof(*ret), cfa - sizeof(*ret)))
			return fp_walk_ends(walk, FP_WALK_END_FAULT);
		return fp_unwind_restore(walk, rule, cfa, reader);
	}
	if (FP_READ_USER(reader, pair, sizeof(pair), cfa - sizeof(pair)))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	if (fp_unwind_restore(walk, rule, cfa, reader))
		return 1;
	walk->registers[FP_RBP] = pair[FP_PAIR_SAVED];
	walk->frame_pointer_at = 0;
	*ret = pair[FP_PAIR_RETURN];
	return 0;
}

/* From a signal's frame to what it interrupted, all of whose registers are there. Its stack may be
 * another one. */
static inline __attribute__((always_inline)) long
fp_unwind_signal(struct fp_walk *walk, fp_u64 *frames, fp_u32 index,
		 const struct fp_unwind_rule *rule, const struct fp_reader *reader)
{
	fp_u64 at = walk->registers[FP_RSP] + (fp_u64)(fp_i64)rule->offset + FP_SIGNAL_CONTEXT_AT;

	if (FP_READ_USER(reader, &walk->context, sizeof(walk->context), at))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	if (!fp_user_address(walk->context.rip) || !fp_user_address(walk->context.rsp))
		return fp_walk_ends(walk, FP_WALK_END_ASTRAY);
	fp_signal_registers(&walk->context, walk->registers);
	walk->frame_pointer_at = walk->rbx_at = 0;
	walk->known = (1 << FP_REGISTERS) - 1;
	fp_walk_take(walk, frames, index, walk->context.rip + 1);
	walk->ip = walk->context.rip;
	walk->exact = 1;
	return 0;
}

static inline __attribute__((always_inline)) long
fp_unwind_by_rule(struct fp_walk *walk, fp_u64 *frames, fp_u32 index,
		  const struct fp_unwind_rule *rule, const struct fp_reader *reader)
{
	fp_u64 cfa, caller;

	if (fp_unwind_cfa(walk, rule, reader, &cfa) ||
	    fp_unwind_return(walk, rule, cfa, reader, &caller))
		return 1;
	/* Who has nobody to return to: Go's goexit and the threads of its runtime, coroutines. */
	if (!fp_user_address(caller))
		return fp_walk_ends(walk, caller ? FP_WALK_END_ASTRAY : FP_WALK_END_ROOT);
	fp_walk_take(walk, frames, index, caller);
	return 0;
}

/*
 * Takes step `index` (0, 1, 2, …), which fills slot first + index. Returns 0 to go on, 1 when the
 * step could not be taken and walk->end says why.
 */
static inline __attribute__((always_inline)) long
fp_unwind_step(struct fp_walk *walk, fp_u64 *frames, fp_u32 index, const struct fp_reader *reader)
{
	const struct fp_unwind_rule *rule = (void *)0;
	long over;

	if (FP_UNWIND_TABLES)
		rule = fp_unwind_find(walk, walk->ip - !walk->exact);
	if (!rule || rule->cfa == FP_UNWIND_GAP)
		return fp_walk_by_pointer(walk, frames, index, reader);
	if (rule->cfa == FP_UNWIND_END)
		return fp_walk_ends(walk, FP_WALK_END_OUTERMOST);
	if (rule->cfa == FP_UNWIND_CANNOT || rule->cfa >= FP_UNWIND_CFA_COUNT)
		return fp_unwind_cannot(walk, rule->cfa == FP_UNWIND_CANNOT
						  ? (fp_u32)rule->add
						  : FP_UNWIND_CANNOT_MALFORMED);
	walk->last_frame = 0;
	if (rule->cfa == FP_UNWIND_SIGNAL)
		over = fp_unwind_signal(walk, frames, index, rule, reader);
	else
		over = fp_unwind_by_rule(walk, frames, index, rule, reader);
	walk->by_table += !over;
	return over;
}

#ifdef __bpf__
#include "bpf/unwindfile.h"
#endif

#endif
