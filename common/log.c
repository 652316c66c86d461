// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include "clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { LINE_MAX_BYTES = 2048, LINES_PER_WINDOW = 5, WINDOW_S = 60 };

static enum fp_log_level max_level = FP_LOG_INFO;
static const char *program_name;
// Guards the sites; the line itself is one write, so lines never interleave.
static pthread_mutex_t site_lock = PTHREAD_MUTEX_INITIALIZER;

void fp_log_set_level(enum fp_log_level level)
{
	__atomic_store_n(&max_level, level, __ATOMIC_RELAXED);
}

void fp_log_set_name(const char *name)
{
	program_name = name;
}

// True when the line may go out; *ret_held_back is what the last window kept to itself.
static bool site_admit(struct fp_log_site *site, unsigned int *ret_held_back)
{
	long long now_s = (long long)(fp_boottime_ns() / FP_NS_PER_S);
	bool admitted;

	pthread_mutex_lock(&site_lock);
	*ret_held_back = 0;
	if (site->lines == 0 || now_s - site->window_start_s >= WINDOW_S) {
		*ret_held_back = site->held_back;
		*site = (struct fp_log_site){ .window_start_s = now_s };
	}
	admitted = site->lines < LINES_PER_WINDOW;
	if (admitted)
		site->lines++;
	else
		site->held_back++;
	pthread_mutex_unlock(&site_lock);
	return admitted;
}

static const char *level_word(enum fp_log_level level)
{
	switch (level) {
	case FP_LOG_ERROR:
		return "ERROR";
	case FP_LOG_WARNING:
		return "WARNING";
	case FP_LOG_INFO:
		return "INFO";
	case FP_LOG_DEBUG:
		return "DEBUG";
	}
	return "INFO";
}

// Copies message behind line[length], control bytes as \xNN; room is kept for the newline.
static size_t append_escaped(char *line, size_t length, const char *message)
{
	static const char digits[] = "0123456789abcdef";

	for (const unsigned char *p = (const unsigned char *)message; *p; p++) {
		if (length + 5 > LINE_MAX_BYTES)
			break;
		if (*p >= 0x20 && *p != 0x7f) {
			line[length++] = (char)*p;
			continue;
		}
		line[length++] = '\\';
		line[length++] = 'x';
		line[length++] = digits[*p >> 4];
		line[length++] = digits[*p & 15];
	}
	return length;
}

static void write_line(enum fp_log_level level, const char *message)
{
	char line[LINE_MAX_BYTES];
	const char *name = program_name;
	size_t length;

	// Asked each time: it is an environment lookup, and lines are rare.
	if (getenv("JOURNAL_STREAM"))
		length = (size_t)snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		length = (size_t)snprintf(line, sizeof(line), "%s ", level_word(level));
	if (name) {
		length = append_escaped(line, length, name);
		length = append_escaped(line, length, ": ");
	}
	length = append_escaped(line, length, message);
	line[length++] = '\n';
	// Nowhere to report that the log itself cannot be written.
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		;
}

void fp_log_line(struct fp_log_site *site, enum fp_log_level level, const char *format, ...)
{
	char message[LINE_MAX_BYTES];
	unsigned int held_back;
	int saved_errno = errno;
	size_t length;
	va_list args;

	if (level > __atomic_load_n(&max_level, __ATOMIC_RELAXED) || !site_admit(site, &held_back))
		return;
	errno = saved_errno; // for %m
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	length = strlen(message);
	if (held_back > 0)
		snprintf(message + length, sizeof(message) - length,
			 " (%u similar lines held back)", held_back);
	write_line(level, message);
	errno = saved_errno;
}
