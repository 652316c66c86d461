// SPDX-License-Identifier: Apache-2.0
//
// daemon_docs: the pages of docs/ that are printed by the binary, from the same tables that
// drive it: settings, metrics, outcomes (drop reasons).
#pragma once

#include "common/buf.h"

// The names that --print-docs takes, separated by commas.
extern const char fp_daemon_docs_names[];
// Appends the page. -ENOENT: no page of that name.
int fp_daemon_docs_print(const char *name, struct fp_buf *ret_text);
