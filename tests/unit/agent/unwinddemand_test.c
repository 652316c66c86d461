// SPDX-License-Identifier: Apache-2.0
//
// Who gets a table next, who has to go, and what failed is tried again when.
#include "unwindload_bench.h"

#include "agent/unwinddemand.h"
#include "common/clock.h"

#define S FP_NS_PER_S

static struct fp_unwind_demand *demand;
static uint64_t now_ns, stacks;
static uint32_t victims[FP_UNWIND_VICTIMS_MAX];

static int begin(void **state)
{
	now_ns = 1000 * S;
	stacks = 0;
	return fp_unwind_demand_new(&demand);
}

static int end(void **state)
{
	fp_unwind_demand_freep(&demand);
	return 0;
}

static struct fp_unwind_key key_of(uint32_t number)
{
	struct fp_unwind_key key = { .kind = FP_BUILD_GNU, .id_len = 20 };

	memcpy(key.id, &number, sizeof(number));
	return key;
}

static uint32_t take(uint32_t number)
{
	struct fp_unwind_key key = key_of(number);
	uint32_t build;

	assert_int_equal(fp_unwind_demand_take(demand, &key, &build), 0);
	return build;
}

static void map(uint32_t build)
{
	const struct fp_names_file file = { .tgid = 7, .start = 1, .end = 2, .name = "/lib/x" };

	assert_int_equal(fp_unwind_demand_place(demand, build, &file), 0);
}

static void see(uint32_t build, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		fp_unwind_demand_note(demand, build, ++stacks, now_ns);
}

// A build that is mapped and met.
static uint32_t met(uint32_t number, uint32_t times)
{
	uint32_t build = take(number);

	map(build);
	see(build, times);
	return build;
}

static uint32_t next(uint64_t free_blocks)
{
	return fp_unwind_demand_next(demand, free_blocks, now_ns);
}

static void load(uint32_t build, uint32_t blocks)
{
	const struct fp_unwind_place place = { .tag = 1, .pages = 1, .blocks = blocks };

	fp_unwind_demand_asked(demand, build);
	fp_unwind_demand_loaded(demand, build, &place, now_ns);
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	fp_unwind_demand_cool(demand, now_ns);
}

static struct fp_unwind_build *at(uint32_t build)
{
	return fp_unwind_demand_at(demand, build);
}

static uint32_t find_victims(uint64_t free_blocks, uint64_t excess)
{
	return fp_unwind_demand_victims(demand, free_blocks, excess, now_ns, victims);
}

static void test_order(void **state)
{
	uint32_t hot = met(1, 50), stopped = met(2, 3), cool = met(3, 2), unseen = take(4);
	uint32_t ahead = take(5);

	map(unseen);
	fp_unwind_demand_stopped(demand, stopped);
	assert_int_equal(next(100), stopped);
	load(stopped, 1);
	assert_int_equal(next(100), hot);
	load(hot, 1);
	assert_int_equal(next(100), cool);
	map(ahead);
	at(ahead)->preload = true;
	assert_int_equal(next(100), ahead);
	load(ahead, 1);
	assert_int_equal(next(0), FP_UNWIND_NONE); // not without room
	load(cool, 1);
	assert_int_equal(next(100), FP_UNWIND_NONE); // nobody met the last one
}

static void test_once_a_stack(void **state)
{
	uint32_t build = take(1);

	for (int i = 0; i < 10; i++)
		fp_unwind_demand_note(demand, build, 1, now_ns);
	assert_true(at(build)->heat == 1);
	fp_unwind_demand_note(demand, build, 2, now_ns);
	assert_true(at(build)->heat == 2);
}

static void test_one_at_a_time(void **state)
{
	uint32_t build = met(1, 1);

	assert_int_equal(next(1), build);
	fp_unwind_demand_asked(demand, build);
	assert_int_equal(next(1), FP_UNWIND_NONE);
}

static void test_cools(void **state)
{
	uint32_t build = met(1, 64);

	fp_unwind_demand_cool(demand, now_ns);
	pass(60 * S);
	assert_true(at(build)->heat > 31.9 && at(build)->heat < 32.1);
	pass(30 * S);
	pass(30 * S);
	assert_true(at(build)->heat > 15.9 && at(build)->heat < 16.1);
}

static void test_file_that_is_gone(void **state)
{
	uint32_t build = met(1, 1);

	for (uint64_t delay = S / 4; delay < 600 * S; delay *= 2) {
		fp_unwind_demand_asked(demand, build);
		fp_unwind_demand_failed(demand, build, -ENOENT, 0, now_ns);
		assert_int_equal(at(build)->lack, FP_STOP_NO_FILE);
		now_ns += delay;
		assert_int_equal(next(9), FP_UNWIND_NONE); // not before it is mapped again
		map(build);
		now_ns--;
		assert_int_equal(next(9), FP_UNWIND_NONE);
		now_ns++;
		assert_int_equal(next(9), build);
	}
	load(build, 1);
	assert_int_equal(at(build)->failures, 0);
}

// It may have been the host, or the kernel that killed the child for want of memory.
static void test_child_that_hung_or_died(void **state)
{
	static const int errors[] = { -ETIMEDOUT, -EOWNERDEAD };

	for (uint32_t i = 0; i < FP_ARRAY_SIZE(errors); i++) {
		uint32_t build = met(10 + i, 1);

		fp_unwind_demand_asked(demand, build);
		fp_unwind_demand_failed(demand, build, errors[i], 0, now_ns);
		map(build);
		now_ns += 30 * S - 1;
		assert_int_equal(next(9), FP_UNWIND_NONE);
		now_ns++;
		assert_int_equal(next(9), build);
		load(build, 1);
	}
}

static const struct {
	int error;
	enum fp_stop lack;
} lasting[] = {
	{ -ENODATA, FP_STOP_NO_ENTRIES },
	{ -EBADMSG, FP_STOP_MALFORMED },
	{ -EFBIG, FP_STOP_TOO_LARGE },
	{ -ENOTSUP, FP_STOP_MACHINE },
};

static void test_what_cannot_change(void **state)
{
	for (uint32_t i = 0; i < FP_ARRAY_SIZE(lasting); i++) {
		uint32_t build = met(10 + i, 1);

		fp_unwind_demand_asked(demand, build);
		fp_unwind_demand_failed(demand, build, lasting[i].error, 0, now_ns);
		map(build);
		assert_int_equal(at(build)->lack, lasting[i].lack);
		now_ns += 3599 * S;
		assert_int_equal(next(9), FP_UNWIND_NONE);
		now_ns += S;
		assert_int_equal(next(9), build);
		load(build, 1);
	}
}

// With room, none has to go, however cold.
static void test_nobody_goes_without_need(void **state)
{
	uint32_t build = met(1, 1);

	load(build, 10);
	pass(100000 * S);
	assert_int_equal(find_victims(0, 0), 0);
	met(2, 1);
	assert_int_equal(find_victims(5, 0), 0);
}

// A table found no room: that many blocks.
static uint32_t wanting(uint32_t number, uint32_t times, uint32_t blocks)
{
	uint32_t build = met(number, times);

	fp_unwind_demand_asked(demand, build);
	fp_unwind_demand_failed(demand, build, -ENOSPC, blocks, now_ns);
	return build;
}

static void test_longest_unseen_goes_first(void **state)
{
	uint32_t old = met(1, 100), older = met(2, 100), young = met(3, 100), who;

	load(old, 10);
	load(older, 10);
	load(young, 10);
	pass(5 * S);
	see(old, 1);
	pass(61 * S);
	see(young, 1);
	who = wanting(4, 1, 12);
	assert_int_equal(next(4), FP_UNWIND_NONE); // not asked again as long as it does not fit
	assert_int_equal(find_victims(4, 0), 1);
	assert_int_equal(victims[0], older);
	assert_int_equal(find_victims(0, 0), 2);
	assert_int_equal(victims[0], older);
	assert_int_equal(victims[1], old);
	assert_int_equal(next(12), who);
}

static void test_no_use_in_too_few(void **state)
{
	uint32_t cold = met(1, 1), who;

	load(cold, 10);
	pass(61 * S);
	who = wanting(2, 1000, 11);
	assert_int_equal(find_victims(0, 0), 0);
	assert_int_equal(at(who)->lack, FP_STOP_NO_ROOM);
	assert_int_equal(next(50), FP_UNWIND_NONE); // it waits a minute before it looks again
	now_ns += 60 * S;
	assert_int_equal(next(50), who);
}

// Sets of builds that alternate: the one that is there stays, unless the other is far hotter.
static void test_hysteresis(void **state)
{
	uint32_t here = met(1, 100), who;

	load(here, 10);
	pass(61 * S);
	see(here, 100);
	who = wanting(2, 150, 10);
	assert_int_equal(find_victims(0, 0), 0);
	pass(61 * S);
	see(here, 100);
	see(who, 1000);
	assert_int_equal(find_victims(0, 0), 1);
	assert_int_equal(victims[0], here);
}

static void test_is_left_alone_at_first(void **state)
{
	uint32_t here = met(1, 1), who;

	load(here, 10);
	who = wanting(2, 1000, 10);
	pass(59 * S);
	see(here, 1);
	assert_int_equal(find_victims(0, 0), 0);
	pass(60 * S);
	see(here, 1);
	see(who, 1000);
	assert_int_equal(find_victims(0, 0), 1);
}

// Evicted, it drives the other out only if it is sixteen times as hot, for five minutes.
static void test_evicted_is_held(void **state)
{
	uint32_t first = met(1, 10), second;
	struct fp_unwind_place place;

	load(first, 10);
	pass(61 * S);
	second = wanting(2, 10, 10);
	assert_int_equal(find_victims(0, 0), 1);
	fp_unwind_demand_evicted(demand, first, now_ns, &place);
	assert_int_equal(place.blocks, 10);
	assert_int_equal(at(first)->lack, FP_STOP_NO_ROOM);
	load(second, 10);
	pass(61 * S);
	see(second, 10);
	see(first, 100);
	assert_int_equal(find_victims(0, 0), 0);
	pass(61 * S);
	see(second, 10);
	see(first, 500);
	assert_int_equal(find_victims(0, 0), 1);
	pass(300 * S);
	at(first)->heat = 50;
	at(second)->heat = 10;
	see(second, 1);
	assert_int_equal(find_victims(0, 0), 1); // the hold is over
}

static void test_excess(void **state)
{
	uint32_t cold = met(1, 1), hot;

	load(cold, 10);
	pass(100 * S);
	hot = met(2, 100);
	load(hot, 10);
	assert_int_equal(find_victims(0, 5), 1);
	assert_int_equal(victims[0], cold);
	assert_int_equal(find_victims(0, 15), 2); // all, when it must be
	assert_int_equal(find_victims(0, 500), 2);
}

// Slots come to others when nobody names them any more.
static void test_bounded(void **state)
{
	struct fp_unwind_key key = key_of(1u << 20);
	struct fp_unwind_demand_stats stats;
	uint32_t build, loaded = 0;

	for (uint32_t i = 0; i < FP_UNWIND_BUILDS_MAX; i++) {
		build = take(i);
		at(build)->seen_ns = i + 1;
	}
	assert_int_equal(fp_unwind_demand_take(demand, &key, &build), -ENOSPC);
	load(5, 1);
	loaded = 5;
	fp_unwind_demand_give(demand, loaded);
	assert_int_equal(fp_unwind_demand_take(demand, &key, &build), -ENOSPC); // it has its table
	fp_unwind_demand_give(demand, 9);
	fp_unwind_demand_give(demand, 8);
	assert_int_equal(fp_unwind_demand_take(demand, &key, &build), 0);
	assert_int_equal(build, 8);
	assert_int_equal(take(9), 9); // still there
	fp_unwind_demand_give(demand, 9);
	fp_unwind_demand_stats(demand, &stats);
	assert_int_equal(stats.builds, FP_UNWIND_BUILDS_MAX);
	assert_int_equal(stats.loaded, 1);
	assert_in_range(stats.book_bytes, 1, 4 << 20);
}

static void test_found_again(void **state)
{
	uint32_t build = take(1);
	struct fp_unwind_key own = key_of(1);
	uint32_t other;

	assert_int_equal(take(1), build);
	assert_int_equal(at(build)->refs, 2);
	own.inode = 5; // the same identity, claimed by a file that others can write
	assert_int_equal(fp_unwind_demand_take(demand, &own, &other), 0);
	assert_int_not_equal(other, build);
}

int main(void)
{
#define DEMAND_CASE(sentence, function)                                                            \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}
	const struct CMUnitTest cases[] = {
		DEMAND_CASE("those that walks stopped in come first, then the hottest", test_order),
		DEMAND_CASE("a build counts once in a stack", test_once_a_stack),
		DEMAND_CASE("what has been asked for is not asked for again", test_one_at_a_time),
		DEMAND_CASE("heat halves every minute", test_cools),
		DEMAND_CASE("a file that is gone is looked for ever more rarely",
			    test_file_that_is_gone),
		DEMAND_CASE("what a child hung or died over is asked for after 30 s",
			    test_child_that_hung_or_died),
		DEMAND_CASE("what cannot change is left for an hour", test_what_cannot_change),
		DEMAND_CASE("nobody goes when there is no need", test_nobody_goes_without_need),
		DEMAND_CASE("the longest unseen goes first", test_longest_unseen_goes_first),
		DEMAND_CASE("nobody goes when it would not be enough", test_no_use_in_too_few),
		DEMAND_CASE("what is in use goes only for something much hotter", test_hysteresis),
		DEMAND_CASE("a table is left alone at first", test_is_left_alone_at_first),
		DEMAND_CASE("what was evicted is held back", test_evicted_is_held),
		DEMAND_CASE("a lower bound is met at once", test_excess),
		DEMAND_CASE("builds are bounded", test_bounded),
		DEMAND_CASE("a build is found again by its key", test_found_again),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
