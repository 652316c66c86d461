// SPDX-License-Identifier: Apache-2.0
// What the sampler makes of wishes, with a names client and a process table that this test plays:
// the linker takes the functions defined here.
#include "agent/daemon_state.h"
#include "agent/names.h"
#include "agent/process_find.h"
#include "agent/resolve_vdso.h"
#include "spool_place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
	// what is asked
	unsigned int asked;
	char name[256];
	struct fp_build build;
	uint64_t start;
	fp_names_table_fn done;
	void *context;
	// what is answered
	int r, find;
	uint32_t files; // different ones that claim to be the build
	uint8_t kind;
} played;

int fp_names_table(struct fp_names *names, const struct fp_names_file *file,
		   const struct fp_build *build, fp_names_table_fn done, void *context)
{
	if (played.r)
		return played.r;
	played.asked++;
	snprintf(played.name, sizeof(played.name), "%s", file->name);
	played.build = *build;
	played.start = file->start;
	played.done = done;
	played.context = context;
	return 0;
}

int fp_session_find_build(const struct fp_session *session, const struct fp_build *wanted,
			  const struct fp_process_tried *tried, struct fp_process_find *ret)
{
	if (played.find)
		return played.find;
	if (tried->count >= played.files)
		return -ENOENT;
	ret->build = *wanted;
	ret->build.kind = played.kind;
	strcpy(ret->name, "/usr/bin/x (deleted)");
	ret->file = (struct fp_names_file){ .tgid = 7,
					    .start = 0x1000 * (tried->count + 1),
					    .name = ret->name };
	return 0;
}

static void answer(int error, const char *text)
{
	const struct fp_buf buf = { .data = (uint8_t *)(uintptr_t)text,
				    .len = text ? strlen(text) : 0 };
	struct fp_build build = played.build;

	played.done(&build, error, text ? &buf : NULL, played.context);
}

struct bench {
	struct place *place;
	struct fp_daemon daemon;
};

static int up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct fp_daemon *daemon = &bench->daemon;
	void *place;

	memset(&played, 0, sizeof(played));
	played.kind = FP_BUILD_GNU;
	played.files = 1;
	fp_agent_metrics_init();
	if (make_place(&place) ||
	    fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &daemon->metrics, &daemon->metrics_fd))
		return -1;
	bench->place = place;
	daemon->spool = open_spool(place, &roomy);
	daemon->config.symbols_upload = true;
	// Never looked into here.
	daemon->names = (struct fp_names *)&played;
	daemon->session = (struct fp_session *)&played;
	fp_daemon_symbols_init(&daemon->symbols, daemon);
	*state = bench;
	return 0;
}

static int down(void **state)
{
	struct bench *bench = *state;
	void *place = bench->place;

	fp_daemon_symbols_free(&bench->daemon.symbols);
	fp_spool_free(bench->daemon.spool);
	fp_metrics_unmap(&bench->daemon.metrics);
	close(bench->daemon.metrics_fd);
	free(bench);
	return remove_place(&place);
}

static void want(struct bench *bench, const char *id)
{
	assert_int_equal(fp_spool_want_symbols(bench->daemon.spool, id), 0);
}

static void turn(struct bench *bench)
{
	fp_daemon_symbols_turn(&bench->daemon.symbols);
}

static uint64_t metric(const struct bench *bench, enum fp_agent_metric row)
{
	return fp_metric_get(&bench->daemon.metrics, row);
}

static bool is_wanted(struct bench *bench)
{
	char id[FP_SPOOL_ID_MAX];

	return fp_spool_next_wanted(bench->daemon.spool, id) == 0;
}

static void assert_spooled(struct bench *bench, const char *id, const char *path, bool empty)
{
	FP_CLEANUP(fp_spool_symbols_clear) struct fp_spool_symbols table = { 0 };

	assert_int_equal(fp_spool_read_symbols(bench->daemon.spool, id, &table), 0);
	assert_string_equal((const char *)table.path.data, path);
	assert_true(table.bytes.len > 0);
	assert_int_equal(table.bytes.len < 16, empty); // a zstd frame of nothing
}

static void a_wish_is_answered_with_the_table_of_a_mapped_file(void **state)
{
	struct bench *bench = *state;

	want(bench, "ab01");
	played.kind = FP_BUILD_GO;
	turn(bench);
	assert_int_equal(played.asked, 1);
	assert_int_equal(played.build.kind, FP_BUILD_GO);
	assert_int_equal(played.build.id_len, 2);
	assert_memory_equal(played.build.id, "\xab\x01", 2);
	assert_int_equal(played.start, 0x1000);
	turn(bench); // nothing else while it runs
	assert_int_equal(played.asked, 1);
	answer(0, "10 a_function\n20 another\n");
	assert_false(is_wanted(bench));
	assert_spooled(bench, "ab01", "/usr/bin/x", false);
	assert_int_equal(metric(bench, FP_M_WANTED_SPOOLED), 1);
}

static void wishes_are_taken_up_one_by_one_until_none_is_left(void **state)
{
	static const char *const ids[] = { "ab01", "ab02", "ab03" };
	struct bench *bench = *state;

	for (size_t i = 0; i < FP_ARRAY_SIZE(ids); i++)
		want(bench, ids[i]);
	for (unsigned int i = 1; i <= FP_ARRAY_SIZE(ids); i++) {
		turn(bench);
		assert_int_equal(played.asked, i);
		answer(0, "10 a\n20 another function\n");
	}
	turn(bench);
	assert_int_equal(played.asked, FP_ARRAY_SIZE(ids));
	for (size_t i = 0; i < FP_ARRAY_SIZE(ids); i++)
		assert_true(fp_spool_has_symbols(bench->daemon.spool, ids[i]));
}

static void a_stripped_file_is_answered_with_an_empty_table(void **state)
{
	struct bench *bench = *state;

	want(bench, "ab01");
	turn(bench);
	answer(-ENODATA, NULL);
	assert_false(is_wanted(bench));
	assert_spooled(bench, "ab01", "/usr/bin/x", true);
	assert_int_equal(metric(bench, FP_M_WANTED_STRIPPED), 1);
}

static void a_file_that_cannot_be_read_is_given_up(void **state)
{
	struct bench *bench = *state;

	want(bench, "ab01");
	turn(bench);
	answer(-EBADMSG, NULL);
	assert_false(is_wanted(bench));
	assert_false(fp_spool_has_symbols(bench->daemon.spool, "ab01"));
	assert_int_equal(metric(bench, FP_M_WANTED_FAILED), 1);
}

static void show_window(struct bench *bench, const char *path, uint8_t kind)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_build build = { .kind = kind, .id_len = 2, .id = { 0xab, 0x01 } };
	uint32_t id;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_profile_cstring(profile, path, &build.path), 0);
	assert_int_equal(fp_profile_build(profile, &build, &id), 0);
	fp_daemon_symbols_remember(&bench->daemon.symbols, profile);
}

static void a_program_that_has_ended_is_looked_for_by_its_path(void **state)
{
	struct bench *bench = *state;

	played.find = -ENOENT;
	show_window(bench, "/usr/bin/short (deleted)", FP_BUILD_HASH);
	want(bench, "ab01");
	turn(bench);
	assert_int_equal(played.asked, 1);
	assert_string_equal(played.name, "/usr/bin/short");
	assert_int_equal(played.start, 0);
	assert_int_equal(played.build.kind, FP_BUILD_HASH);
	answer(-ENOENT, NULL); // nor there: no third try
	assert_int_equal(played.asked, 1);
	assert_false(is_wanted(bench));
	assert_int_equal(metric(bench, FP_M_WANTED_GONE), 1);
}

static void a_process_that_ends_meanwhile_leaves_the_path(void **state)
{
	struct bench *bench = *state;

	show_window(bench, "/usr/bin/short", FP_BUILD_GNU);
	want(bench, "ab01");
	turn(bench);
	assert_int_equal(played.start, 0x1000);
	answer(-ENOENT, NULL);
	assert_int_equal(played.asked, 2);
	assert_int_equal(played.start, 0);
	answer(0, "10 a\n20 another function\n");
	assert_spooled(bench, "ab01", "/usr/bin/short", false);
}

static void a_file_that_is_not_root_s_does_not_stand_before_one_that_is(void **state)
{
	struct bench *bench = *state;

	played.files = 3;
	want(bench, "ab01");
	turn(bench);
	answer(-EPERM, NULL);
	assert_int_equal(played.start, 0x2000);
	answer(-ENOENT, NULL);
	assert_int_equal(played.start, 0x3000);
	assert_true(is_wanted(bench));
	answer(0, "10 a\n20 another function\n");
	assert_int_equal(played.asked, 3);
	assert_false(is_wanted(bench));
	assert_spooled(bench, "ab01", "/usr/bin/x", false);
	assert_int_equal(metric(bench, FP_M_WANTED_SPOOLED), 1);
	assert_int_equal(metric(bench, FP_M_WANTED_UNTRUSTED), 0);
}

static void with_no_file_of_root_s_there_is_no_answer(void **state)
{
	struct bench *bench = *state;

	played.files = 2;
	show_window(bench, "/home/x", FP_BUILD_GNU);
	want(bench, "ab01");
	turn(bench);
	answer(-EPERM, NULL);
	answer(-EPERM, NULL);
	assert_string_equal(played.name, "/home/x");
	answer(-EPERM, NULL); // by the path too
	assert_int_equal(played.asked, 3);
	assert_false(is_wanted(bench));
	assert_false(fp_spool_has_symbols(bench->daemon.spool, "ab01"));
	assert_int_equal(metric(bench, FP_M_WANTED_UNTRUSTED), 1);
	want(bench, "ab02"); // and the next wish begins anew
	turn(bench);
	assert_int_equal(played.start, 0x1000);
	answer(0, "10 a\n20 another function\n");
	assert_spooled(bench, "ab02", "/usr/bin/x", false);
}

static void of_very_many_files_some_are_tried(void **state)
{
	struct bench *bench = *state;

	played.files = UINT32_MAX;
	want(bench, "ab01");
	turn(bench);
	for (unsigned int i = 0; i < FP_PROCESS_TRIES_MAX; i++)
		answer(-EPERM, NULL);
	assert_int_equal(played.asked, FP_PROCESS_TRIES_MAX);
	assert_false(is_wanted(bench));
	assert_int_equal(metric(bench, FP_M_WANTED_UNTRUSTED), 1);
}

static void what_nobody_has_is_dropped(void **state)
{
	struct bench *bench = *state;

	played.find = -ENOENT;
	show_window(bench, "[kernel]", FP_BUILD_GNU); // no path
	want(bench, "ab01");
	turn(bench);
	assert_int_equal(played.asked, 0);
	assert_false(is_wanted(bench));
	assert_int_equal(metric(bench, FP_M_WANTED_GONE), 1);
}

static void with_upload_off_nothing_is_read(void **state)
{
	struct bench *bench = *state;

	bench->daemon.config.symbols_upload = false;
	want(bench, "ab01");
	turn(bench);
	assert_int_equal(played.asked, 0);
	assert_false(is_wanted(bench));
	assert_int_equal(metric(bench, FP_M_WANTED_REFUSED), 1);
}

static void while_the_names_client_is_busy_a_wish_waits(void **state)
{
	struct bench *bench = *state;

	played.r = -EBUSY;
	want(bench, "ab01");
	turn(bench);
	assert_true(is_wanted(bench));
	played.r = 0;
	turn(bench);
	assert_int_equal(played.asked, 1);
}

static void while_too_many_tables_wait_no_more_are_made(void **state)
{
	static const struct fp_buf text = { .data = (uint8_t *)(uintptr_t) "10 a\n", .len = 5 };
	struct bench *bench = *state;
	struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 2, .id = { 1 } };

	while (fp_spool_wanted_room(bench->daemon.spool)) {
		assert_int_equal(fp_spool_put_wanted(bench->daemon.spool, &build, "x", &text), 0);
		build.id[1]++;
	}
	want(bench, "ab01");
	turn(bench);
	assert_int_equal(played.asked, 0);
	assert_true(is_wanted(bench));
	assert_true(fp_spool_sent_symbols(bench->daemon.spool, "0100"));
	turn(bench);
	assert_int_equal(played.asked, 1);
}

static void our_vdso_is_had_from_a_copy(void **state)
{
	struct bench *bench = *state;
	char hex[FP_SPOOL_ID_MAX] = "";
	size_t size;
	const uint8_t *id = fp_vdso_build_id(&size);

	if (!id) {
		print_message("skipped: no vDSO with a build-ID here\n");
		skip();
	}
	for (size_t i = 0; i < size; i++)
		sprintf(hex + 2 * i, "%02x", id[i]);
	played.find = -ENOENT;
	want(bench, hex);
	turn(bench);
	assert_int_equal(played.asked, 1);
	// The address is one of ours.
	assert_memory_equal((const void *)(uintptr_t)played.start, "\177ELF", 4); // NOLINT
	assert_non_null(strstr(played.name, "vdso"));
}

static void paths_are_remembered_within_bounds(void **state)
{
	struct bench *bench = *state;
	struct fp_daemon_symbols *symbols = &bench->daemon.symbols;

	for (unsigned int i = 0; i < 3 * FP_DAEMON_PATHS_MAX; i++) {
		FP_AUTOPROFILE struct fp_profile *profile = NULL;
		struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 4 };
		uint32_t id;

		memcpy(build.id, &i, sizeof(i));
		assert_int_equal(fp_profile_new(&profile), 0);
		assert_int_equal(fp_profile_cstring(profile, "/bin/y", &build.path), 0);
		assert_int_equal(fp_profile_build(profile, &build, &id), 0);
		fp_daemon_symbols_remember(symbols, profile);
		assert_in_range(symbols->recent.count + symbols->before.count, 1,
				2 * FP_DAEMON_PATHS_MAX);
	}
	assert_true(symbols->recent.count + symbols->before.count >= FP_DAEMON_PATHS_MAX);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(a_wish_is_answered_with_the_table_of_a_mapped_file),
		ON(wishes_are_taken_up_one_by_one_until_none_is_left),
		ON(a_stripped_file_is_answered_with_an_empty_table),
		ON(a_file_that_cannot_be_read_is_given_up),
		ON(a_program_that_has_ended_is_looked_for_by_its_path),
		ON(a_process_that_ends_meanwhile_leaves_the_path),
		ON(a_file_that_is_not_root_s_does_not_stand_before_one_that_is),
		ON(with_no_file_of_root_s_there_is_no_answer),
		ON(of_very_many_files_some_are_tried),
		ON(what_nobody_has_is_dropped),
		ON(with_upload_off_nothing_is_read),
		ON(while_the_names_client_is_busy_a_wish_waits),
		ON(while_too_many_tables_wait_no_more_are_made),
		ON(our_vdso_is_had_from_a_copy),
		ON(paths_are_remembered_within_bounds),
	};

	return cmocka_run_group_tests_name("daemon_symbols", tests, NULL, NULL);
}
