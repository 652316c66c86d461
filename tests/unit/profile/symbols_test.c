// SPDX-License-Identifier: Apache-2.0
#include "../scratch.h"
#include "symbolizers.h"

#include "common/file.h"

#include <errno.h>

static void test_hidden_kernel(void **state)
{
	static const char kallsyms[] = "0000000000000000 T _stext\n0000000000000000 t f\n";
	char path[256];
	FP_AUTOCLOSE int directory = fp_dir_open(scratch_directory(), 0755);
	struct fp_symbolizer_options options = { .kallsyms_path = path };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;
	struct fp_build none = { 0 };

	snprintf(path, sizeof(path), "%s/hidden", scratch_directory());
	assert_int_equal(
	    fp_file_write_durable(directory, "hidden", kallsyms, sizeof(kallsyms) - 1, 0644), 0);
	symbolizer = symbolizer_of(&options);
	assert_int_equal(fp_symbolizer_status(symbolizer, &none, "[kernel]", FP_FRAME_KERNEL),
			 FP_SYMBOLS_HIDDEN);
}

static void test_kernel(void **state)
{
	static const char kallsyms[] = "ffffffff81000000 T _text\n"
				       "ffffffff81000000 T _stext\n"
				       "ffffffff81000100 T do_one\n"
				       "ffffffff81000100 t __do_one\n"
				       "ffffffff81000200 t helper\n"
				       "ffffffff81000300 W weak_one\n"
				       "ffffffff81000380 D data_is_not_code\n"
				       "ffffffff81000400 T _etext\n"
				       "ffffffffc0000000 t module_code\t[xfs]\n"
				       "ffffffffc0001000 t bpf_prog_12_x\t[bpf]\n";
	char path[256];
	uint8_t id[20] = { 7 };
	FP_AUTOCLOSE int directory = fp_dir_open(scratch_directory(), 0755);
	struct fp_symbolizer_options options = { .kallsyms_path = path, .kernel_build_id = id };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;
	struct fp_build kernel = { .kind = FP_BUILD_GNU, .id_len = 20, .id = { 7 } };
	struct fp_build other = { .kind = FP_BUILD_GNU, .id_len = 20, .id = { 8 } };
	static const struct {
		uint64_t offset;
		bool is_leaf;
		const char *name;
	} cases[] = {
		{ 0x100, true, "do_one" },   { 0x1ff, true, "do_one" },
		{ 0x200, true, "helper" },   { 0x200, false, "do_one" },
		{ 0x3ff, true, "weak_one" }, { 0x390, true, "weak_one" },
		{ 0x400, true, NULL },	     { 0x400, false, "weak_one" },
		{ 0x3f000000, true, NULL },  { 0, false, NULL },
	};

	snprintf(path, sizeof(path), "%s/kallsyms", scratch_directory());
	assert_int_equal(
	    fp_file_write_durable(directory, "kallsyms", kallsyms, sizeof(kallsyms) - 1, 0644), 0);
	symbolizer = symbolizer_of(&options);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++)
		assert_name(fp_symbolizer_lookup(symbolizer, &kernel, "[kernel]", FP_FRAME_KERNEL,
						 cases[i].offset, cases[i].is_leaf),
			    cases[i].name);
	assert_name(
	    fp_symbolizer_lookup(symbolizer, &other, "[kernel]", FP_FRAME_KERNEL, 0x100, true),
	    NULL);
	assert_int_equal(fp_symbolizer_status(symbolizer, &other, "[kernel]", FP_FRAME_KERNEL),
			 FP_SYMBOLS_NO_FILE);
}

static void test_given_tables(void **state)
{
	static const char text[] = "200 later\n"
				   "0 first\n"
				   "100 _ZN3foo3barEi\n"
				   "zz bad\n"
				   "300\n"
				   "\n"
				   "0x180 prefixed name with blanks\n";
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 4, .id = { 1, 2, 3, 4 } };
	uint64_t bad = 0;
	const char *kept;

	assert_int_equal(fp_symbolizer_status(symbolizer, &build, "[m]", FP_FRAME_MODULE),
			 FP_SYMBOLS_NO_FILE);
	assert_int_equal(fp_symbolizer_add_table(symbolizer, build.id, 4, text, strlen(text), &bad),
			 0);
	assert_int_equal(bad, 2);
	kept = fp_symbolizer_lookup(symbolizer, &build, "[m]", FP_FRAME_MODULE, 0x100, true);
	assert_name(kept, "foo::bar(int)");
	assert_name(fp_symbolizer_lookup(symbolizer, &build, "[m]", FP_FRAME_MODULE, 0x1ff, true),
		    "prefixed name with blanks");
	assert_name(fp_symbolizer_lookup(symbolizer, &build, "[m]", FP_FRAME_MODULE, 0x2ff, true),
		    "later");
	fp_symbolizer_forget(symbolizer, build.id, 4);
	assert_name(fp_symbolizer_lookup(symbolizer, &build, "[m]", FP_FRAME_MODULE, 0x100, true),
		    NULL);
	assert_string_equal(kept, "foo::bar(int)");
	assert_int_equal(fp_symbolizer_add_table(symbolizer, build.id, 0, text, strlen(text), &bad),
			 -EINVAL);
	assert_int_equal(fp_symbolizer_add_table(symbolizer, build.id, 4, "", 0, NULL), 0);
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, "[m]", FP_FRAME_MODULE),
			 FP_SYMBOLS_NO_SYMBOLS);
}

struct loader {
	int calls[4];
};

static int load_table(void *context, const uint8_t *id, size_t id_len, struct fp_buf *ret_text)
{
	struct loader *loader = context;

	if (id[0] >= FP_ARRAY_SIZE(loader->calls))
		return -ENOENT;
	loader->calls[id[0]]++;
	for (int i = 0; i < 1000; i++)
		fp_buf_printf(ret_text, "%x function_%d_%d\n", i * 16, id[0], i);
	return ret_text->error;
}

// Three tables of about 50 KiB in a cache for two: the least recently used is loaded again.
static void test_cache_is_bounded(void **state)
{
	struct loader loader = { 0 };
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs,
						 .table_cache_bytes = 100000,
						 .load_table = load_table,
						 .load_context = &loader };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	static const uint8_t asked[] = { 0, 1, 0, 2, 0, 1 };

	for (size_t i = 0; i < sizeof(asked); i++) {
		struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 1, .id = { asked[i] } };
		char name[32];

		snprintf(name, sizeof(name), "function_%d_%d", asked[i], 500);
		assert_name(
		    fp_symbolizer_lookup(symbolizer, &build, "/x", FP_FRAME_FILE, 500 * 16, true),
		    name);
	}
	assert_int_equal(loader.calls[0], 1);
	assert_int_equal(loader.calls[1], 2);
	assert_int_equal(loader.calls[2], 1);
	for (int i = 0; i < 3; i++) {
		struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 1, .id = { 9 } };

		assert_name(fp_symbolizer_lookup(symbolizer, &build, "/x", FP_FRAME_FILE, 0, true),
			    NULL);
	}
}

static void test_vdso(void **state)
{
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	struct fp_build none = { 0 };
	struct fp_build other = { .kind = FP_BUILD_GNU, .id_len = 20, .id = { 1 } };
	bool found = false;

	for (uint64_t offset = 0; offset < 0x4000; offset += 16) {
		const char *name =
		    fp_symbolizer_lookup(symbolizer, &none, "[vdso]", FP_FRAME_VDSO, offset, true);

		found = found || (name && strstr(name, "clock_gettime"));
	}
	assert_true(found);
	assert_int_equal(fp_symbolizer_status(symbolizer, &other, "[vdso]", FP_FRAME_VDSO),
			 FP_SYMBOLS_NO_FILE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("hidden kernel addresses are told", test_hidden_kernel),
		FP_CASE("kernel offsets count from _stext", test_kernel),
		FP_CASE("tables that were given are used and forgotten", test_given_tables),
		FP_CASE("the cache keeps to its bound", test_cache_is_bounded),
		FP_CASE("the vDSO is read from memory", test_vdso),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
