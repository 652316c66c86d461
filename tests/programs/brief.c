// SPDX-License-Identifier: Apache-2.0
//
// brief BORN_NS LIFE_US LEAF: a process that ends LIFE_US after BORN_NS (CLOCK_MONOTONIC, when
// its parent made it), blocks in brief_wait once and works in brief_leaf_<LEAF> until then.
// Started by briefs.c.
#define LEAF(number) brief_leaf_##number
#define WAIT	     brief_wait
#include "brief_work.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	brief_live(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10),
		   (uint32_t)strtoul(argv[3], NULL, 10), 0);
	return 0;
}
