// SPDX-License-Identifier: Apache-2.0
//
// One of the libraries of unwindchurn.h; VARIANT is its N.
#include "unwindchurn.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define MIDDLE	    JOIN(churn_middle_, VARIANT)
#define ENTER	    JOIN(churn_enter_, VARIANT)
#define FRAME	    __attribute__((noinline, noclone, noipa))

uint64_t MIDDLE(churn_inner_fn inner, uint64_t x);
uint64_t ENTER(churn_inner_fn inner, uint64_t x);
uint64_t churn_enter(churn_inner_fn inner, uint64_t x); // what the program asks for

#define DEFINE_MIDDLE                                                                              \
	FRAME uint64_t MIDDLE(churn_inner_fn inner, uint64_t x)                                    \
	{                                                                                          \
		volatile uint64_t room[3 * VARIANT + 1];                                           \
                                                                                                   \
		room[x % (3 * VARIANT + 1)] = x;                                                   \
		return inner(x + VARIANT) + room[x % (3 * VARIANT + 1)];                           \
	}
#define DEFINE_ENTER                                                                               \
	FRAME uint64_t ENTER(churn_inner_fn inner, uint64_t x)                                     \
	{                                                                                          \
		volatile uint64_t room[5 * (7 - VARIANT) + 2];                                     \
                                                                                                   \
		room[x % 2] = x;                                                                   \
		return MIDDLE(inner, x * 2) + room[x % 2];                                         \
	}

#if VARIANT % 2
DEFINE_MIDDLE
DEFINE_ENTER
#else
DEFINE_ENTER
DEFINE_MIDDLE
#endif

extern uint64_t churn_enter(churn_inner_fn inner, uint64_t x)
    __attribute__((alias("churn_enter_" LABEL)));
