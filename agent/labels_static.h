// SPDX-License-Identifier: Apache-2.0
//
// labels_static: the labels of the configuration, `name=value, name=value`, read once. Private
// to the labeler. Threads: no state.
#pragma once

#include "labels_set.h"

#define FP_STATIC_LABELS_MAX 32

// The text has been checked as a setting; what is no pair all the same is passed over.
int fp_label_set_read(struct fp_label_set *set, const char *text);
