// SPDX-License-Identifier: Apache-2.0
//
// labels_pods_entry: the shape of the names in the kubelet's log directory. Private to
// labels_pods.c. Threads: no state.
#pragma once

#include "labels_pods.h"

// A name as Kubernetes allows them (RFC 1123 labels and subdomains): lower-case letters,
// digits, '-' and '.', at most `most` of them, a letter or digit at both ends.
bool fp_pod_word(const char *word, size_t most);
