// SPDX-License-Identifier: Apache-2.0
// Delivery against a collector that misbehaves in every way of the table, seen from both
// ends: each batch is stored once, dropped with its reason, or still there.
#include "agent/ship_deliver.h"
#include "common/clock.h"
#include "common/file.h"
#include "ship_server.h"
#include "tests/unit/proto/examples.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define CAP_NS (300 * FP_NS_PER_S)

static const struct fp_spool_limits limits = { .max_bytes = 1ULL << 40, .max_age_ns = UINT64_MAX };

struct bench {
	struct ship_server *server;
	char directory[64];
	struct fp_spool *spool; // the sampler's end
	struct fp_metrics metrics;
	int metrics_fd;
	struct fp_ship_config config;
	struct fp_ship ship;
	uint64_t put_batches, put_samples;
};

static bool never(void *context)
{
	return false;
}

static int bench_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return -1;
	fp_agent_metrics_init();
	bench->server = ship_server_start();
	strcpy(bench->directory, "/tmp/fleetprof-ship-XXXXXX");
	if (!mkdtemp(bench->directory) || fp_spool_open(bench->directory, &limits, &bench->spool) ||
	    fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &bench->metrics, &bench->metrics_fd))
		return -1;
	bench->config = (struct fp_ship_config){ .collector_url = ship_server_url(bench->server),
						 .spool_directory = bench->directory,
						 .limits = limits,
						 .user = "",
						 .listen = "",
						 .token_file = "",
						 .ca_file = "",
						 .retry_max_ns = CAP_NS,
						 .loop_stale_ns = FP_NS_PER_S };
	*state = bench;
	return 0;
}

static void open_ship(struct bench *bench)
{
	bench->ship.should_stop = never;
	assert_int_equal(fp_ship_open(&bench->config, &bench->metrics, &bench->ship), 0);
}

static int bench_down(void **state)
{
	struct bench *bench = *state;
	char command[96];

	if (bench->ship.spool)
		fp_ship_close(&bench->ship);
	fp_spool_free(bench->spool);
	fp_metrics_unmap(&bench->metrics);
	close(bench->metrics_fd);
	ship_server_stopp(&bench->server);
	snprintf(command, sizeof(command), "rm -rf %s", bench->directory);
	free(bench);
	return system(command);
}

static void put(struct bench *bench, uint64_t samples)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();

	profile->sequence = fp_spool_next_sequence(bench->spool);
	profile->start_boottime_ns = fp_boottime_ns();
	profile->end_boottime_ns = UINT64_MAX;
	profile->samples[0].count = samples - 1;
	assert_int_equal(fp_spool_put(bench->spool, profile), 0);
	bench->put_batches++;
	bench->put_samples += samples;
}

static uint64_t metric(const struct bench *bench, size_t row)
{
	return fp_metric_get(&bench->metrics, row);
}

// What was put is stored once, dropped for a reason, or queued: never two, never none.
static void assert_balanced(struct bench *bench)
{
	struct ship_seen seen = ship_server_seen(bench->server);
	struct fp_spool_stats stats;
	uint64_t dropped = 0;

	fp_spool_stats(bench->spool, &stats);
	for (size_t i = 0; i < FP_SPOOL_DROP_COUNT; i++)
		dropped += metric(bench, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + i);
	assert_int_equal(metric(bench, FP_M_SHIP_SAMPLES) + dropped + stats.samples,
			 bench->put_samples);
	assert_int_equal(seen.malformed, 0);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), stats.batches);
}

static void a_backlog_is_drained_in_one_pass(void **state)
{
	struct bench *bench = *state;

	open_ship(bench);
	for (uint64_t i = 0; i < 25; i++)
		put(bench, 20 + i);
	fp_ship_pass(&bench->ship);
	struct ship_seen seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, 25);
	assert_int_equal(seen.samples, bench->put_samples);
	assert_int_equal(seen.duplicates, 0);
	assert_int_equal(metric(bench, FP_M_SHIP_OK), 25);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 0);
	assert_true(metric(bench, FP_M_SHIP_LAST_SUCCESS) > 0);
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
	uint64_t counted = metric(bench, one->counted), wait_s, before = fp_boottime_ns();
	uint64_t dropped = metric(bench, FP_M_SPOOL_DROPPED_BATCHES_FIRST + one->reason);
	struct ship_seen seen;

	put(bench, 33);
	// More than once, because libcurl itself repeats a request on a connection that was cut.
	ship_server_script(bench->server, "/v1/batches", one->reply, 100);
	fp_ship_pass(&bench->ship);
	ship_server_script(bench->server, "", one->reply, 0);
	seen = ship_server_seen(bench->server);
	if (metric(bench, one->counted) != counted + 1)
		fail_msg("not counted: %s", one->claim);
	assert_balanced(bench);
	if (one->then == DROPPED) {
		if (metric(bench, FP_M_SPOOL_DROPPED_BATCHES_FIRST + one->reason) != dropped + 1 ||
		    metric(bench, FP_M_SPOOL_BATCHES))
			fail_msg("not dropped: %s", one->claim);
		return;
	}
	wait_s =
	    bench->ship.batches.due_ns ? (bench->ship.batches.due_ns - before) / FP_NS_PER_S : 0;
	// The pass itself took a moment, which the upper bound must forgive.
	if (metric(bench, FP_M_SPOOL_BATCHES) != 1 || !bench->ship.batches.due_ns ||
	    wait_s < one->min_wait_s || wait_s > one->max_wait_s + 10)
		fail_msg("not so: %s (waits %llu s)", one->claim, (unsigned long long)wait_s);
	assert_true(metric(bench, FP_M_SHIP_BACKOFF) >= one->min_wait_s * FP_NS_PER_S);
	fp_ship_pass(&bench->ship); // not due: nothing happens
	assert_int_equal(ship_server_seen(bench->server).requests, seen.requests);
	bench->ship.batches.due_ns = 0;
	fp_ship_pass(&bench->ship);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 0);
	assert_int_equal(metric(bench, FP_M_SHIP_BACKOFF), 0);
	assert_balanced(bench);
}

static void every_answer_does_what_the_table_says(void **state)
{
	struct bench *bench = *state;
	uint64_t kept = 0;

	open_ship(bench);
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

	open_ship(bench);
	put(bench, 50);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 0, .store_first = true }, 1);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).batches, 1);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 1); // as far as we know
	bench->ship.batches.due_ns = 0;
	fp_ship_pass(&bench->ship);
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, 1);
	assert_int_equal(seen.samples, 50);
	assert_int_equal(seen.duplicates, 1);
	assert_int_equal(metric(bench, FP_M_SHIP_DUPLICATE), 1);
	assert_int_equal(metric(bench, FP_M_SHIP_SAMPLES), 50);
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
	open_ship(bench);
	put(bench, 50);
	ship_server_script(bench->server, "/v1/batches",
			   (struct ship_reply){ .status = 200, .body = huge }, 1);
	fp_ship_pass(&bench->ship);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_int_equal(metric(bench, FP_M_SHIP_NETWORK_ERRORS), 1);
}

static void nobody_listening_is_a_network_error(void **state)
{
	struct bench *bench = *state;

	bench->config.collector_url = "http://127.0.0.1:1";
	open_ship(bench);
	put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_int_equal(metric(bench, FP_M_SHIP_NETWORK_ERRORS), 1);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_int_equal(metric(bench, FP_M_SHIP_RETRIES), 1);
	assert_true(fp_ship_due_ns(&bench->ship) > 0);
	assert_balanced(bench);
}

static void without_a_collector_the_spool_just_fills(void **state)
{
	struct bench *bench = *state;

	bench->config.collector_url = "";
	open_ship(bench);
	put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 1);
	assert_true(metric(bench, FP_M_SPOOL_BYTES) > 64);
	assert_int_equal(metric(bench, FP_M_SHIP_RETRIES), 0);
}

static void a_damaged_batch_does_not_stop_the_others(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = -1;
	char path[192];

	open_ship(bench);
	put(bench, 50);
	put(bench, 60);
	struct fp_spool_item item = { 0 };
	assert_int_equal(fp_spool_peek(bench->spool, false, &item), 0);
	snprintf(path, sizeof(path), "%s/%s", bench->directory, item.name);
	fp_spool_item_clear(&item);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "boom", 4, 80), 4);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).samples, 60);
	assert_int_equal(metric(bench, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + FP_SPOOL_DROP_CORRUPT),
			 50);
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
	open_ship(bench);
	put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_string_equal(ship_server_seen(bench->server).token, "Bearer s3cret");
	// A new one counts at once.
	write_token(bench, "other", 0600);
	put(bench, 50);
	fp_ship_pass(&bench->ship);
	assert_string_equal(ship_server_seen(bench->server).token, "Bearer other");
	static const struct {
		const char *text;
		int mode;
	} refused[] = { { "public", 0644 }, { "two\r\nX-Evil: 1", 0600 }, { "\n", 0600 } };
	for (size_t i = 0; i < FP_ARRAY_SIZE(refused); i++) {
		uint64_t requests = ship_server_seen(bench->server).requests;

		write_token(bench, refused[i].text, refused[i].mode);
		put(bench, 50);
		bench->ship.batches.due_ns = 0;
		fp_ship_pass(&bench->ship);
		assert_int_equal(ship_server_seen(bench->server).requests, requests);
	}
	assert_int_equal(metric(bench, FP_M_SPOOL_BATCHES), 3);
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

	open_ship(bench);
	put_table(bench, 0xab, "[kernel]\r\nX-Evil: 1");
	fp_ship_pass(&bench->ship);
	seen = ship_server_seen(bench->server);
	assert_int_equal(seen.heads, 1);
	assert_int_equal(seen.puts, 1);
	assert_string_equal(seen.path_header, "[kernel]??X-Evil: 1");
	assert_string_equal(seen.symbols, "0 _stext\n10 do_work\n");
	assert_int_equal(metric(bench, FP_M_SHIP_SYMBOL_TABLES), 1);
	fp_ship_pass(&bench->ship); // within the hour nothing is asked
	assert_int_equal(ship_server_seen(bench->server).heads, 1);
	// The collector restarts without its files: noticed by the outage.
	ship_server_forget_symbols(bench->server);
	put(bench, 50);
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

	open_ship(bench);
	put_table(bench, 1, "[kernel]");
	put_table(bench, 2, "[ext4]");
	ship_server_script(bench->server, "/v1/symbols/", (struct ship_reply){ .status = 405 },
			   100);
	put(bench, 50);
	fp_ship_pass(&bench->ship);
	put(bench, 60);
	fp_ship_pass(&bench->ship);
	assert_int_equal(ship_server_seen(bench->server).samples, 110);
	assert_true(bench->ship.tables.due_ns > 0);
	assert_balanced(bench);
}

// The role as a process of its own.

static bool wait_until(struct bench *bench, bool (*reached)(struct bench *bench))
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	for (int i = 0; i < 1500; i++) {
		if (reached(bench))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool all_arrived(struct bench *bench)
{
	return ship_server_seen(bench->server).samples == bench->put_samples;
}

static int role_start(struct bench *bench)
{
	int pid;

	if (geteuid() == 0)
		bench->config.user = "nobody";
	pid = fp_ship_start(&bench->config, &bench->metrics);
	assert_true(pid > 0);
	return pid;
}

static void assert_status_line(int pid, const char *line)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_int_equal(fp_file_read(path, 1 << 16, &text), 0);
	if (!strstr((const char *)text.data, line))
		fail_msg("no '%s' in:\n%s", line, (const char *)text.data);
}

static void the_role_has_nothing_but_the_network_and_the_spool(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int secret = open("/proc/self/status", O_RDONLY); // inheritable
	char path[64], target[64] = "";
	int pid, status;

	assert_true(secret > STDERR_FILENO);
	put(bench, 50);
	pid = role_start(bench);
	assert_true(wait_until(bench, all_arrived));
	put(bench, 60); // and what comes later, by inotify
	assert_true(wait_until(bench, all_arrived));
	assert_status_line(pid, "\nCapEff:\t0000000000000000\n");
	assert_status_line(pid, "\nCapPrm:\t0000000000000000\n");
	assert_status_line(pid, "\nCapAmb:\t0000000000000000\n");
	assert_status_line(pid, "\nNoNewPrivs:\t1\n");
	assert_status_line(pid, "\nSeccomp:\t2\n");
	if (geteuid() == 0) {
		assert_status_line(pid, "\nUid:\t65534\t65534\t65534\t65534\n");
		assert_status_line(pid, "\nGroups:\t \n");
		assert_status_line(pid, "\nCapBnd:\t0000000000000000\n");
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, secret);
	if (readlink(path, target, sizeof(target) - 1) > 0)
		assert_null(strstr(target, "/status"));
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_balanced(bench);
}

static void a_role_killed_at_any_moment_counts_nothing_twice(void **state)
{
	struct bench *bench = *state;

	for (int round = 0; round < 12; round++) {
		const struct timespec pause = { .tv_nsec = round * 3 * 1000 * 1000 };
		int pid, status;

		for (int i = 0; i < 5; i++)
			put(bench, 20 + (uint64_t)i);
		if (round % 3 == 0)
			ship_server_script(bench->server, "/v1/batches",
					   (struct ship_reply){ .status = 0, .store_first = true },
					   1);
		pid = role_start(bench);
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	ship_server_script(bench->server, "", (struct ship_reply){ .status = 0 }, 0);
	int pid = role_start(bench), status;
	assert_true(wait_until(bench, all_arrived));
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	struct ship_seen seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, bench->put_batches);
	assert_int_equal(seen.samples, bench->put_samples);
	assert_int_equal(seen.malformed, 0);
}

static void the_role_ends_with_its_parent(void **state)
{
	struct bench *bench = *state;
	int channel[2], role = 0, status;
	pid_t parent;

	// Orphans come to us, so that the end can be waited for.
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L), 0);
	assert_int_equal(pipe(channel), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		role = fp_ship_start(&bench->config, &bench->metrics);
		if (write(channel[1], &role, sizeof(role)) != sizeof(role))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(channel[0], &role, sizeof(role)), sizeof(role));
	close(channel[0]);
	close(channel[1]);
	assert_true(role > 0);
	put(bench, 50);
	assert_true(wait_until(bench, all_arrived)); // it is up
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(waitpid(role, &status, 0), role);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, bench_up, bench_down)

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
		ON_BENCH(the_role_has_nothing_but_the_network_and_the_spool),
		ON_BENCH(a_role_killed_at_any_moment_counts_nothing_twice),
		ON_BENCH(the_role_ends_with_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
