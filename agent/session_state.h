// SPDX-License-Identifier: Apache-2.0
//
// session_state: the inside of a session, shared by session.c (open, poll) and session_drain.c
// (drain, window, books). Threads: one owner.
#pragma once

#include "names.h"
#include "questions.h"
#include "records.h"
#include "session.h"
#include "window.h"

struct drained { // one count-map entry, kept until the side-band has been read
	enum fp_source source;
	struct fp_key key;
	struct fp_count count;
};

struct fp_session {
	struct fp_session_config config;
	struct fp_sampler *sampler;
	struct fp_sideband *sideband;
	struct fp_process_table *processes;
	struct fp_kernel_map *kernel;
	struct fp_labeler *labeler;
	struct fp_resolver resolver;
	struct fp_records records;
	struct fp_questions questions;
	struct fp_names_reader reader;
	struct fp_unwind_source unwind;
	struct fp_window window;
	struct drained *drained; // scratch of one drain
	size_t drained_count, drained_capacity;
	struct fp_epoch epoch; // the last one
	struct fp_session_stats stats;
	uint64_t hotplug_due_ns;
	uint64_t polled_ns; // when the last poll began
	int epoll_fd;
	uint64_t read_ns; // when process events were last read
	int wake_fd;	  // timer; -1: process events are read when a ring has some
	bool events_wait; // for the timer
};

// Stack records and process events as they come.
int fp_session_take_record(const struct fp_stack_record *record, void *context);
int fp_session_read_events(struct fp_session *session);
// The same where the last time is a while ago: in the midst of long work, which the rings would not
// wait for.
int fp_session_keep_up(struct fp_session *session);
int fp_session_sync_cpus(struct fp_session *session);
// Whether drained sums and the programs' independent totals agree.
bool fp_epoch_balanced(const struct fp_epoch *epoch);
