// SPDX-License-Identifier: Apache-2.0
//
// cases: cmocka with the headers it needs, and table rows that are named by a sentence
// rather than by a function.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FP_CASE(sentence, function)                                                                \
	{                                                                                          \
		.name = sentence, .test_func = function                                            \
	}
