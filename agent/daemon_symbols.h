// SPDX-License-Identifier: Apache-2.0
//
// daemon_symbols: the sampler's side of symbol tables that the collector asks for: one wish of the
// spool at a time is answered with the table of a file that a running process has mapped, or of
// the file at the path that a window named. A file that cannot be had, or that is not root's, is no
// answer while there is another with the same build.
// Threads: the loop's.
#pragma once

#include "common/hashmap.h"
#include "agentmetrics.h"
#include "process_find.h"
#include "spool.h"

struct fp_daemon;

#define FP_DAEMON_PATHS_MAX 1024 // remembered in each of two generations

struct fp_daemon_symbols {
	struct fp_daemon *daemon; // set before the first turn
	bool more;		  // wishes may be left from the last look
	bool asked;		  // fp_names_table runs, for `id` and `path`
	char id[FP_SPOOL_ID_MAX];
	char *path;
	bool by_path; // what runs is the last try
	struct fp_process_tried tried;
	enum fp_agent_metric result; // what is counted when nothing better comes
	// Builds of the last windows and where their files were: {id} → path, owned.
	struct fp_hashmap recent, before;
};

void fp_daemon_symbols_init(struct fp_daemon_symbols *symbols, struct fp_daemon *daemon);
void fp_daemon_symbols_free(struct fp_daemon_symbols *symbols);
// Takes up a wish, if there is one and nothing is under way. Call every turn of the loop.
void fp_daemon_symbols_turn(struct fp_daemon_symbols *symbols);
// Remembers where the builds of a window that is being shipped were mapped from.
struct fp_profile;
void fp_daemon_symbols_remember(struct fp_daemon_symbols *symbols,
				const struct fp_profile *profile);
