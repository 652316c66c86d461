// SPDX-License-Identifier: Apache-2.0
//
// snapshot: `agentctl snapshot`, in three steps: what is asked (snapshot.c), taking the
// profile through the agent or on our own (snapshot_agent.c, snapshot_alone.c), and making
// of it what people look at (snapshot_view.c).
// Threads: none.
#pragma once

#include "command.h"
#include "profile/aspect.h"
#include "proto/profile.h"

#include <signal.h>

struct fp_snapshot_options {
	uint32_t pid;
	uint64_t duration_ns;
	uint32_t hz;
	uint32_t shown;	    // pictures asked for: a bit per row of fp_aspects
	const char *format; // a renderer's name; NULL: table on a terminal, else folded
	const char *output; // NULL: standard output
	const char *socket;
	bool raw, standalone, quiet;
};

bool fp_snapshot_shows(const struct fp_snapshot_options *options, const struct fp_aspect *aspect);
// Whether the type must be recorded for what is shown.
bool fp_snapshot_records(const struct fp_snapshot_options *options, enum fp_profile_type type);

struct fp_snapshot_result {
	struct fp_profile *profile;
	uint32_t pid; // of the process, when a thread's was given
	char comm[16];
	char ended[24]; // "duration", "stopped", "process_ended"
	uint64_t elapsed_ns;
};
void fp_snapshot_result_clear(struct fp_snapshot_result *result);

// Each says what went wrong and returns an exit code; 0 with the result filled in.
// FP_EXIT_NOT_RUNNING from the first is silent, so that the caller can go on alone.
int fp_snapshot_by_agent(const struct fp_snapshot_options *options, struct fp_snapshot_result *ret);
int fp_snapshot_alone(const struct fp_snapshot_options *options, struct fp_snapshot_result *ret);

// root_fd: the process's root directory, or -1. Returns an exit code.
int fp_snapshot_view(const struct fp_snapshot_options *options,
		     const struct fp_snapshot_result *result, int root_fd);
// False after saying why the options do not go together.
bool fp_snapshot_view_check(const struct fp_snapshot_options *options);

// Set by SIGINT, SIGTERM: end early and write what there is. The second one kills.
extern volatile sig_atomic_t fp_snapshot_interrupted;
// A line that is overwritten by the next, on a terminal only; elapsed 0 wipes it.
void fp_snapshot_progress(const struct fp_snapshot_options *options, uint64_t elapsed_ns,
			  uint64_t samples, uint64_t intervals);
