// SPDX-License-Identifier: Apache-2.0
//
// notify: the service manager's readiness protocol (sd_notify(3)) over $NOTIFY_SOCKET,
// without libsystemd. A missing $NOTIFY_SOCKET is success.
#pragma once

#include <stdint.h>

// state: newline-separated assignments such as "READY=1\nSTATUS=…". 0 or -errno.
int fp_notify(const char *state);
// Interval at which WATCHDOG=1 is due (half of $WATCHDOG_USEC), in ns; 0 when not asked for.
uint64_t fp_notify_watchdog_ns(void);
