// SPDX-License-Identifier: Apache-2.0
//
// relabel_fuzz: any text as relabel rules. What is refused must say why; what is accepted is
// applied to a set of labels, which stays within its bounds.
#include "fuzz.h"

#include "agent/relabel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void apply(struct fp_relabel *relabel)
{
	static const char *const labels[][2] = { { "a", "web-7d9f8b6c54-x2x9k" },
						 { "b", "\xff\n;" },
						 { "service_name", "x" } };
	struct fp_label_set set FP_AUTOLABELS = { 0 };
	bool dropped = false;

	for (size_t i = 0; i < FP_ARRAY_SIZE(labels); i++)
		if (fp_label_set_put(&set, labels[i][0], strlen(labels[i][0]), labels[i][1],
				     strlen(labels[i][1])) < 0)
			abort();
	if (fp_relabel_apply(relabel, &set, &dropped) < 0 || set.count > FP_LABELS_MAX)
		abort();
	for (uint32_t i = 0; i < set.count; i++)
		if (set.rows[i].value_size == 0 || set.rows[i].value_size > FP_LABEL_VALUE_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fp_relabel *relabel FP_CLEANUP(fp_relabel_freep) = NULL;
	FP_AUTOBUF struct fp_buf error = { 0 };
	FP_AUTOFREE char *rules = strndup((const char *)data, size);
	int r = fp_relabel_new(rules, &relabel, &error);

	if (r == 0)
		apply(relabel);
	else if (r != -EINVAL || error.len == 0)
		abort();
	return 0;
}
