// SPDX-License-Identifier: Apache-2.0
// Symbol tables that a collector asks for, from the header of its answer to the table that
// arrives, and that whatever else it may say asks for nothing.
#include "agent/ship_wanted.h"
#include "ship_bench.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ID4   "ab01,ab02,ab03,ab04"

static const struct {
	const char *claim, *value;
	int count; // of ids, or -EBADMSG
} values[] = {
	{ "one id", "ab01", 1 },
	{ "two", "ab01,cd02", 2 },
	{ "the longest id", HEX64, 1 },
	{ "as many as may be", ID4 "," ID4 "," ID4 "," ID4, 16 },
	{ "not one more", ID4 "," ID4 "," ID4 "," ID4 ",ab05", -EBADMSG },
	{ "not an empty list", "", -EBADMSG },
	{ "not an empty id", "ab01,,cd02", -EBADMSG },
	{ "not a comma at the end", "ab01,", -EBADMSG },
	{ "nor at the start", ",ab01", -EBADMSG },
	{ "not half a byte", "ab0", -EBADMSG },
	{ "not upper case", "AB01", -EBADMSG },
	{ "not a longer id", HEX64 "00", -EBADMSG },
	{ "not blanks", "ab01, cd02", -EBADMSG },
	{ "not a path", "../../../../etc/passwd", -EBADMSG },
	{ "not a path behind an id", "ab01/../cd", -EBADMSG },
	{ "not a temporary file", ".ab01.tmp", -EBADMSG },
	{ "not a prefix", "0xab01", -EBADMSG },
	{ "not another separator", "ab01;cd02", -EBADMSG },
	{ "not control bytes", "ab01\r\ncd02", -EBADMSG },
	{ "not other letters", "ab\xc3\xa4", -EBADMSG },
};

static void a_list_is_taken_whole_or_not_at_all(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(values); i++) {
		struct fp_ship_wanted wanted = { .count = 99 };
		int r = fp_ship_wanted_parse(values[i].value, strlen(values[i].value), &wanted);

		if (values[i].count < 0 ? r != values[i].count || wanted.count != 99
					: r || wanted.count != (size_t)values[i].count)
			fail_msg("not so: %s", values[i].claim);
	}
}

static void the_ids_are_what_stands_there(void **state)
{
	struct fp_ship_wanted wanted;

	assert_int_equal(fp_ship_wanted_parse("ab01,cd02ef,zz", 11, &wanted), 0);
	assert_string_equal(wanted.ids[0], "ab01");
	assert_string_equal(wanted.ids[1], "cd02ef");
	assert_int_equal(fp_ship_wanted_parse("ab\0001", 4, &wanted), -EBADMSG);
}

// Sends one batch that is answered as stored, with the header.
static void answer_with(struct bench *bench, const char *wanted)
{
	bench_put(bench, 20);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 200,
						.store_first = true,
						.body = "{\"status\":\"stored\"}",
						.wanted = wanted },
			   1);
	fp_ship_pass(&bench->ship);
}

static const char *next_wanted(struct bench *bench)
{
	static char id[FP_SPOOL_ID_MAX];

	return fp_spool_next_wanted(bench->spool, id) ? "(none)" : id;
}

static void a_wish_is_noted_once(void **state)
{
	struct bench *bench = *state;

	bench_open_ship(bench);
	assert_string_equal(next_wanted(bench), "(none)");
	answer_with(bench, "  ab01 ");
	assert_string_equal(next_wanted(bench), "ab01");
	answer_with(bench, "ab01");
	assert_int_equal(bench_metric(bench, FP_M_SHIP_WANTED_NOTED), 1);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_WANTED_KNOWN), 1);
	assert_int_equal(fp_spool_drop_wanted(bench->spool, "ab01"), 0);
	assert_string_equal(next_wanted(bench), "(none)");
	assert_balanced(bench);
}

static void a_hostile_header_asks_for_nothing_and_the_batch_is_stored(void **state)
{
	struct bench *bench = *state;
	FP_AUTOFREE char *huge = malloc(20001);
	uint64_t malformed = 0;

	assert_non_null(huge);
	for (size_t i = 0; i < 20000; i++)
		huge[i] = "ab01,"[i % 5];
	huge[20000] = '\0';
	bench_open_ship(bench);
	answer_with(bench, huge);
	malformed++;
	for (size_t i = 0; i < FP_ARRAY_SIZE(values); i++) {
		if (values[i].count > 0 || !values[i].value[0] || strchr(values[i].value, '\r'))
			continue; // those that a server can send
		answer_with(bench, values[i].value);
		malformed++;
	}
	assert_string_equal(next_wanted(bench), "(none)");
	assert_int_equal(bench_metric(bench, FP_M_SHIP_WANTED_MALFORMED), malformed);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_OK), malformed);
	assert_balanced(bench);
}

static void who_is_no_collector_asks_for_nothing(void **state)
{
	static const struct ship_reply replies[] = {
		{ .status = 200, .body = "<html>Welcome</html>", .wanted = "ab01" },
		{ .status = 503, .wanted = "ab01" },
		{ .status = 400, .wanted = "ab01" },
		{ .status = 302, .location = "http://127.0.0.1:1/", .wanted = "ab01" },
	};
	struct bench *bench = *state;

	bench_open_ship(bench);
	for (size_t i = 0; i < FP_ARRAY_SIZE(replies); i++) {
		bench_put(bench, 20);
		bench->ship.batches.due_ns = 0;
		ship_server_script(bench->server, "/v1/batches", replies[i], 1);
		fp_ship_pass(&bench->ship);
	}
	assert_string_equal(next_wanted(bench), "(none)");
}

static void wishes_are_bounded(void **state)
{
	struct bench *bench = *state;
	char wanted[16 * 5 + 1];

	bench_open_ship(bench);
	for (unsigned int i = 0; i < FP_SPOOL_WANTED_MAX + 32; i += 16) {
		for (unsigned int k = 0; k < 16; k++)
			sprintf(wanted + 5 * k, "%04x,", i + k);
		wanted[16 * 5 - 1] = '\0';
		answer_with(bench, wanted);
	}
	assert_int_equal(bench_metric(bench, FP_M_SHIP_WANTED_NOTED), FP_SPOOL_WANTED_MAX);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_WANTED_FULL), 32);
	assert_balanced(bench);
}

static const struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 2, .id = { 0xab, 0x01 } };

static void put_answer(struct bench *bench, const char *text)
{
	const struct fp_buf table = { .data = (uint8_t *)(uintptr_t)text, .len = strlen(text) };

	assert_int_equal(fp_spool_put_wanted(bench->spool, &build, "/usr/bin/x", &table), 0);
}

static size_t tables_waiting(struct bench *bench)
{
	char **ids = NULL;
	size_t count = 0;

	assert_int_equal(fp_spool_list_symbols(bench->spool, &ids), 0);
	for (; ids[count]; count++)
		free(ids[count]);
	free(ids);
	return count;
}

static void a_table_that_was_asked_for_is_sent_once_and_removed(void **state)
{
	struct bench *bench = *state;
	struct ship_seen seen;

	bench_open_ship(bench);
	put_answer(bench, "10 a\n");
	answer_with(bench, "ab01"); // it is on its way
	assert_string_equal(next_wanted(bench), "(none)");
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.puts, 1);
	assert_string_equal(seen.symbols, "10 a\n");
	assert_string_equal(seen.path_header, "/usr/bin/x");
	assert_int_equal(tables_waiting(bench), 0);
	// The collector lost it and asks again: it goes out at once.
	ship_server_forget_symbols(bench->server);
	answer_with(bench, "ab01");
	assert_string_equal(next_wanted(bench), "ab01");
	put_answer(bench, "10 b\n");
	fp_ship_pass(&bench->ship);
	assert_string_equal(ship_server_seen(bench->server).symbols, "10 b\n");
	assert_int_equal(tables_waiting(bench), 0);
}

static void an_empty_table_is_sent_too(void **state)
{
	struct bench *bench = *state;

	bench_open_ship(bench);
	put_answer(bench, "");
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).puts, 1);
	assert_string_equal(ship_server_seen(bench->server).symbols, "");
	assert_int_equal(tables_waiting(bench), 0);
}

static const struct {
	const char *claim;
	unsigned int status;
	size_t waiting;
} refusals[] = {
	{ "what the collector will never take is removed", 413, 0 },
	{ "so is what it calls malformed", 400, 0 },
	{ "a busy collector gets it later", 503, 1 },
};

static void a_refused_table_does_not_stay_for_ever(void **state)
{
	struct bench *bench = *state;

	bench_open_ship(bench);
	for (size_t i = 0; i < FP_ARRAY_SIZE(refusals); i++) {
		put_answer(bench, "10 a\n");
		ship_server_script(bench->server, "/v1/symbols/",
				   (struct ship_reply){ .status = refusals[i].status }, 1);
		bench->ship.tables.due_ns = 0;
		fp_ship_pass(&bench->ship);
		if (tables_waiting(bench) != refusals[i].waiting)
			fail_msg("not so: %s", refusals[i].claim);
	}
	bench->ship.tables.due_ns = 0;
	fp_ship_pass(&bench->ship);
	assert_int_equal(tables_waiting(bench), 0);
}

static bool is_noted(struct bench *bench)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	for (int i = 0; i < 1500; i++) {
		if (strcmp(next_wanted(bench), "(none)") != 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

// As root the role becomes another user, to whom the directory must have been opened.
static void the_role_notes_wishes_as_another_user_too(void **state)
{
	struct bench *bench = *state;
	int pid, status;

	if (geteuid() == 0)
		bench->config.user = "nobody";
	bench_put(bench, 20);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 200,
						.store_first = true,
						.body = "{\"status\":\"stored\"}",
						.wanted = "ab01" },
			   1);
	pid = fp_ship_fork(&bench->config, &bench->metrics);
	assert_true(pid > 0);
	assert_true(is_noted(bench));
	assert_int_equal(fp_spool_drop_wanted(bench->spool, "ab01"), 0);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_taken_whole_or_not_at_all),
		cmocka_unit_test(the_ids_are_what_stands_there),
		ON_BENCH(a_wish_is_noted_once),
		ON_BENCH(a_hostile_header_asks_for_nothing_and_the_batch_is_stored),
		ON_BENCH(who_is_no_collector_asks_for_nothing),
		ON_BENCH(wishes_are_bounded),
		ON_BENCH(a_table_that_was_asked_for_is_sent_once_and_removed),
		ON_BENCH(an_empty_table_is_sent_too),
		ON_BENCH(a_refused_table_does_not_stay_for_ever),
		ON_BENCH(the_role_notes_wishes_as_another_user_too),
	};

	return cmocka_run_group_tests_name("ship_wanted", tests, NULL, NULL);
}
