// SPDX-License-Identifier: Apache-2.0
//
// loop: a single-threaded event loop over epoll: readable descriptors, timers
// (CLOCK_BOOTTIME, so that they fire after suspend) and signals (signalfd). Callbacks run
// one at a time on the thread that called fp_loop_run; a callback that returns a negative
// errno stops the loop, which returns it.
// Ownership: sources are owned by the loop; descriptors added stay the caller's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fp_loop;
struct fp_loop_source;
typedef int (*fp_loop_fn)(struct fp_loop_source *source, uint32_t epoll_events, void *context);

int fp_loop_new(struct fp_loop **ret_loop);
void fp_loop_free(struct fp_loop *loop);
static inline void fp_loop_freep(struct fp_loop **loop)
{
	fp_loop_free(*loop);
	*loop = 0;
}
int fp_loop_add_fd(struct fp_loop *loop, int fd, uint32_t epoll_events, fp_loop_fn fn,
		   void *context, struct fp_loop_source **ret_source);
// First expiry after first_ns, then every period_ns (0: once).
int fp_loop_add_timer(struct fp_loop *loop, uint64_t first_ns, uint64_t period_ns, fp_loop_fn fn,
		      void *context, struct fp_loop_source **ret_source);
int fp_loop_set_timer(struct fp_loop_source *source, uint64_t first_ns, uint64_t period_ns);
// Blocks the signal for the thread and delivers it through the loop; `fn` finds the number
// with fp_loop_signal().
int fp_loop_add_signal(struct fp_loop *loop, int signal_number, fp_loop_fn fn, void *context);
int fp_loop_signal(const struct fp_loop_source *source);
int fp_loop_fd(const struct fp_loop_source *source);
int fp_loop_set_events(struct fp_loop_source *source, uint32_t epoll_events);
void fp_loop_remove(struct fp_loop_source *source); // also allowed inside its own callback
int fp_loop_run(struct fp_loop *loop); // until fp_loop_stop; 0 or the error that stopped it
void fp_loop_stop(struct fp_loop *loop);
