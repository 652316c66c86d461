// SPDX-License-Identifier: Apache-2.0
// The client and unwind tables: of this very program, of the vDSO, and of what is neither.
#include "names_bench.h"

#include "agent/resolve_vdso.h"
#include "agent/unwindtable.h"
#include "agent/vdsofile.h"
#include "common/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct table {
	bool done;
	int error;
	struct fp_buf bytes;
};

static void take_table(const struct fp_build *build, int error, const struct fp_buf *bytes,
		       void *context)
{
	struct table *table = context;

	table->done = true;
	table->error = error;
	if (bytes)
		fp_buf_append(&table->bytes, bytes->data, bytes->len);
}

static struct fp_names_unwind_wish wish_of(const struct fp_names_file *file,
					   const struct fp_build *build, struct table *table)
{
	return (struct fp_names_unwind_wish){ .file = *file,
					      .build = *build,
					      .root_only = true,
					      .done = take_table,
					      .context = table };
}

static void fulfil(struct bench *bench, const struct fp_names_unwind_wish *wish)
{
	struct table *table = wish->context;

	assert_int_equal(fp_names_unwind(bench->names, wish), 0);
	assert_int_equal(fp_names_unwind(bench->names, wish), -EBUSY);
	while (!table->done)
		fp_names_settle(bench->names, FP_NS_PER_MS);
}

static void ask(struct bench *bench, const struct fp_names_file *file, const struct fp_build *build,
		struct table *table)
{
	struct fp_names_unwind_wish wish = wish_of(file, build, table);

	fulfil(bench, &wish);
}

static const struct fp_unwind_rule *rule_at(const struct table *table, uint64_t offset)
{
	struct fp_unwind_view view;

	assert_int_equal(table->error, 0);
	assert_int_equal(fp_unwind_table_check(table->bytes.data, table->bytes.len, &view), 0);
	return fp_unwind_view_find(&view, (uint32_t)offset);
}

// Where a function begins the return address lies at rsp.
static void assert_begins_a_function(const struct table *table, uint64_t offset)
{
	const struct fp_unwind_rule *rule = rule_at(table, offset);

	assert_int_equal(rule->cfa, FP_UNWIND_RSP);
	assert_int_equal(rule->offset, 8);
	assert_int_equal(rule->return_reg, FP_UNWIND_RETURN_AT_CFA);
	assert_int_equal(rule->saved, 0);
}

static void the_table_of_a_program_covers_its_functions(void **state)
{
	struct bench *bench = *state;
	struct bench_file program;
	struct fp_build build = { 0 };
	struct table table = { 0 }, other = { 0 }, gone = { 0 };
	uint64_t offset;

	bench_open(bench);
	bench_own_program(&program);
	offset = (uint64_t)(uintptr_t)the_table_of_a_program_covers_its_functions -
		 program.file.start + program.offset;
	assert_int_equal(bench_identify(bench, &program, &build), FP_NAMES_KNOWN);
	ask(bench, &program.file, &build, &table);
	assert_begins_a_function(&table, offset);
	assert_int_equal(bench_stats(bench).unwinds_made, 1);
	assert_int_equal(bench_stats(bench).unwind_bytes, table.bytes.len);
	build.id[0] ^= 1;
	ask(bench, &program.file, &build, &other);
	assert_int_equal(other.error, -ENOENT);
	program.file.tgid = 0x7ffffff0;
	program.file.name = "/nowhere";
	ask(bench, &program.file, &build, &gone);
	assert_int_equal(gone.error, -ENOENT);
	assert_int_equal(bench_stats(bench).unwinds_made, 1);
	fp_buf_free(&table.bytes);
}

static void the_vdso_has_a_table(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { .kind = FP_BUILD_GNU };
	struct fp_names_file file;
	struct fp_unwind_view view;
	struct table table = { 0 };
	size_t size;
	const uint8_t *id = fp_vdso_build_id(&size);

	if (!id || fp_vdso_file(&file) < 0)
		skip();
	build.id_len = (uint8_t)size;
	memcpy(build.id, id, size);
	bench_open(bench);
	ask(bench, &file, &build, &table);
	assert_int_equal(table.error, 0);
	assert_int_equal(fp_unwind_table_check(table.bytes.data, table.bytes.len, &view), 0);
	assert_true(view.head->entries >= 3); // clock_gettime, gettimeofday, time, getcpu …
	assert_begins_a_function(&table, view.offsets[0]);
	fp_buf_free(&table.bytes);
}

static void a_file_that_others_may_write_is_read_only_when_that_is_asked_for(void **state)
{
	struct bench *bench = *state;
	struct bench_file file;
	const struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20 };
	struct table strict = { 0 }, lax = { 0 };
	struct fp_names_unwind_wish wish;

	bench_open(bench);
	bench_map(bench, "file", "of another process", &file);
	assert_int_equal(chmod(file.path, 0666), 0);
	file.file.tgid = 0x7ffffff0; // so by its name
	ask(bench, &file.file, &build, &strict);
	assert_int_equal(strict.error, -EPERM);
	wish = wish_of(&file.file, &build, &lax);
	wish.root_only = false;
	fulfil(bench, &wish);
	assert_int_equal(lax.error, -ENOENT); // read, and no such build
	bench_unmap(&file);
}

static void a_symbol_table_can_be_asked_for_beside_it(void **state)
{
	struct bench *bench = *state;
	struct bench_file program;
	struct fp_build build = { 0 };
	struct table unwind = { 0 }, symbols = { 0 };
	struct fp_names_unwind_wish wish;

	bench_open(bench);
	bench_own_program(&program);
	assert_int_equal(bench_identify(bench, &program, &build), FP_NAMES_KNOWN);
	wish = wish_of(&program.file, &build, &unwind);
	assert_int_equal(fp_names_table(bench->names, &program.file, &build, take_table, &symbols),
			 0);
	assert_int_equal(fp_names_unwind(bench->names, &wish), 0);
	while (!unwind.done || !symbols.done)
		fp_names_settle(bench->names, FP_NS_PER_MS);
	assert_int_equal(unwind.error, 0);
	assert_int_equal(symbols.error, 0);
	assert_int_equal(bench_stats(bench).tables_made, 1);
	assert_int_equal(bench_stats(bench).unwinds_made, 1);
	assert_memory_equal(unwind.bytes.data, "LFPUNW1", 7);
	assert_memory_not_equal(symbols.bytes.data, "LFPUNW1", 7);
	fp_buf_free(&unwind.bytes);
	fp_buf_free(&symbols.bytes);
}

static void a_role_that_writes_no_table_is_killed(void **state)
{
	struct bench *bench = *state;
	struct bench_file program;
	const struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20 };
	struct table table = { 0 };

	bench->first_role = BENCH_WRONG; // says that it has written one
	bench_open(bench);
	bench_own_program(&program);
	ask(bench, &program.file, &build, &table);
	assert_int_equal(table.error, -EOWNERDEAD);
	assert_int_equal(bench_stats(bench).unwinds_made, 0);
	bench_settle(bench);
	while (bench_stats(bench).role_starts < 2)
		fp_names_settle(bench->names, FP_NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(the_table_of_a_program_covers_its_functions),
		ON_BENCH(the_vdso_has_a_table),
		ON_BENCH(a_file_that_others_may_write_is_read_only_when_that_is_asked_for),
		ON_BENCH(a_symbol_table_can_be_asked_for_beside_it),
		ON_BENCH(a_role_that_writes_no_table_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
