// SPDX-License-Identifier: Apache-2.0
//
// ship_wanted: the header in which a collector names builds whose symbol tables it lacks,
// `X-Fleetprof-Wanted: <hex id>[,<hex id>…]`. A value that is not exactly that is of no use as a
// whole: somebody else wrote it.
// Trust: foreign. Threads: no state.
#pragma once

#include "proto/profile.h"

#define FP_SHIP_WANTED_MAX	 16 // ids in one answer
#define FP_SHIP_WANTED_ID_MAX	 (2 * FP_BUILD_ID_MAX + 1)
#define FP_SHIP_WANTED_VALUE_MAX (FP_SHIP_WANTED_MAX * FP_SHIP_WANTED_ID_MAX)

struct fp_ship_wanted {
	char ids[FP_SHIP_WANTED_MAX][FP_SHIP_WANTED_ID_MAX]; // lower-case hex
	size_t count;
};

// Of a value without the blanks around it. -EBADMSG: it is not such a list.
int fp_ship_wanted_parse(const char *value, size_t size, struct fp_ship_wanted *ret);
