// SPDX-License-Identifier: Apache-2.0
//
// wanted_fuzz: the value of X-Fleetprof-Wanted as a collector, or whoever answers in its place,
// may send it. What is taken, joined again, is the value: nothing was read that is not there.
#include "fuzz.h"

#include "agent/ship_wanted.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fp_ship_wanted wanted;
	char again[FP_SHIP_WANTED_VALUE_MAX] = "";

	if (fp_ship_wanted_parse((const char *)data, size, &wanted) < 0)
		return 0;
	if (wanted.count == 0 || wanted.count > FP_SHIP_WANTED_MAX)
		abort();
	for (size_t i = 0; i < wanted.count; i++) {
		strcat(again, i ? "," : "");
		strcat(again, wanted.ids[i]);
	}
	if (strlen(again) != size || memcmp(again, data, size) != 0)
		abort();
	return 0;
}
