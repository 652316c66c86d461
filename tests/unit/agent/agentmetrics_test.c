// SPDX-License-Identifier: Apache-2.0
// The table of metrics keeps to Prometheus' rules, and the endpoint says what the page says.
#include "agent/agentmetrics.h"
#include "agent/observe.h"
#include "common/clock.h"

#include <curl/curl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

static bool ends_with(const char *text, const char *end)
{
	size_t size = strlen(text), end_size = strlen(end);

	return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static void every_row_has_a_name_of_the_rules(void **state)
{
	fp_agent_metrics_init();
	for (size_t i = 0; i < FP_M_COUNT; i++) {
		const struct fp_metric *row = fp_agent_metrics + i;

		if (!row->name || !row->help)
			fail_msg("row %zu is empty", i);
		if (strncmp(row->name, "fleetprof_agent_", 16) != 0 ||
		    strspn(row->name, "abcdefghijklmnopqrstuvwxyz_") != strlen(row->name))
			fail_msg("%s: not a name of ours", row->name);
		if (ends_with(row->name, "_total") != (row->type == FP_METRIC_COUNTER))
			fail_msg("%s: _total is for counters, and for all of them", row->name);
		if (row->unit == FP_METRIC_NANOSECONDS && !strstr(row->name, "_seconds"))
			fail_msg("%s: printed in seconds, so it must say so", row->name);
		if (!ends_with(row->help, "."))
			fail_msg("%s: the help is one sentence", row->name);
	}
}

static void rows_of_one_name_agree_and_differ_in_labels(void **state)
{
	for (size_t i = 0; i < FP_M_COUNT; i++)
		for (size_t j = 0; j < i; j++) {
			const struct fp_metric *a = fp_agent_metrics + i, *b = fp_agent_metrics + j;

			if (strcmp(a->name, b->name) != 0)
				continue;
			assert_string_equal(a->help, b->help);
			assert_int_equal(a->type, b->type);
			assert_non_null(a->labels);
			assert_non_null(b->labels);
			assert_string_not_equal(a->labels, b->labels);
		}
}

static void every_outcome_of_every_program_has_its_row(void **state)
{
	const size_t row =
	    FP_M_RUNS_FIRST + FP_PROGRAM_SWITCH_IN * FP_OUTCOME_COUNT + FP_OUTCOME_MAP_FULL;

	assert_string_equal(fp_agent_metrics[row].name, "fleetprof_agent_program_runs_total");
	assert_string_equal(fp_agent_metrics[row].labels,
			    "program=\"switch_in\",outcome=\"map_full\",class=\"dropped\"");
	assert_string_equal(fp_agent_metrics[FP_M_RUNS_FIRST].labels,
			    "program=\"cpu\",outcome=\"aggregated\",class=\"kept\"");
	assert_string_equal(
	    fp_agent_metrics[FP_M_SPOOL_DROPPED_SAMPLES_FIRST + FP_SPOOL_DROP_REJECTED].labels,
	    "reason=\"rejected\"");
}

static size_t take(char *bytes, size_t size, size_t count, void *context)
{
	return fp_buf_append(context, bytes, size * count) ? 0 : size * count;
}

static long ask(uint16_t port, const char *method, const char *path, struct fp_buf *body)
{
	CURL *curl = curl_easy_init();
	char url[96];
	long status = 0;

	fp_buf_clear(body);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 20L);
	if (strcmp(method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
	assert_int_equal(curl_easy_perform(curl), CURLE_OK);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	fp_buf_byte(body, 0);
	return status;
}

static void assert_holds(const struct fp_buf *body, const char *text)
{
	if (!strstr((const char *)body->data, text))
		fail_msg("no '%s' in: %s", text, (const char *)body->data);
}

static void the_endpoint_follows_the_page(void **state)
{
	FP_CLEANUP(fp_observe_freep) struct fp_observe *observe = NULL;
	FP_AUTOBUF struct fp_buf body = { 0 };
	struct fp_metrics metrics = { 0 };
	FP_AUTOCLOSE int fd = -1;
	struct fp_observe_config config = { .listen = "127.0.0.1:0",
					    .metrics = &metrics,
					    .loop_stale_ns = 10 * FP_NS_PER_S,
					    .sampler_pid = getppid() };
	uint16_t port;

	assert_int_equal(fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &metrics, &fd), 0);
	assert_int_equal(fp_observe_start(&config, &observe), 0);
	port = fp_observe_port(observe);
	assert_int_equal(ask(port, "GET", "/healthz", &body), 503);
	assert_holds(&body, "has not started");
	assert_int_equal(ask(port, "GET", "/readyz", &body), 503);
	assert_holds(&body, "failed: the BPF programs are not attached");
	assert_holds(&body, "failed: the spool cannot be written");
	fp_metric_set(&metrics, FP_M_LOOP_TICK, fp_boottime_ns());
	fp_metric_set(&metrics, FP_M_ATTACHED, 1);
	fp_metric_set(&metrics, FP_M_SPOOL_WRITABLE, 1);
	fp_metric_set(&metrics, FP_M_SHIP_BACKOFF, 5);
	assert_int_equal(ask(port, "GET", "/healthz", &body), 200);
	assert_int_equal(ask(port, "GET", "/readyz", &body), 200); // the network is only a note
	assert_holds(&body, "degraded: batches cannot be delivered");
	fp_metric_set(&metrics, FP_M_LOOP_TICK, fp_boottime_ns() - 11 * FP_NS_PER_S);
	assert_int_equal(ask(port, "GET", "/healthz", &body), 503);
	assert_holds(&body, "last turned 11 s ago");
	fp_metric_set(&metrics, FP_M_RUNS_FIRST, 77);
	assert_int_equal(ask(port, "GET", "/metrics", &body), 200);
	assert_holds(&body, "fleetprof_agent_program_runs_total{program=\"cpu\",outcome="
			    "\"aggregated\",class=\"kept\"} 77\n");
	assert_holds(&body, "\nprocess_cpu_seconds_total ");
	assert_holds(&body, "\nfleetprof_agent_ship_process_resident_memory_bytes ");
	assert_holds(&body, "# TYPE fleetprof_agent_ship_process_cpu_seconds_total counter\n");
	assert_int_equal(ask(port, "HEAD", "/metrics", &body), 200);
	assert_int_equal(ask(port, "POST", "/metrics", &body), 405);
	assert_int_equal(ask(port, "DELETE", "/healthz", &body), 405);
	assert_int_equal(ask(port, "GET", "/", &body), 404);
	fp_observe_freep(&observe);
	fp_metrics_unmap(&metrics);
}

static void a_wrong_address_is_refused(void **state)
{
	static const char *const wrong[] = {
		"", "7172", ":7172", "127.0.0.1:", "[::1:7172", "127.0.0.1:port", "256.1.1.1:80"
	};
	struct fp_metrics metrics = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(wrong); i++) {
		struct fp_observe_config config = { .listen = wrong[i], .metrics = &metrics };
		struct fp_observe *observe = NULL;

		if (fp_observe_start(&config, &observe) >= 0)
			fail_msg("accepted: '%s'", wrong[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_has_a_name_of_the_rules),
		cmocka_unit_test(rows_of_one_name_agree_and_differ_in_labels),
		cmocka_unit_test(every_outcome_of_every_program_has_its_row),
		cmocka_unit_test(the_endpoint_follows_the_page),
		cmocka_unit_test(a_wrong_address_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
