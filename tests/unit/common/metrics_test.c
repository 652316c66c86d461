// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/clock.h"
#include "common/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const struct fp_metric rows[] = {
	{ "fp_info", FP_METRIC_GAUGE, FP_METRIC_TEXT_INFO, "version=\"1\"", "The build." },
	{ "fp_lost_total", FP_METRIC_COUNTER, FP_METRIC_PLAIN, "reason=\"map_full\"", "Lost." },
	{ "fp_busy_seconds_total", FP_METRIC_COUNTER, FP_METRIC_NANOSECONDS, NULL,
	  "Time, with \\ and\nnewline." },
	{ "fp_lost_total", FP_METRIC_COUNTER, FP_METRIC_PLAIN, "reason=\"a|b\"", "Lost." },
};

static const char expected_text[] = "# HELP fp_info The build.\n"
				    "# TYPE fp_info gauge\n"
				    "fp_info{version=\"1\"} 1\n"
				    "# HELP fp_lost_total Lost.\n"
				    "# TYPE fp_lost_total counter\n"
				    "fp_lost_total{reason=\"map_full\"} 7\n"
				    "fp_lost_total{reason=\"a|b\"} 18446744073709551615\n"
				    "# HELP fp_busy_seconds_total Time, with \\\\ and\\nnewline.\n"
				    "# TYPE fp_busy_seconds_total counter\n"
				    "fp_busy_seconds_total 12.000000345\n";

static void test_render(void **state)
{
	uint64_t slots[FP_ARRAY_SIZE(rows)] = { 0 };
	struct fp_metrics metrics = { rows, FP_ARRAY_SIZE(rows), slots };
	FP_AUTOBUF struct fp_buf text = { 0 };

	fp_metric_add(&metrics, 1, 3);
	fp_metric_add(&metrics, 1, 4);
	fp_metric_set(&metrics, 2, 12 * FP_NS_PER_S + 345);
	fp_metric_set(&metrics, 3, UINT64_MAX);
	assert_int_equal(fp_metrics_render(&metrics, &text), 0);
	assert_string_equal((char *)text.data, expected_text);
}

static void test_share(void **state)
{
	struct fp_metrics mine = { 0 }, theirs = { 0 };
	int fd = -1, status;
	pid_t child;

	assert_int_equal(fp_metrics_share(rows, FP_ARRAY_SIZE(rows), &mine, &fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	child = fork();
	if (child == 0) {
		if (fp_metrics_map(rows, FP_ARRAY_SIZE(rows), fd, &theirs) < 0)
			_exit(1);
		fp_metric_add(&theirs, 3, 5);
		_exit(fp_metric_get(&theirs, 1) == 0 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(fp_metric_get(&mine, 3), 5);
	close(fd);
	fp_metrics_unmap(&mine);
	fp_metrics_unmap(&mine);
}

static void test_share_is_sealed(void **state)
{
	struct fp_metrics metrics = { 0 }, other = { 0 };
	int fd = -1;

	assert_int_equal(fp_metrics_share(rows, FP_ARRAY_SIZE(rows), &metrics, &fd), 0);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fp_metrics_map(rows, 2, fd, &other), -EINVAL);
	assert_null(other.slots);
	assert_int_equal(fp_metrics_map(rows, 2, -1, &other), -EBADF);
	close(fd);
	fp_metrics_unmap(&metrics);
}

static double value_of(const char *text, const char *name)
{
	char start[80];
	const char *line;

	snprintf(start, sizeof(start), "\n%s ", name);
	line = strstr(text, start);
	assert_non_null(line);
	return strtod(line + strlen(start), NULL);
}

static void test_process(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint64_t now_s = fp_realtime_ns() / FP_NS_PER_S;
	const char *all;
	double start;

	// The resident page count of a process lags behind by a few pages at most.
	assert_int_equal(fp_metrics_render_process(0, &text), 0);
	all = (char *)text.data;
	assert_true(value_of(all, "process_resident_memory_bytes") > 100 * 1024);
	assert_true(value_of(all, "process_open_fds") >= 3);
	assert_true(value_of(all, "process_cpu_seconds_total") >= 0);
	start = value_of(all, "process_start_time_seconds");
	// A day: a machine's boot time is wall time less uptime, and both may be set.
	assert_true(start > (double)now_s - 86400 && start < (double)now_s + 86400);
	assert_int_equal(fp_metrics_render_process(0x7ffffff0, &text), -ENOENT);
}

static void test_markdown(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	assert_int_equal(fp_metrics_markdown(rows, 2, &text), 0);
	assert_int_equal(fp_metrics_markdown(rows + 3, 1, &text), 0);
	assert_string_equal((char *)text.data,
			    "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
			    "| `fp_info` | gauge | `version=\"1\"` | The build. |\n"
			    "| `fp_lost_total` | counter | `reason=\"map_full\"` | Lost. |\n"
			    "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
			    "| `fp_lost_total` | counter | `reason=\"a\\|b\"` | Lost. |\n");
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("rows of one name are printed in one block", test_render),
		FP_CASE("slots are shared with a process that maps them", test_share),
		FP_CASE("the shared memory cannot be shrunk, and must fit the table",
			test_share_is_sealed),
		FP_CASE("the process's own metrics are plausible", test_process),
		FP_CASE("the table is printed as Markdown", test_markdown),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
