// SPDX-License-Identifier: Apache-2.0
//
// options: the command line. What is not an option of its own is a setting's flag.
#pragma once

#include "config.h"

enum fp_collector_action {
	FP_ACTION_SERVE,
	FP_ACTION_CHECK,	 // --check-config
	FP_ACTION_DUMP,		 // --dump-config
	FP_ACTION_DOCS_SETTINGS, // --print-docs=settings
	FP_ACTION_DOCS_METRICS,	 // --print-docs=metrics
	FP_ACTION_DOCS_ROUTES,	 // --print-docs=routes
	FP_ACTION_VERSION,
	FP_ACTION_HELP,
};

struct fp_collector_options {
	enum fp_collector_action action;
	struct fp_collector_config config;
	struct fp_setting_origin *origins;
};

void fp_collector_options_free(struct fp_collector_options *options);
// Reads file, environment and flags. Errors: -EINVAL (also -ENOENT of a file that was named)
// with one line in error.
int fp_collector_options_read(int argc, char **argv, struct fp_collector_options *ret_options,
			      struct fp_buf *error);
// Carries out every action but FP_ACTION_SERVE by printing to stdout; returns 0 or -errno.
int fp_collector_options_print(const struct fp_collector_options *options);
