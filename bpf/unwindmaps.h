/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwindmaps: the maps that hold unwind tables and the ranges of processes (bpf/abi.h), filled by
 * the agent while programs run, and how bpf/unwind.h reaches them. Programs only read them, but for
 * one.
 *
 * What a program has found stays as it is until its run is over: the agent reuses rows, rules and
 * pages only after a grace period, and never during a visit (bpf/blocked.h), which may sleep.
 */
#ifndef FLEETPROF_UNWINDMAPS_H
#define FLEETPROF_UNWINDMAPS_H

#include "bpf/kernel.h"
#include <bpf/bpf_helpers.h>

/* Fixed before load. Without tables the agent makes the maps as small as can be. */
const volatile bool fp_unwind_tables __weak = false;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FP_UNWIND_PAGES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, u64); /* FP_UNWIND_PAGE */
} unwind_pages __weak SEC(".maps");

/* By size and not by type: bpftool does not link an inner map with a type into two objects. */
struct unwind_chunk {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct fp_unwind_chunk));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, FP_UNWIND_CHUNKS);
	__type(key, u32);
	__array(values, struct unwind_chunk);
} unwind_rows __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FP_UNWIND_RULES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct fp_unwind_rule);
} unwind_rules __weak SEC(".maps");

/* Allocated ahead: before 6.1 programs of perf events may use no other hash. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FP_UNWIND_RANGES_ENTRIES);
	__type(key, struct fp_unwind_ranges_key);
	__type(value, struct fp_unwind_ranges);
} unwind_ranges __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FP_UNWIND_FILES);
	__type(key, struct fp_unwind_file_key);
	__type(value, struct fp_unwind_file);
} unwind_files __weak SEC(".maps");

/* The one that programs write: user space takes out what it has found. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FP_UNWIND_FILES_MET);
	__type(key, struct fp_unwind_file_key);
	__type(value, struct fp_unwind_met);
} unwind_met __weak SEC(".maps");

static __always_inline const struct fp_unwind_ranges *fp_unwind_ranges_at(u32 tgid, u32 part)
{
	struct fp_unwind_ranges_key key = { .tgid = tgid, .part = part };

	return bpf_map_lookup_elem(&unwind_ranges, &key);
}

static __always_inline const u64 *fp_unwind_page_at(u32 index)
{
	return bpf_map_lookup_elem(&unwind_pages, &index);
}

static __always_inline const struct fp_unwind_chunk *fp_unwind_chunk_at(u32 index)
{
	void *chunk = bpf_map_lookup_elem(&unwind_rows, &index);
	u32 zero = 0;

	return chunk ? bpf_map_lookup_elem(chunk, &zero) : NULL;
}

static __always_inline const struct fp_unwind_rule *fp_unwind_rule_at(u32 index)
{
	return bpf_map_lookup_elem(&unwind_rules, &index);
}

#define FP_UNWIND_TABLES		(fp_unwind_tables)
#define FP_UNWIND_RANGES_AT(tgid, part) fp_unwind_ranges_at(tgid, part)
#define FP_UNWIND_PAGE_AT(index)	fp_unwind_page_at(index)
#define FP_UNWIND_CHUNK_AT(index)	fp_unwind_chunk_at(index)
#define FP_UNWIND_RULE_AT(index)	fp_unwind_rule_at(index)

#endif
