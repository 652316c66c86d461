// SPDX-License-Identifier: Apache-2.0
#include "mark.h"

#include <string.h>

#define WOKEN_BY "[woken by "

// The states are those of the label `state` (agent/labels.c). A relabel rule may have taken it
// away: then the type alone has to do, which is the last row of each.
static const struct {
	enum fp_profile_type type;
	const char *state;
	const char *name;
	enum fp_node_kind kind;
} marks[] = {
	{ FP_PROFILE_OFF_CPU, "interruptible", "[blocked: interruptible]", FP_NODE_WAIT },
	{ FP_PROFILE_OFF_CPU, "uninterruptible", "[blocked: uninterruptible]", FP_NODE_WAIT },
	{ FP_PROFILE_OFF_CPU, "stopped", "[stopped]", FP_NODE_WAIT },
	{ FP_PROFILE_OFF_CPU, NULL, "[blocked]", FP_NODE_WAIT },
	{ FP_PROFILE_RUN_QUEUE, "preempted", "[preempted]", FP_NODE_READY },
	{ FP_PROFILE_RUN_QUEUE, "woken", "[woken]", FP_NODE_READY },
	{ FP_PROFILE_RUN_QUEUE, NULL, "[ready]", FP_NODE_READY },
};

bool fp_mark_frame(enum fp_profile_type type, const char *state, struct fp_tree_frame *ret_frame)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(marks); i++) {
		if (marks[i].type != type)
			continue;
		if (marks[i].state && (!state || strcmp(marks[i].state, state) != 0))
			continue;
		*ret_frame = (struct fp_tree_frame){ .name = marks[i].name,
						     .name_size = strlen(marks[i].name),
						     .kind = marks[i].kind };
		return true;
	}
	return false;
}

enum fp_node_kind fp_mark_kind(const char *name, size_t size)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(marks); i++)
		if (strlen(marks[i].name) == size && memcmp(marks[i].name, name, size) == 0)
			return marks[i].kind;
	if (size > strlen(WOKEN_BY) && memcmp(name, WOKEN_BY, strlen(WOKEN_BY)) == 0)
		return FP_NODE_WAKE;
	return FP_NODE_ERROR;
}
