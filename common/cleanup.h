// SPDX-License-Identifier: Apache-2.0
//
// cleanup: ownership you can see. Every owning local names its destructor with
// FP_CLEANUP (or a shorthand defined beside the destructor), starts empty, and leaves a
// function only through fp_take_ptr()/fp_take_fd(). An empty pointer is NULL, an empty
// descriptor is -1; destructors accept both.
// Threads: no state.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FP_CLEANUP(fn)	     __attribute__((cleanup(fn)))
#define FP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define FP_ARRAY_SIZE(a)     (sizeof(a) / sizeof((a)[0]))

static inline void fp_free_ptr(void *pointer_to_pointer)
{
	void **p = pointer_to_pointer;

	free(*p);
	*p = NULL;
}

static inline void fp_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void fp_close_file(FILE **file)
{
	if (*file)
		fclose(*file);
	*file = NULL;
}

#define FP_AUTOFREE   FP_CLEANUP(fp_free_ptr)
#define FP_AUTOCLOSE  FP_CLEANUP(fp_close_fd)
#define FP_AUTOFCLOSE FP_CLEANUP(fp_close_file)

// Moves the value out of an owning variable and leaves it empty.
#define fp_take_ptr(p)                                                                             \
	({                                                                                         \
		__typeof__(p) fp_taken = (p);                                                      \
		(p) = NULL;                                                                        \
		fp_taken;                                                                          \
	})

static inline int fp_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
