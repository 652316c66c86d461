// SPDX-License-Identifier: Apache-2.0
// The client: what it remembers, and that no child can make it wait, believe nonsense or ask
// soon again what somebody choked on.
#include "names_bench.h"

#include "common/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_file_is_identified_by_its_hash_also_when_it_has_been_deleted(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { 0 }, other = { 0 };
	struct bench_file file, deleted;

	bench_open(bench);
	bench_map(bench, "one", "no ELF file", &file);
	bench_map(bench, "two", "another", &deleted);
	unlink(deleted.path);
	assert_int_equal(fp_names_identity(bench->names, &file.file, &build), FP_NAMES_PENDING);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	assert_int_equal(build.kind, FP_BUILD_HASH);
	assert_int_equal(build.id_len, 16);
	assert_int_equal(bench_identify(bench, &deleted, &other), FP_NAMES_KNOWN);
	assert_memory_not_equal(build.id, other.id, 16);
	assert_int_equal(bench_stats(bench).identities_asked, 2);
	assert_int_equal(bench_stats(bench).identities_known, 2);
	bench_unmap(&file);
	bench_unmap(&deleted);
}

static void make_old(struct bench *bench)
{
	struct fp_identity_entry *entry;

	TAILQ_FOREACH(entry, &bench->names->by_use, by_use)
	entry->answered_ns = 0;
}

static void a_file_written_anew_is_identified_anew(void **state)
{
	struct bench *bench = *state;
	struct fp_build first = { 0 }, second = { 0 };
	struct bench_file file, again;

	bench_open(bench);
	bench_map(bench, "file", "first", &file);
	assert_int_equal(bench_identify(bench, &file, &first), FP_NAMES_KNOWN);
	make_old(bench);
	assert_int_equal(bench_identify(bench, &file, &second), FP_NAMES_KNOWN);
	assert_memory_equal(first.id, second.id, 16);
	bench_map(bench, "file", "second", &again);
	assert_int_equal(again.file.inode, file.file.inode);
	assert_int_equal(bench_identify(bench, &file, &second), FP_NAMES_KNOWN); // still fresh
	assert_memory_equal(first.id, second.id, 16);
	make_old(bench);
	assert_int_equal(bench_identify(bench, &again, &second), FP_NAMES_KNOWN);
	assert_memory_not_equal(first.id, second.id, 16);
	bench_unmap(&file);
	bench_unmap(&again);
}

static void a_file_that_cannot_be_had_has_no_identity_until_it_can(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { 0 };
	struct bench_file file, gone;

	bench_open(bench);
	bench_map(bench, "file", "text", &file);
	gone = file;
	gone.file.tgid = 0x7ffffff0; // no such process
	unlink(gone.path);
	assert_int_equal(bench_identify(bench, &gone, &build), FP_NAMES_NONE);
	assert_int_equal(bench_stats(bench).identities_none, 1);
	make_old(bench);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	bench_unmap(&file);
}

static void the_queue_of_files_is_bounded_and_says_so(void **state)
{
	struct bench *bench = *state;
	struct fp_names_file file = { .tgid = 0x7ffffff0, .inode = 1, .name = "/nowhere" };
	unsigned int queued = 0;

	bench_open(bench);
	for (file.inode = 1; file.inode <= FP_NAMES_QUEUE_MAX + 10; file.inode++)
		queued += fp_names_want_identity(bench->names, &file) == 0;
	assert_int_equal(queued, FP_NAMES_QUEUE_MAX);
	assert_int_equal(bench_stats(bench).queue_full, 10);
	bench_settle(bench);
	assert_int_equal(fp_names_want_identity(bench->names, &file), 0);
}

static void what_is_remembered_of_files_is_bounded(void **state)
{
	struct bench *bench = *state;
	struct fp_names_file file = { .tgid = 0x7ffffff0, .name = "/nowhere" };

	bench_open(bench);
	// On a hung device each is answered at once.
	for (file.inode = 1; file.inode <= FP_NAMES_IDENTITIES_MAX + 500; file.inode++) {
		const struct fp_blame until = { .until_ns = UINT64_MAX };
		struct fp_blame *hung =
		    fp_hashmap_put(&bench->names->hung_places, &file.device, NULL);

		*hung = until;
		assert_int_equal(fp_names_want_identity(bench->names, &file), 0);
		if (file.inode % 1000 == 0)
			bench_settle(bench);
	}
	bench_settle(bench);
	assert_int_equal(bench->names->identities.count, FP_NAMES_IDENTITIES_MAX);
	assert_int_equal(bench_stats(bench).denied, FP_NAMES_IDENTITIES_MAX + 500);
}

// ---- children that misbehave ----

static const struct fault {
	const char *name;
	enum bench_child opener, role;
	uint64_t timeouts;
	bool blames; // the file: it is not asked again
} faults[] = {
	{ "an opener that never answers", BENCH_SILENT, BENCH_REAL, 1, true },
	{ "an opener that enters a place and stays", BENCH_ENTERS, BENCH_REAL, 1, true },
	{ "an opener that dies", BENCH_DIES, BENCH_REAL, 0, true },
	{ "an opener that closes its socket", BENCH_CLOSES, BENCH_REAL, 0, true },
	{ "an opener that answers something else", BENCH_OTHER_SERIAL, BENCH_REAL, 0, true },
	{ "an opener that says too much", BENCH_LONG, BENCH_REAL, 0, true },
	{ "an opener that says too little", BENCH_SHORT, BENCH_REAL, 0, true },
	{ "an opener with an error that is none", BENCH_WRONG, BENCH_REAL, 0, true },
	{ "a role that never answers", BENCH_REAL, BENCH_SILENT, 1, true },
	{ "a role that dies", BENCH_REAL, BENCH_DIES, 0, true },
	{ "a role that closes its socket", BENCH_REAL, BENCH_CLOSES, 0, true },
	{ "a role that answers something else", BENCH_REAL, BENCH_OTHER_SERIAL, 0, true },
	{ "a role that says too much", BENCH_REAL, BENCH_LONG, 0, true },
	{ "a role that says too little", BENCH_REAL, BENCH_SHORT, 0, true },
	{ "a role that says far too much", BENCH_REAL, BENCH_HUGE, 0, true },
	{ "a role with an id longer than ids are", BENCH_REAL, BENCH_WRONG, 0, true },
};

static void pass_blame(struct bench *bench)
{
	struct fp_identity_entry *entry;

	TAILQ_FOREACH(entry, &bench->names->by_use, by_use)
	entry->blame.until_ns = 0;
}

static void try_fault(struct bench *bench, const struct fault *fault)
{
	struct fp_build build = { 0 };
	struct bench_file file, other;

	bench->openers = bench->roles = 0;
	bench->first_opener = fault->opener;
	bench->first_role = fault->role;
	bench->options.request_deadline_ns = fault->timeouts ? FP_NS_PER_S / 5 : 60 * FP_NS_PER_S;
	bench_open(bench);
	bench_map(bench, "culprit", "first text", &file);
	bench_map(bench, "other", "second text", &other);
	assert_int_equal(bench_identify(bench, &file, &build),
			 fault->blames ? FP_NAMES_NONE : FP_NAMES_KNOWN);
	assert_int_equal(bench_stats(bench).timeouts, fault->timeouts);
	// What follows is answered by another child, and the culprit is left alone.
	fp_hashmap_clear(&bench->names->hung_places); // both files lie on one device
	make_old(bench);
	assert_int_equal(bench_identify(bench, &other, &build), FP_NAMES_KNOWN);
	assert_int_equal(bench_identify(bench, &file, &build),
			 fault->blames ? FP_NAMES_NONE : FP_NAMES_KNOWN);
	assert_int_equal(bench_stats(bench).opener_starts, fault->opener == BENCH_REAL ? 1 : 2);
	assert_int_equal(bench_stats(bench).role_starts, fault->role == BENCH_REAL ? 1 : 2);
	// It need not have been the culprit: its time is over some day.
	pass_blame(bench);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	bench_unmap(&file);
	bench_unmap(&other);
	fp_names_freep(&bench->names);
}

static void no_child_can_make_the_client_wait_or_believe(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(faults); i++) {
		print_message("  %s\n", faults[i].name);
		try_fault(*state, &faults[i]);
	}
}

static void a_device_on_which_somebody_hung_is_left_alone_for_a_while(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { 0 };
	struct bench_file first, second;

	bench->first_opener = BENCH_ENTERS;
	bench->options.request_deadline_ns = FP_NS_PER_S / 5;
	bench_open(bench);
	bench_map(bench, "first", "1", &first);
	bench_map(bench, "second", "2", &second);
	assert_int_equal(bench_identify(bench, &first, &build), FP_NAMES_NONE);
	assert_int_equal(bench_identify(bench, &second, &build), FP_NAMES_NONE);
	assert_int_equal(bench_stats(bench).timeouts, 1);
	assert_int_equal(bench_stats(bench).denied, 1);
	bench_unmap(&first);
	bench_unmap(&second);
}

static void who_hangs_nowhere_blames_this_file_alone(void **state)
{
	static const enum bench_child openers[] = { BENCH_SILENT, BENCH_LEAVES };
	struct bench *bench = *state;

	for (size_t i = 0; i < FP_ARRAY_SIZE(openers); i++) {
		struct fp_build build = { 0 };
		struct bench_file first, second;

		bench->openers = bench->roles = 0;
		bench->first_opener = openers[i];
		bench->options.request_deadline_ns = FP_NS_PER_S / 5;
		bench_open(bench);
		bench_map(bench, "first", "1", &first);
		bench_map(bench, "second", "2", &second);
		assert_int_equal(bench_identify(bench, &first, &build), FP_NAMES_NONE);
		assert_int_equal(bench_stats(bench).timeouts, 1);
		assert_int_equal(bench->names->hung_places.count, 0);
		fp_names_set_options(bench->names, &(struct fp_names_options){ .jit = true });
		assert_int_equal(bench_identify(bench, &second, &build), FP_NAMES_KNOWN);
		assert_int_equal(bench_stats(bench).denied, 0);
		bench_unmap(&first);
		bench_unmap(&second);
		fp_names_freep(&bench->names);
	}
}

static void settling_waits_no_longer_than_its_budget(void **state)
{
	struct bench *bench = *state;
	struct bench_file file;

	bench->first_role = BENCH_SILENT;
	bench->options.request_deadline_ns = 3600 * FP_NS_PER_S;
	bench_open(bench);
	bench_map(bench, "file", "text", &file);
	assert_int_equal(fp_names_want_identity(bench->names, &file.file), 0);
	assert_int_equal(fp_names_settle(bench->names, FP_NS_PER_S / 10), 1);
	bench_unmap(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_file_is_identified_by_its_hash_also_when_it_has_been_deleted),
		ON_BENCH(a_file_written_anew_is_identified_anew),
		ON_BENCH(a_file_that_cannot_be_had_has_no_identity_until_it_can),
		ON_BENCH(the_queue_of_files_is_bounded_and_says_so),
		ON_BENCH(what_is_remembered_of_files_is_bounded),
		ON_BENCH(no_child_can_make_the_client_wait_or_believe),
		ON_BENCH(a_device_on_which_somebody_hung_is_left_alone_for_a_while),
		ON_BENCH(who_hangs_nowhere_blames_this_file_alone),
		ON_BENCH(settling_waits_no_longer_than_its_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
