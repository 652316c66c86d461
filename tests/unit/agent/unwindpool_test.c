// SPDX-License-Identifier: Apache-2.0
//
// The space of unwind tables against the tables themselves: whatever else has come and gone, what
// a program finds at an offset is what the table there says.
#include "unwindpool_made.h"

static const struct fp_unwind_rule few_rules[] = {
	{ 0 },
	{ .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = FP_UNWIND_RETURN_AT_CFA },
	{ .cfa = FP_UNWIND_RBP, .offset = 16, .return_reg = FP_UNWIND_RETURN_AT_CFA },
	{ .cfa = FP_UNWIND_END },
};

static struct made make(const struct unwind_row *rows, uint32_t count, uint32_t table_end)
{
	struct made made = { 0 };

	made.bytes = unwind_table(rows, count, table_end, few_rules, 4, &made.size);
	return made;
}

static void test_rows_and_gaps(void **state)
{
	static const struct unwind_row rows[] = {
		{ 0x28010, 1 }, { 0x28020, 2 }, { 0x28030, 0 }, { 0x2fff0, 1 },
		{ 0x30000, 3 }, { 0x50004, 2 }, { 0x50005, 1 },
	};
	struct made made = make(rows, 7, 0x50020);

	assert_int_equal(add(&made), 0);
	assert_int_equal(made.place.file_page, 2);
	assert_int_equal(made.place.pages, 4);
	assert_int_not_equal(made.place.tag, 0);
	check_all(&made);
	check_at(&made, 0x20000); // before the first row
	check_at(&made, 0x3abcd); // the rest of a page whose row came from the one before
	check_at(&made, 0x4ffff);
	check_at(&made, 0x50020);
	take_out(&made);
	fp_unwind_pool_grace(pool);
	forget(&made);
}

static void test_page_without_rows(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 }, { 0x20, 0 }, { 0x30000, 2 } };
	struct made made = make(rows, 3, 0x30008);

	assert_int_equal(add(&made), 0);
	assert_int_not_equal(bench.memory.pages[made.place.page], 0);
	assert_int_equal(bench.memory.pages[made.place.page + 1], 0);
	assert_int_equal(bench.memory.pages[made.place.page + 2], 0);
	check_all(&made);
	forget(&made);
}

static void test_ends_with_a_page(void **state)
{
	static const struct unwind_row rows[] = { { 0, 1 } };
	struct made made = make(rows, 1, PAGE);

	assert_int_equal(add(&made), 0);
	assert_int_equal(made.place.pages, 1);
	check_all(&made);
	forget(&made);
}

static void test_nothing_covered(void **state)
{
	struct made made = make(NULL, 0, 0x1000);

	assert_int_equal(add(&made), -ENODATA);
	assert_int_equal(stats_now().tables, 0);
	forget(&made);
}

static void test_malformed(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 } };
	struct made made = make(rows, 1, 0x20);

	((struct fp_unwind_table *)made.bytes)->rows = 7;
	assert_int_equal(add(&made), -EBADMSG);
	forget(&made);
}

static void test_spans_too_much(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 }, { 0xf0000000, 2 } };
	struct made made = make(rows, 2, 0xf0000010);

	assert_int_equal(add(&made), -EFBIG);
	forget(&made);
}

// A removed table is gone at once, but nothing that it used is anybody else's before the grace.
static void test_waits_for_grace(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 }, { 0x20, 2 } };
	struct made one = make(rows, 2, 0x30), other = make(rows, 2, 0x30);
	struct fp_unwind_place before;
	fp_u64 word;

	assert_int_equal(add(&one), 0);
	before = one.place;
	word = bench.memory.pages[before.page];
	take_out(&one);
	assert_int_equal(one.place.tag, 0);
	assert_int_equal(bench.memory.pages[before.page], 0);
	assert_true(fp_unwind_pool_waits(pool));
	assert_int_equal(add(&other), 0);
	assert_int_not_equal(other.place.tag, before.tag);
	assert_int_not_equal(other.place.page, before.page);
	assert_int_not_equal(bench.memory.pages[other.place.page] >> 16 & 0xffff,
			     word >> 16 & 0xffff);
	check_all(&other);
	fp_unwind_pool_grace(pool);
	assert_false(fp_unwind_pool_waits(pool));
	check_all(&other);
	assert_int_equal(stats_now().chunks, 1);
	take_out(&other);
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().chunks, 0); // given back when empty
	assert_int_equal(stats_now().rules, FP_UNWIND_RULES_FIXED);
	assert_int_equal(stats_now().rows, 0);
	forget(&one);
	forget(&other);
}

// Two tables with the same rules have them once.
static void test_shared_rules(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 }, { 0x20, 2 } };
	struct made one = make(rows, 2, 0x30), other = make(rows, 2, 0x30);
	uint32_t rules;

	assert_int_equal(add(&one), 0);
	rules = stats_now().rules;
	assert_int_equal(add(&other), 0);
	assert_int_equal(stats_now().rules, rules);
	take_out(&one);
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().rules, rules);
	check_all(&other);
	forget(&one);
	forget(&other);
}

static void test_more_rows_than_fit(void **state)
{
	struct made made = { 0 };
	struct fp_unwind_rule found;

	made.bytes = many_rows(20000, 1, 2, 1, &made.size);
	assert_int_equal(add(&made), 0);
	assert_true(unwind_bench_find(&bench, &made.place, 77, &found));
	assert_int_equal(found.cfa, FP_UNWIND_CANNOT);
	assert_int_equal(found.add, FP_UNWIND_CANNOT_ROWS_FULL);
	forget(&made);
	made.bytes = many_rows(FP_UNWIND_CHUNK_ROWS - 1, 1, 2, 1, &made.size);
	assert_int_equal(add(&made), 0);
	check_all(&made);
	forget(&made);
}

// Beyond the space for rules, code says why it cannot be unwound; what was there is unharmed.
static void test_rules_full(void **state)
{
	struct made one = { 0 }, other = { 0 };
	struct fp_unwind_rule found;

	one.bytes = many_rows(30000, 16, 30000, 1, &one.size);
	other.bytes = many_rows(30000, 16, 30000, 40000, &other.size);
	assert_int_equal(add(&one), 0);
	assert_int_equal(add(&other), 0);
	check_all(&one);
	check_at(&other, 0);
	assert_true(unwind_bench_find(&bench, &other.place, 29999 * 16, &found));
	assert_int_equal(found.cfa, FP_UNWIND_CANNOT);
	assert_int_equal(found.add, FP_UNWIND_CANNOT_RULES_FULL);
	assert_int_equal(stats_now().rules, FP_UNWIND_RULES);
	take_out(&one);
	take_out(&other);
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().rules, FP_UNWIND_RULES_FIXED);
	forget(&one);
	forget(&other);
}

// Chunks up to the bound, and nothing is left of what did not fit.
static void test_no_room(void **state)
{
	struct made one = { 0 }, other = { 0 };
	struct fp_unwind_pool_stats before, after;

	one.bytes = many_rows(5 * 16000, 4, 2, 1, &one.size);
	other.bytes = many_rows(5 * 16000, 4, 3, 7, &other.size);
	assert_int_equal(add(&one), 0);
	before = stats_now();
	assert_int_equal(add(&other), -ENOSPC);
	after = stats_now();
	assert_int_equal(before.tables, after.tables);
	assert_int_equal(before.pages, after.pages);
	assert_int_equal(before.chunks, after.chunks);
	assert_int_equal(before.blocks, after.blocks);
	assert_int_equal(before.rules, after.rules);
	assert_int_equal(before.rows, after.rows);
	check_all(&one);
	take_out(&one);
	assert_int_equal(add(&other), -ENOSPC); // not before the grace
	fp_unwind_pool_grace(pool);
	assert_int_equal(add(&other), 0);
	check_all(&other);
	forget(&one);
	forget(&other);
}

static void test_never_fits(void **state)
{
	struct made made = { 0 };

	made.bytes = many_rows(CHUNKS * FP_UNWIND_CHUNK_ROWS, 4, 2, 1, &made.size);
	assert_int_equal(add(&made), -EFBIG);
	forget(&made);
}

static void test_no_memory(void **state)
{
	static const struct unwind_row rows[] = { { 0x10, 1 } };
	struct made made = make(rows, 1, 0x20);

	bench.no_memory = true;
	assert_int_equal(add(&made), -ENOMEM);
	bench.no_memory = false;
	assert_int_equal(add(&made), 0);
	check_all(&made);
	forget(&made);
}

static struct made random_table(void)
{
	uint32_t count = 1 + random_below(random_below(4) ? 400 : 12000);
	uint32_t offset = random_below(1 << 20);
	struct unwind_row *rows = calloc(count, sizeof(*rows));
	struct fp_unwind_rule rules[40] = { 0 };
	struct made made = { 0 };

	for (uint32_t i = 1; i < 40; i++)
		rules[i] = unwind_rule((int32_t)random_below(300) * 8 + 8);
	for (uint32_t i = 0; i < count; i++) {
		rows[i] = (struct unwind_row){ offset, (uint16_t)random_below(40) };
		offset += 1 + random_below(random_below(50) ? 40 : 90000);
	}
	made.bytes = unwind_table(rows, count, offset, rules, 40, &made.size);
	free(rows);
	return made;
}

#define TABLES 24u

// Tables come and go; at every step all that are there are found whole.
static void test_coming_and_going(void **state)
{
	struct made made[TABLES] = { 0 };
	uint32_t refused = 0;

	fp_unwind_pool_set_chunks(pool, 3);
	for (uint32_t step = 0; step < 400; step++) {
		struct made *one = &made[random_below(TABLES)];

		if (one->bytes) {
			take_out(one);
			forget(one);
		} else {
			*one = random_table();
			if (add(one) < 0) {
				refused++;
				forget(one);
			}
		}
		if (random_below(5) == 0)
			fp_unwind_pool_grace(pool);
		if (step % 20 == 0)
			for (uint32_t i = 0; i < TABLES; i++)
				if (made[i].bytes)
					check_all(&made[i]);
	}
	assert_in_range(refused, 1, 100); // the bound was met
	for (uint32_t i = 0; i < TABLES; i++) {
		if (made[i].bytes)
			take_out(&made[i]);
		forget(&made[i]);
	}
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().chunks, 0);
	assert_int_equal(stats_now().pages, 0);
	assert_int_equal(stats_now().blocks, 0);
	assert_int_equal(stats_now().rules, FP_UNWIND_RULES_FIXED);
}

int main(void)
{
#define POOL_CASE(sentence, function)                                                              \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}
	const struct CMUnitTest cases[] = {
		POOL_CASE("a table is found row by row, with its gaps", test_rows_and_gaps),
		POOL_CASE("a page that no row covers has no rows", test_page_without_rows),
		POOL_CASE("a table that ends with a page takes no page more",
			  test_ends_with_a_page),
		POOL_CASE("a table that covers nothing is refused", test_nothing_covered),
		POOL_CASE("a malformed table is refused", test_malformed),
		POOL_CASE("a table over more than a quarter of the space is refused",
			  test_spans_too_much),
		POOL_CASE("nothing is used again before the grace period", test_waits_for_grace),
		POOL_CASE("rules are shared and counted", test_shared_rules),
		POOL_CASE("a page with more rows than a chunk says so", test_more_rows_than_fit),
		POOL_CASE("beyond the space for rules rows say so", test_rules_full),
		POOL_CASE("beyond the bound nothing is entered", test_no_room),
		POOL_CASE("what can never fit is told apart", test_never_fits),
		POOL_CASE("without memory nothing is entered", test_no_memory),
		POOL_CASE("tables come and go", test_coming_and_going),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
