// SPDX-License-Identifier: Apache-2.0
//
// log: one line per event on stderr, for the edges of a program only (libraries and
// stages return errors and count). Under journald (JOURNAL_STREAM set) lines carry the
// <N> priority prefix, otherwise `LEVEL message`. Control bytes in a message are escaped,
// so a hostile path or thread name cannot forge a line. A call site that repeats is
// limited to 5 lines a minute and then says how many it held back.
// Threads: any.
#pragma once

#include "cleanup.h"

enum fp_log_level { FP_LOG_ERROR = 3, FP_LOG_WARNING = 4, FP_LOG_INFO = 6, FP_LOG_DEBUG = 7 };

// Per call site state of the rate limit; zero-initialised by the macros below.
struct fp_log_site {
	long long window_start_s;
	unsigned int lines;
	unsigned int held_back;
};

void fp_log_set_level(enum fp_log_level level);
// Name put in front of every line, for example "fleetprof-agent" (not copied).
void fp_log_set_name(const char *name);
void fp_log_line(struct fp_log_site *site, enum fp_log_level level, const char *format, ...)
    FP_PRINTF(3, 4);

#define fp_log_at(level, ...)                                                                      \
	do {                                                                                       \
		static struct fp_log_site fp_site;                                                 \
		fp_log_line(&fp_site, level, __VA_ARGS__);                                         \
	} while (0)

#define fp_error(...) fp_log_at(FP_LOG_ERROR, __VA_ARGS__)
#define fp_warn(...)  fp_log_at(FP_LOG_WARNING, __VA_ARGS__)
#define fp_info(...)  fp_log_at(FP_LOG_INFO, __VA_ARGS__)
#define fp_debug(...) fp_log_at(FP_LOG_DEBUG, __VA_ARGS__)

// Logs and yields `error` (a negative errno), for `return fp_error_r(-EINVAL, "…");`
#define fp_error_r(error, ...)                                                                     \
	({                                                                                         \
		int fp_result = (error);                                                           \
		fp_error(__VA_ARGS__);                                                             \
		fp_result;                                                                         \
	})
