// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/buf.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

// Runs fn with stderr in a memory file; returns what was written.
static char *capture(void (*fn)(void))
{
	int saved = dup(STDERR_FILENO), memory = memfd_create("stderr", MFD_CLOEXEC);
	struct fp_buf text = { 0 };
	char part[512];
	ssize_t n;

	assert_true(saved >= 0 && memory >= 0);
	dup2(memory, STDERR_FILENO);
	fn();
	dup2(saved, STDERR_FILENO);
	close(saved);
	lseek(memory, 0, SEEK_SET);
	while ((n = read(memory, part, sizeof(part))) > 0)
		fp_buf_append(&text, part, (size_t)n);
	close(memory);
	return fp_buf_take(&text);
}

static void assert_capture(void (*fn)(void), const char *expected)
{
	FP_AUTOFREE char *text = capture(fn);

	assert_string_equal(text, expected);
}

static void one_of_each(void)
{
	fp_error("a");
	fp_warn("b");
	fp_info("c");
	fp_debug("d");
}

static void test_levels(void **state)
{
	unsetenv("JOURNAL_STREAM");
	assert_capture(one_of_each, "ERROR a\nWARNING b\nINFO c\n");
	fp_log_set_level(FP_LOG_DEBUG);
	assert_capture(one_of_each, "ERROR a\nWARNING b\nINFO c\nDEBUG d\n");
	fp_log_set_level(FP_LOG_ERROR);
	assert_capture(one_of_each, "ERROR a\n");
	fp_log_set_level(FP_LOG_INFO);
}

static void log_for_journal(void)
{
	fp_error("a");
	fp_warn("b");
	fp_info("c");
}

static void test_journal(void **state)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	fp_log_set_name("fleetprof-agent");
	assert_capture(log_for_journal, "<3>fleetprof-agent: a\n<4>fleetprof-agent: b\n"
					"<6>fleetprof-agent: c\n");
	fp_log_set_name(NULL);
	unsetenv("JOURNAL_STREAM");
}

static void log_hostile(void)
{
	fp_info("'%s' \xc3\xa9", "x\n<3>forged\x1b[2J\x7f");
}

static void test_escapes(void **state)
{
	assert_capture(log_hostile, "INFO 'x\\x0a<3>forged\\x1b[2J\\x7f' \xc3\xa9\n");
}

static void log_long(void)
{
	char message[5000];

	memset(message, '\n', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	fp_info("%s", message);
}

static void test_long_line(void **state)
{
	FP_AUTOFREE char *text = capture(log_long);
	size_t length = strlen(text);

	assert_true(length > 1000 && length <= 2048);
	assert_ptr_equal(strchr(text, '\n'), text + length - 1);
}

static struct fp_log_site site;

static void log_ten_times(void)
{
	for (int i = 0; i < 10; i++)
		fp_log_line(&site, FP_LOG_INFO, "line %d", i);
}

static void log_once(void)
{
	fp_log_line(&site, FP_LOG_INFO, "again");
}

static void test_rate_limit(void **state)
{
	assert_capture(log_ten_times, "INFO line 0\nINFO line 1\nINFO line 2\nINFO line 3\n"
				      "INFO line 4\n");
	assert_capture(log_once, "");
	site.window_start_s -= 60; // a minute later
	assert_capture(log_once, "INFO again (6 similar lines held back)\n");
	assert_capture(log_once, "INFO again\n");
}

static int failing(void)
{
	return fp_error_r(-EPERM, "no");
}

static void log_and_return(void)
{
	assert_int_equal(failing(), -EPERM);
	errno = ENOENT;
	fp_info("%m");
	assert_int_equal(errno, ENOENT);
}

static void test_errno(void **state)
{
	assert_capture(log_and_return, "ERROR no\nINFO No such file or directory\n");
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("lines above the level are not written", test_levels),
		FP_CASE("under journald a line carries its priority", test_journal),
		FP_CASE("control bytes cannot forge a line", test_escapes),
		FP_CASE("a long message stays one line", test_long_line),
		FP_CASE("a call site that repeats is held back and says so", test_rate_limit),
		FP_CASE("logging keeps errno and yields the error", test_errno),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
