// SPDX-License-Identifier: Apache-2.0
//
// Files as the kernel knows them: whose table each has is learnt from a process that has it mapped,
// here from this one. What the BPF programs would note is put into their map by hand.
#include "names_bench.h"

#include "agent/procfs.h"
#include "agent/unwind.h"
#include "common/clock.h"
#include "tests/bpf/kernelspace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_S	    3600
#define PATIENCE_NS (60 * FP_NS_PER_S)

static struct bench *bench;
static struct fp_unwind *unwind;
static struct fp_process_table *processes;
static struct fp_unwind_source source;
static const struct fp_unwind_maps *maps;
static struct kernel_space_place own; // where this function's code lies

static int up(void **state)
{
	bench_up(state);
	bench = *state;
	bench_open(bench);
	assert_int_equal(fp_unwind_open(bench->names, 0, &unwind), 0);
	assert_int_equal(fp_process_table_new(NULL, &processes), 0);
	assert_int_equal(fp_process_table_preload(processes, (uint32_t)getpid()), 0);
	source = (struct fp_unwind_source){ .unwind = unwind, .processes = processes };
	maps = fp_unwind_maps(unwind);
	assert_true(kernel_space_place((uint32_t)getpid(), (uintptr_t)up, &own));
	return 0;
}

static int down(void **state)
{
	fp_unwind_source_end(&source);
	fp_unwind_free(unwind);
	fp_process_table_free(processes);
	return bench_down(state);
}

static struct fp_unwind_file_key key_of(uint64_t inode, int64_t age_s)
{
	uint64_t now_s = fp_realtime_ns() / FP_NS_PER_S;

	return (struct fp_unwind_file_key){ .inode = inode,
					    .changed = (now_s - (uint64_t)age_s) << 30 };
}

static struct fp_unwind_met met_here(void)
{
	uint64_t tick_ns = FP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	int dirfd FP_AUTOCLOSE = fp_procfs_open((uint32_t)getpid());
	struct fp_procfs_stat stat;
	struct fp_unwind_met met = { .time_ns = fp_procfs_monotonic_ns(),
				     .address = (uintptr_t)up,
				     .offset = (uintptr_t)up - own.start + own.offset,
				     .tgid = (uint32_t)getpid() };

	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	met.start_boottime_ns = stat.start_ticks * tick_ns + tick_ns / 2;
	met.start_ns = met.start_boottime_ns - (fp_boottime_ns() - fp_monotonic_ns());
	return met;
}

static void note(const struct fp_unwind_file_key *key, const struct fp_unwind_met *met)
{
	assert_int_equal(bpf_map_update_elem(maps->met, key, met, BPF_NOEXIST), 0);
}

static bool is_met(const struct fp_unwind_file_key *key)
{
	struct fp_unwind_met met;

	return bpf_map_lookup_elem(maps->met, key, &met) == 0;
}

static bool is_known(const struct fp_unwind_file_key *key, struct fp_unwind_file *ret)
{
	return bpf_map_lookup_elem(maps->files, key, ret) == 0;
}

static void turn(void)
{
	fp_unwind_turn(&source, fp_procfs_monotonic_ns());
	fp_names_settle(bench->names, FP_NS_PER_MS);
}

static void load_own_tables(void)
{
	uint64_t until_ns = fp_monotonic_ns() + PATIENCE_NS;
	struct fp_unwind_stats stats;

	do {
		fp_unwind_preload(&source, (uint32_t)getpid()); // once all identities are known
		turn();
		assert_true(fp_monotonic_ns() < until_ns);
		fp_unwind_stats(unwind, &stats);
	} while (fp_names_settle(bench->names, FP_NS_PER_MS) || fp_unwind_preloading(&source) ||
		 stats.tables < 3); // this program's, and those of libraries
}

static void learn(const struct fp_unwind_file_key *key)
{
	const struct fp_unwind_met met = met_here();

	note(key, &met);
	turn();
	assert_false(is_met(key));
}

static void a_file_has_the_table_of_who_has_it_mapped(void **state)
{
	const struct fp_unwind_file_key key = key_of(1, HOUR_S);
	const struct fp_unwind_met met = met_here();
	struct fp_unwind_file file;

	load_own_tables();
	learn(&key);
	assert_true(is_known(&key, &file));
	assert_int_not_equal(file.tag, 0);
	assert_true(met.offset - file.offset < file.size);
	assert_int_equal(file.size % (1 << FP_UNWIND_PAGE_BITS), 0);
	assert_int_equal(file.at % (1 << FP_UNWIND_PAGE_BITS), 0);
}

static void and_it_has_it_once_the_table_is_there(void **state)
{
	const struct fp_unwind_file_key key = key_of(1, HOUR_S);
	uint64_t until_ns = fp_monotonic_ns() + PATIENCE_NS;
	struct fp_unwind_file file;

	// Its identity may be still to come: then it is not known for a second.
	while (learn(&key), !is_known(&key, &file))
		assert_true(fp_monotonic_ns() < until_ns);
	assert_int_equal(file.tag, 0);
	load_own_tables();
	for (; is_known(&key, &file) && !file.tag; usleep(1000)) {
		turn();
		assert_true(fp_monotonic_ns() < until_ns);
	}
	if (!is_known(&key, &file))
		learn(&key);
	assert_true(is_known(&key, &file));
	assert_int_not_equal(file.tag, 0);
	fp_unwind_empty(unwind);
	assert_false(is_known(&key, &file));
}

// Of which no table is known, and which may be met again in a moment.
static void check_nameless(const struct fp_unwind_file_key *key)
{
	uint64_t until_ns = fp_monotonic_ns() + PATIENCE_NS;
	struct fp_unwind_file file;

	assert_true(is_known(key, &file));
	assert_int_equal(file.tag, 0);
	while (is_known(key, &file)) {
		turn();
		assert_true(fp_monotonic_ns() < until_ns);
	}
}

static void not_a_file_that_changed_since_the_program_began(void **state)
{
	const struct fp_unwind_file_key key = key_of(2, 0), future = key_of(3, -HOUR_S);

	load_own_tables();
	learn(&key);
	check_nameless(&key);
	learn(&future);
	check_nameless(&future);
}

static void not_what_lies_elsewhere_in_the_file(void **state)
{
	const struct fp_unwind_file_key key = key_of(4, HOUR_S);
	struct fp_unwind_met met = met_here();

	load_own_tables();
	met.offset += 4096;
	note(&key, &met);
	turn();
	check_nameless(&key);
}

static void not_of_a_program_that_nobody_knows(void **state)
{
	const struct fp_unwind_file_key key = key_of(5, HOUR_S);
	struct fp_unwind_met met = met_here();

	load_own_tables();
	met.start_boottime_ns -= FP_NS_PER_S;
	met.start_ns -= FP_NS_PER_S;
	note(&key, &met);
	turn();
	check_nameless(&key);
}

static void not_before_it_is_sure_what_was_mapped(void **state)
{
	const struct fp_unwind_file_key key = key_of(6, HOUR_S);
	const struct fp_unwind_met met = met_here();
	struct fp_unwind_file file;

	load_own_tables();
	note(&key, &met);
	fp_unwind_turn(&source, met.time_ns - 1);
	assert_true(is_met(&key));
	assert_false(is_known(&key, &file));
	fp_unwind_turn(&source, met.time_ns);
	assert_false(is_met(&key));
	assert_true(is_known(&key, &file));
	assert_int_not_equal(file.tag, 0);
}

static void those_met_longest_ago_make_room(void **state)
{
	struct fp_unwind_file_key key = key_of(0, HOUR_S);
	struct fp_unwind_file file;

	load_own_tables();
	for (uint32_t i = 0; i < FP_UNWIND_FILES + 10; i++) {
		key.inode = 1000 + i;
		learn(&key);
		assert_true(is_known(&key, &file));
		assert_int_not_equal(file.tag, 0);
	}
	for (uint32_t i = 0; i < FP_UNWIND_FILES + 10; i++) {
		key.inode = 1000 + i;
		assert_int_equal(is_known(&key, &file), i >= 10);
	}
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_file_has_the_table_of_who_has_it_mapped),
		CASE(and_it_has_it_once_the_table_is_there),
		CASE(not_a_file_that_changed_since_the_program_began),
		CASE(not_what_lies_elsewhere_in_the_file),
		CASE(not_of_a_program_that_nobody_knows),
		CASE(not_before_it_is_sure_what_was_mapped),
		CASE(those_met_longest_ago_make_room),
	};

	need_root_and_btf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
