// SPDX-License-Identifier: Apache-2.0
//
// symbolizers: short ways to make and ask symbolizers in tests.
#pragma once

#include "../cases.h"

#include "profile/symbols.h"

#include <string.h>

#define FP_AUTOSYMBOLIZER FP_CLEANUP(fp_symbolizer_freep)

static const char *const no_dirs[] = { NULL };

static inline struct fp_symbolizer *symbolizer_of(const struct fp_symbolizer_options *options)
{
	struct fp_symbolizer *symbolizer = NULL;

	assert_int_equal(fp_symbolizer_new(options, &symbolizer), 0);
	return symbolizer;
}

static inline void assert_name(const char *actual, const char *expected)
{
	if (!expected)
		assert_null(actual);
	else if (!actual)
		fail_msg("no name, expected '%s'", expected);
	else
		assert_string_equal(actual, expected);
}
