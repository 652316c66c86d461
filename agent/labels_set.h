// SPDX-License-Identifier: Apache-2.0
//
// labels_set: the labels of one sample while they are put together and rewritten: names and
// values of any bytes, each name once. Ownership: the struct owns its text. Threads: none shared.
#pragma once

#include "common/buf.h"

#define FP_LABELS_MAX	   64	// ours, 32 static ones, and what rules add
#define FP_LABEL_VALUE_MAX 1024 // longer values are cut

struct fp_label_text {
	uint32_t name, name_size; // in text
	uint32_t value, value_size;
};

struct fp_label_set {
	struct fp_label_text rows[FP_LABELS_MAX];
	uint32_t count;
	struct fp_buf text;
};

void fp_label_set_free(struct fp_label_set *set);
#define FP_AUTOLABELS FP_CLEANUP(fp_label_set_free)
void fp_label_set_clear(struct fp_label_set *set); // keeps the memory

// Sets, replaces, or with an empty value removes the label. -ENOSPC: too many labels.
int fp_label_set_put(struct fp_label_set *set, const char *name, size_t name_size,
		     const char *value, size_t value_size);
// The value, not terminated, and its size; "" and 0 when there is none.
const char *fp_label_set_get(const struct fp_label_set *set, const char *name, size_t name_size,
			     size_t *ret_size);
