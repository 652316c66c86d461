// SPDX-License-Identifier: Apache-2.0
//
// unwindchurn: code that comes and goes, for tests/e2e/unwind_churn.py. The program and the
// libraries that it loads call each other in one fixed order, so that every true stack reads
//   [churn_spin] churn_middle_N churn_enter_N churn_work …
// with one N, while libraries of different N lie at the same addresses one after the other: their
// functions stand in another order and have frames of other sizes, so that rows of the wrong one
// lead astray.
#pragma once

#include <stdint.h>

typedef uint64_t (*churn_inner_fn)(uint64_t x);
typedef uint64_t (*churn_enter_fn)(churn_inner_fn inner, uint64_t x);
