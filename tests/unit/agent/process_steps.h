// SPDX-License-Identifier: Apache-2.0
//
// process_steps: short words for sequences of process events and for asking the table what
// it made of them. Tests include it once each.
#pragma once

#include "../cases.h"

#include "agent/process.h"

#include <errno.h>
#include <string.h>

// No PID is as large as these, so nothing of the host is ever read in their place.
#define SHELL 5000001u
#define CHILD 5000002u
#define OTHER 5000003u

// Times in the tests are milliseconds: far apart for the clock, short to write.
#define MS 1000000u

static struct fp_process_table *table;

static inline void steps_begin_with(uint32_t processes, uint32_t mappings)
{
	struct fp_process_limits limits = { .processes = processes, .mappings = mappings };

	assert_int_equal(fp_process_table_new(&limits, &table), 0);
}

static inline int steps_begin(void **state)
{
	steps_begin_with(0, 0);
	return 0;
}

static inline int steps_end(void **state)
{
	fp_process_table_freep(&table);
	return 0;
}

static inline void step(const struct fp_event *event)
{
	assert_int_equal(fp_process_table_event(table, event), 0);
}

static inline void fork_at(uint64_t time, uint32_t parent, uint32_t child)
{
	step(&(struct fp_event){ .kind = FP_EVENT_FORK,
				 .time_ns = time * MS,
				 .tgid = child,
				 .tid = child,
				 .parent_tgid = parent });
}

static inline void thread_at(uint64_t time, uint32_t tgid, uint32_t tid)
{
	step(&(struct fp_event){ .kind = FP_EVENT_FORK,
				 .time_ns = time * MS,
				 .tgid = tgid,
				 .tid = tid,
				 .parent_tgid = tgid });
}

static inline void exec_at(uint64_t time, uint32_t tgid, const char *comm)
{
	step(&(struct fp_event){
	    .kind = FP_EVENT_EXEC, .time_ns = time * MS, .tgid = tgid, .tid = tgid, .name = comm });
}

static inline void exit_at(uint64_t time, uint32_t tgid, uint32_t tid)
{
	step(&(struct fp_event){
	    .kind = FP_EVENT_EXIT, .time_ns = time * MS, .tgid = tgid, .tid = tid });
}

// Maps [start, start + length) of a file whose build-ID is 20 times the byte `id` (0: none).
static inline void map_at(uint64_t time, uint32_t tgid, uint64_t start, uint64_t length,
			  const char *name, uint8_t id)
{
	struct fp_event event = { .kind = FP_EVENT_MMAP,
				  .time_ns = time * MS,
				  .tgid = tgid,
				  .tid = tgid,
				  .start = start,
				  .length = length,
				  .page_offset = 0x1000,
				  .name = name };

	if (id) {
		event.build_id_len = 20;
		memset(event.build_id, id, 20);
	}
	step(&event);
}

static inline struct fp_stack_record record_at(uint64_t time, uint32_t tgid, uint64_t start,
					       uint32_t exec_id)
{
	return (struct fp_stack_record){ .time_ns = time * MS,
					 .start_ns = start * MS,
					 .start_boottime_ns = start * MS,
					 .tgid = tgid,
					 .tid = tgid,
					 .exec_id = exec_id,
					 .user_len = 1 };
}

static inline int view_of(uint64_t time, uint32_t tgid, uint64_t start, struct fp_process_view *ret)
{
	struct { // the record's one frame behind it, at no address of interest
		struct fp_stack_record record;
		uint64_t frame;
	} stack = { .record = record_at(time, tgid, start, 0) };

	return fp_process_table_view(table, &stack.record, ret);
}

static inline const char *name_in(const struct fp_process_view *view, uint64_t address)
{
	for (uint32_t i = 0; i < view->count; i++) {
		const struct fp_mapping *mapping = &view->mappings[i];

		assert_true(i == 0 || view->mappings[i - 1].end <= mapping->start);
		if (mapping->start <= address && address < mapping->end)
			return view->files[mapping->file].name;
	}
	return "(none)";
}

// The record of {time, tgid, start} must find `name` mapped at the address.
static inline void expect_at(uint64_t time, uint32_t tgid, uint64_t start, uint64_t address,
			     const char *name)
{
	struct fp_process_view view;

	assert_int_equal(view_of(time, tgid, start, &view), 0);
	assert_string_equal(name_in(&view, address), name);
}

static inline void expect_executable(uint64_t time, uint32_t tgid, uint64_t start, const char *name)
{
	struct fp_process_view view;

	assert_int_equal(view_of(time, tgid, start, &view), 0);
	assert_string_equal(view.executable, name);
}

static inline void expect_gone(uint64_t time, uint32_t tgid, uint64_t start)
{
	struct fp_process_view view;

	assert_int_equal(view_of(time, tgid, start, &view), -ESRCH);
}

static inline void retire_at(uint64_t time)
{
	fp_process_table_retire(table, time * MS);
}

static inline struct fp_process_stats stats_now(void)
{
	struct fp_process_stats stats;

	fp_process_table_stats(table, &stats);
	return stats;
}
