// SPDX-License-Identifier: Apache-2.0
//
// spool_place: a directory for the spool of one test.
#pragma once

#include "agent/spool_state.h"

struct place {
	char path[64];
	int fd;
};

extern const struct fp_spool_limits roomy; // nothing is ever dropped

int make_place(void **state); // cmocka's setup and teardown
int remove_place(void **state);
#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

#define AUTOSPOOL FP_CLEANUP(fp_spool_freep) struct fp_spool *
#define AUTOITEM  FP_CLEANUP(fp_spool_item_clear) struct fp_spool_item
struct fp_spool *open_spool(const struct place *place, const struct fp_spool_limits *limits);
// Puts a small profile of now with the next sequence and yields that.
uint64_t place_put(struct fp_spool *spool, uint64_t samples);
struct fp_spool_stats stats_of(struct fp_spool *spool);
void assert_dropped(struct fp_spool *spool, enum fp_spool_drop reason, uint64_t batches,
		    uint64_t samples);
