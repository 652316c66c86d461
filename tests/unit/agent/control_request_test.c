// SPDX-License-Identifier: Apache-2.0
#include "agent/control_request.h"

#include "common/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static const struct {
	const char *sentence, *line;
	const char *error; // part of it; NULL when the request is taken
} table[] = {
	{ "status needs nothing", "{\"verb\":\"status\"}", NULL },
	{ "stop needs nothing", "{\"verb\":\"stop\"}", NULL },
	{ "a snapshot needs a process", "{\"verb\":\"snapshot\",\"pid\":1}", NULL },
	{ "a snapshot without one is refused", "{\"verb\":\"snapshot\"}", "pid: missing" },
	{ "text is not a request", "snapshot 1", "not a line of JSON" },
	{ "an array is not a request", "[1]", "not a line of JSON" },
	{ "an empty line is not a request", "", "not a line of JSON" },
	{ "half a request is not one", "{\"verb\":", "not a line of JSON" },
	{ "a verb is needed", "{}", "verb: missing" },
	{ "a verb is text", "{\"verb\":1}", "verb: missing" },
	{ "an unknown verb is refused", "{\"verb\":\"shutdown\"}", "verb: not status" },
	{ "an unknown member is refused", "{\"verb\":\"status\",\"file\":\"/etc/shadow\"}",
	  "not known" },
	{ "a member twice is refused", "{\"verb\":\"snapshot\",\"pid\":1,\"pid\":2}", "JSON" },
	{ "a process is a number", "{\"verb\":\"snapshot\",\"pid\":\"1\"}", "pid: not a whole" },
	{ "a process is a whole number", "{\"verb\":\"snapshot\",\"pid\":1.5}",
	  "pid: not a whole" },
	{ "process 0 is none", "{\"verb\":\"snapshot\",\"pid\":0}", "pid: not within" },
	{ "a negative process is none", "{\"verb\":\"snapshot\",\"pid\":-1}", "pid: not within" },
	{ "a process beyond Linux's is none", "{\"verb\":\"snapshot\",\"pid\":4194305}",
	  "pid: not within" },
	{ "the highest rate is 997", "{\"verb\":\"snapshot\",\"pid\":1,\"hz\":998}",
	  "hz: not within 1 and 997" },
	{ "nobody may take longer than five minutes",
	  "{\"verb\":\"snapshot\",\"pid\":1,\"duration_ms\":300001}", "duration_ms: not within" },
	{ "a snapshot shorter than a second",
	  "{\"verb\":\"snapshot\",\"pid\":1,\"duration_ms\":999}", "duration_ms: not within 1000" },
	{ "a switch is true or false", "{\"verb\":\"snapshot\",\"pid\":1,\"cpu\":1}",
	  "cpu: not true" },
	{ "nothing to take is refused", "{\"verb\":\"snapshot\",\"pid\":1,\"cpu\":false}",
	  "neither" },
	{ "run-queue time is a part of off-CPU intervals",
	  "{\"verb\":\"snapshot\",\"pid\":1,\"run_queue\":true}", "run_queue: needs off_cpu" },
	{ "so are wakers", "{\"verb\":\"snapshot\",\"pid\":1,\"waker\":true}",
	  "waker: needs off_cpu" },
	{ "wall time is no kind of its own", "{\"verb\":\"snapshot\",\"pid\":1,\"wall\":true}",
	  "not known" },
};

static void test_table(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(table); i++) {
		struct fp_control_request request = { .hz = 12345 };
		struct fp_buf error FP_AUTOBUF = { 0 };
		int r = fp_control_request_parse(table[i].line, strlen(table[i].line), &request,
						 &error);

		print_message("  %s\n", table[i].sentence);
		fp_buf_byte(&error, '\0');
		assert_int_equal(r, table[i].error ? -EINVAL : 0);
		if (!table[i].error)
			continue;
		assert_non_null(strstr((const char *)error.data, table[i].error));
		assert_int_equal(request.hz, 12345); // untouched
	}
}

static void test_snapshot(void **state)
{
	static const char line[] = "{\"verb\":\"snapshot\",\"pid\":77,\"hz\":199,\"duration_ms\":"
				   "1500,\"cpu\":false,\"off_cpu\":true}";
	static const char full_line[] = "{\"verb\":\"snapshot\",\"pid\":77,\"off_cpu\":true,"
					"\"run_queue\":true,\"waker\":true}";
	static const char short_line[] = "{\"verb\":\"snapshot\",\"pid\":77}";
	struct fp_control_request request;
	struct fp_buf error FP_AUTOBUF = { 0 };

	assert_int_equal(fp_control_request_parse(line, strlen(line), &request, &error), 0);
	assert_int_equal(request.verb, FP_CONTROL_SNAPSHOT);
	assert_int_equal(request.pid, 77);
	assert_int_equal(request.hz, 199);
	assert_int_equal(request.duration_ns, 1500 * FP_NS_PER_MS);
	assert_false(request.cpu);
	assert_true(request.off_cpu);
	assert_int_equal(fp_control_request_parse(short_line, strlen(short_line), &request, &error),
			 0);
	assert_int_equal(request.hz, 99);
	assert_int_equal(request.duration_ns, 10 * FP_NS_PER_S);
	assert_true(request.cpu);
	assert_false(request.off_cpu || request.run_queue || request.waker);
	assert_int_equal(fp_control_request_parse(full_line, strlen(full_line), &request, &error),
			 0);
	assert_true(request.cpu && request.off_cpu && request.run_queue && request.waker);
}

// The line is not NUL-terminated, and may hold NULs itself.
static void test_size(void **state)
{
	static const char line[] = { '{', '"', 'v', 'e', 'r', 'b', '"', ':',
				     '"', 's', 't', 'o', 'p', '"', '}', 'X' };
	struct fp_control_request request;
	struct fp_buf error FP_AUTOBUF = { 0 };

	assert_int_equal(fp_control_request_parse(line, 15, &request, &error), 0);
	assert_int_equal(fp_control_request_parse(line, 16, &request, &error), -EINVAL);
	assert_int_equal(fp_control_request_parse("{\"verb\":\"st\0p\"}", 15, &request, &error),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
