// SPDX-License-Identifier: Apache-2.0
// Delivery against a collector that misbehaves in every way of the table, seen from both
// ends: each batch is stored once, dropped with its reason, or still there.
#include "common/file.h"
#include "ship_bench.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_backlog_is_drained_in_one_pass(void **state)
{
	struct bench *bench = *state;

	bench_open_ship(bench);
	for (uint64_t i = 0; i < 25; i++)
		bench_put(bench, 20 + i);
	fp_ship_pass(&bench->ship);
	struct ship_seen seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, 25);
	assert_int_equal(seen.samples, bench->put_samples);
	assert_int_equal(seen.duplicates, 0);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_OK), 25);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 0);
	assert_true(bench_metric(bench, FP_M_SHIP_LAST_SUCCESS) > 0);
	assert_int_equal(fp_ship_due_ns(&bench->ship), 0);
	assert_balanced(bench);
}

struct answer_case {
	const char *claim;
	struct ship_reply reply;
	enum { KEPT, DROPPED } then;
	enum fp_spool_drop reason;	 // DROPPED
	uint64_t min_wait_s, max_wait_s; // KEPT
	enum fp_agent_metric counted;
};

static const struct answer_case answer_cases[] = {
	{ "400 drops the batch",
	  { .status = 400, .body = "{\"reason\":\"x\"}" },
	  DROPPED,
	  FP_SPOOL_DROP_REJECTED,
	  0,
	  0,
	  FP_M_SHIP_HTTP_4XX },
	{ "409 drops the batch",
	  { .status = 409 },
	  DROPPED,
	  FP_SPOOL_DROP_REJECTED,
	  0,
	  0,
	  FP_M_SHIP_HTTP_4XX },
	{ "422 drops the batch",
	  { .status = 422 },
	  DROPPED,
	  FP_SPOOL_DROP_REJECTED,
	  0,
	  0,
	  FP_M_SHIP_HTTP_4XX },
	{ "413 drops the batch",
	  { .status = 413 },
	  DROPPED,
	  FP_SPOOL_DROP_TOO_LARGE,
	  0,
	  0,
	  FP_M_SHIP_HTTP_4XX },
	{ "401 keeps it for long", { .status = 401 }, KEPT, 0, 150, 300, FP_M_SHIP_HTTP_4XX },
	{ "403 keeps it for long", { .status = 403 }, KEPT, 0, 150, 300, FP_M_SHIP_HTTP_4XX },
	{ "404 keeps it for long", { .status = 404 }, KEPT, 0, 150, 300, FP_M_SHIP_HTTP_4XX },
	{ "405 keeps it for long", { .status = 405 }, KEPT, 0, 150, 300, FP_M_SHIP_HTTP_4XX },
	{ "302 is not followed",
	  { .status = 302, .location = "http://127.0.0.1:1/" },
	  KEPT,
	  0,
	  150,
	  300,
	  FP_M_SHIP_HTTP_OTHER },
	{ "408 is tried again", { .status = 408 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_4XX },
	{ "425 is tried again", { .status = 425 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_4XX },
	{ "429 is tried again", { .status = 429 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_4XX },
	{ "429 waits as long as it is told",
	  { .status = 429, .retry_after = "40" },
	  KEPT,
	  0,
	  40,
	  44,
	  FP_M_SHIP_HTTP_4XX },
	{ "500 is tried again", { .status = 500 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_5XX },
	{ "502 is tried again", { .status = 502 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_5XX },
	{ "503 is tried again", { .status = 503 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_5XX },
	{ "503 with ten years waits an hour",
	  { .status = 503, .retry_after = "315360000" },
	  KEPT,
	  0,
	  3600,
	  3960,
	  FP_M_SHIP_HTTP_5XX },
	{ "503 with garbage uses our own delay",
	  { .status = 503, .retry_after = "garbage" },
	  KEPT,
	  0,
	  0,
	  1,
	  FP_M_SHIP_HTTP_5XX },
	{ "503 with a negative number too",
	  { .status = 503, .retry_after = "-3" },
	  KEPT,
	  0,
	  0,
	  1,
	  FP_M_SHIP_HTTP_5XX },
	{ "504 is tried again", { .status = 504 }, KEPT, 0, 0, 1, FP_M_SHIP_HTTP_5XX },
	{ "a cut connection is tried again",
	  { .status = 0 },
	  KEPT,
	  0,
	  0,
	  1,
	  FP_M_SHIP_NETWORK_ERRORS },
	{ "a portal's 200 is not success",
	  { .status = 200, .body = "<html>Welcome</html>" },
	  KEPT,
	  0,
	  150,
	  300,
	  FP_M_SHIP_HTTP_OTHER },
	{ "an empty 200 is not success",
	  { .status = 200 },
	  KEPT,
	  0,
	  150,
	  300,
	  FP_M_SHIP_HTTP_OTHER },
	{ "another word is not success",
	  { .status = 200, .body = "{\"status\":\"ok\"}" },
	  KEPT,
	  0,
	  150,
	  300,
	  FP_M_SHIP_HTTP_OTHER },
};

static void run_answer_case(struct bench *bench, const struct answer_case *one)
{
	uint64_t counted = bench_metric(bench, one->counted), wait_s, before = fp_boottime_ns();
	uint64_t dropped = bench_metric(bench, FP_M_SPOOL_DROPPED_BATCHES_FIRST + one->reason);
	struct ship_seen seen;

	bench_put(bench, 33);
	// More than once, because libcurl itself repeats a request on a connection that was cut.
	ship_server_script(bench->server, "/v1/batches", one->reply, 100);
	fp_ship_pass(&bench->ship);
	ship_server_script(bench->server, "", one->reply, 0);
	seen = ship_server_seen(bench->server);
	if (bench_metric(bench, one->counted) != counted + 1)
		fail_msg("not counted: %s", one->claim);
	assert_balanced(bench);
	if (one->then == DROPPED) {
		if (bench_metric(bench, FP_M_SPOOL_DROPPED_BATCHES_FIRST + one->reason) !=
			dropped + 1 ||
		    bench_metric(bench, FP_M_SPOOL_BATCHES))
			fail_msg("not dropped: %s", one->claim);
		return;
	}
	wait_s =
	    bench->ship.batches.due_ns ? (bench->ship.batches.due_ns - before) / FP_NS_PER_S : 0;
	// The pass itself took a moment, which the upper bound must forgive.
	if (bench_metric(bench, FP_M_SPOOL_BATCHES) != 1 || !bench->ship.batches.due_ns ||
	    wait_s < one->min_wait_s || wait_s > one->max_wait_s + 10)
		fail_msg("not so: %s (waits %llu s)", one->claim, (unsigned long long)wait_s);
	assert_true(bench_metric(bench, FP_M_SHIP_BACKOFF) >= one->min_wait_s * FP_NS_PER_S);
	fp_ship_pass(&bench->ship); // not due: nothing happens
	assert_int_equal(ship_server_seen(bench->server).requests, seen.requests);
	bench->ship.batches.due_ns = 0;
	fp_ship_pass(&bench->ship);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 0);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_BACKOFF), 0);
	assert_balanced(bench);
}

static void every_answer_does_what_the_table_says(void **state)
{
	struct bench *bench = *state;
	uint64_t kept = 0;

	bench_open_ship(bench);
	for (size_t i = 0; i < FP_ARRAY_SIZE(answer_cases); i++) {
		run_answer_case(bench, answer_cases + i);
		kept += answer_cases[i].then == KEPT;
		assert_int_equal(ship_server_seen(bench->server).batches, kept);
	}
	assert_int_equal(ship_server_seen(bench->server).duplicates, 0);
}

static void a_lost_answer_is_a_duplicate_and_counts_once(void **state)
{
	struct bench *bench = *state;
	struct ship_seen seen;

	bench_open_ship(bench);
	bench_put(bench, 50);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 0, .store_first = true }, 1);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).batches, 1);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 1); // as far as we know
	bench->ship.batches.due_ns = 0;
	fp_ship_pass(&bench->ship);
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, 1);
	assert_int_equal(seen.samples, 50);
	assert_int_equal(seen.duplicates, 1);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_DUPLICATE), 1);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_SAMPLES), 50);
	assert_balanced(bench);
}

static void an_answer_too_long_is_no_success(void **state)
{
	struct bench *bench = *state;
	FP_AUTOFREE char *huge = malloc((1 << 20) + 1);

	assert_non_null(huge);
	memset(huge, ' ', 1 << 20);
	memcpy(huge, "{\"status\":\"stored\"}", 19);
	huge[1 << 20] = '\0';
	bench_open_ship(bench);
	bench_put(bench, 50);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 200, .body = huge }, 1);
	fp_ship_pass(&bench->ship);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_NETWORK_ERRORS), 1);
}

static void nobody_listening_is_a_network_error(void **state)
{
	struct bench *bench = *state;

	bench->config.collector_url = "http://127.0.0.1:1";
	bench_open_ship(bench);
	bench_put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_NETWORK_ERRORS), 1);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_RETRIES), 1);
	assert_true(fp_ship_due_ns(&bench->ship) > 0);
	assert_balanced(bench);
}

static void without_a_collector_the_spool_just_fills(void **state)
{
	struct bench *bench = *state;

	bench->config.collector_url = "";
	bench_open_ship(bench);
	bench_put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_true(bench_metric(bench, FP_M_SPOOL_BYTES) > 64);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_RETRIES), 0);
}

static void a_damaged_batch_does_not_stop_the_others(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = -1;
	char path[192];

	bench_open_ship(bench);
	bench_put(bench, 50);
	bench_put(bench, 60);
	struct fp_spool_item item = { 0 };
	assert_int_equal(fp_spool_peek(bench->spool, false, &item), 0);
	snprintf(path, sizeof(path), "%s/%s", bench->directory, item.name);
	fp_spool_item_clear(&item);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "boom", 4, 80), 4);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).samples, 60);
	assert_int_equal(
	    bench_metric(bench, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + FP_SPOOL_DROP_CORRUPT), 50);
	assert_balanced(bench);
}

static void write_token(const struct bench *bench, const char *token, int mode)
{
	FP_AUTOCLOSE int fd = fp_dir_open(bench->directory, 0700);

	assert_int_equal(fp_file_write_durable(fd, "token", token, strlen(token), mode), 0);
}

static void a_token_is_sent_and_a_public_one_is_not(void **state)
{
	struct bench *bench = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/token", bench->directory);
	bench->config.token_file = path;
	write_token(bench, "s3cret\n", 0640);
	bench_open_ship(bench);
	bench_put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_string_equal(ship_server_seen(bench->server).token, "Bearer s3cret");
	// A new one counts at once.
	write_token(bench, "other", 0600);
	bench_put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_string_equal(ship_server_seen(bench->server).token, "Bearer other");
	static const struct {
		const char *text;
		int mode;
	} refused[] = { { "public", 0644 }, { "two\r\nX-Evil: 1", 0600 }, { "\n", 0600 } };
	for (size_t i = 0; i < FP_ARRAY_SIZE(refused); i++) {
		uint64_t requests = ship_server_seen(bench->server).requests;

		write_token(bench, refused[i].text, refused[i].mode);
		bench_put(bench, 50);
		bench->ship.batches.due_ns = 0;
		fp_ship_pass(&bench->ship);
		assert_int_equal(ship_server_seen(bench->server).requests, requests);
	}
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), 3);
	assert_balanced(bench);
}

static void put_table(struct bench *bench, uint8_t id, const char *path)
{
	static const char text[] = "0 _stext\n10 do_work\n";

	assert_int_equal(fp_spool_put_symbols(bench->spool, &id, 1, path, text, sizeof(text) - 1),
			 0);
}

static void symbol_tables_are_uploaded_once_and_again_when_lost(void **state)
{
	struct bench *bench = *state;
	struct ship_seen seen;

	bench_open_ship(bench);
	put_table(bench, 0xab, "[kernel]\r\nX-Evil: 1");
	fp_ship_pass(&bench->ship);
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.heads, 1);
	assert_int_equal(seen.puts, 1);
	assert_string_equal(seen.path_header, "[kernel]??X-Evil: 1");
	assert_string_equal(seen.symbols, "0 _stext\n10 do_work\n");
	assert_int_equal(bench_metric(bench, FP_M_SHIP_SYMBOL_TABLES), 1);
	fp_ship_pass(&bench->ship); // within the hour nothing is asked
	assert_int_equal(ship_server_seen(bench->server).heads, 1);
	// The collector restarts without its files: noticed by the outage.
	ship_server_forget_symbols(bench->server);
	bench_put(bench, 50);
	ship_server_script(bench->server, "/v1/batches", (struct ship_reply){ .status = 503 }, 1);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).heads, 1);
	bench->ship.batches.due_ns = 0;
	fp_ship_pass(&bench->ship);
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.heads, 2);
	assert_int_equal(seen.puts, 2);
}

static void a_collector_without_symbols_still_gets_batches(void **state)
{
	struct bench *bench = *state;

	bench_open_ship(bench);
	put_table(bench, 1, "[kernel]");
	put_table(bench, 2, "[ext4]");
	ship_server_script(bench->server, "/v1/symbols/", (struct ship_reply){ .status = 405 },
			   100);
	bench_put(bench, 50);
	fp_ship_pass(&bench->ship);
	bench_put(bench, 60);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).samples, 110);
	assert_true(bench->ship.tables.due_ns > 0);
	assert_balanced(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_backlog_is_drained_in_one_pass),
		ON_BENCH(every_answer_does_what_the_table_says),
		ON_BENCH(a_lost_answer_is_a_duplicate_and_counts_once),
		ON_BENCH(an_answer_too_long_is_no_success),
		ON_BENCH(nobody_listening_is_a_network_error),
		ON_BENCH(without_a_collector_the_spool_just_fills),
		ON_BENCH(a_damaged_batch_does_not_stop_the_others),
		ON_BENCH(a_token_is_sent_and_a_public_one_is_not),
		ON_BENCH(symbol_tables_are_uploaded_once_and_again_when_lost),
		ON_BENCH(a_collector_without_symbols_still_gets_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
