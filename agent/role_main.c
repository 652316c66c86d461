// SPDX-License-Identifier: Apache-2.0
#include "role_start.h"

#include "opener.h"
#include "ship.h"
#include "symbolrole.h"

#include <string.h>

static const struct {
	const char *argument;
	int (*main)(void);
} roles[] = {
	{ FP_SHIP_ROLE_ARGUMENT, fp_ship_role_main },
	{ FP_SYMBOLS_ROLE_ARGUMENT, fp_symbol_role_main },
	{ FP_OPENER_ROLE_ARGUMENT, fp_opener_main },
};

bool fp_role_main(int argc, char **argv, int *ret_code)
{
	if (argc != 2)
		return false;
	for (size_t i = 0; i < FP_ARRAY_SIZE(roles); i++) {
		if (strcmp(argv[1], roles[i].argument) == 0) {
			*ret_code = roles[i].main();
			return true;
		}
	}
	return false;
}
