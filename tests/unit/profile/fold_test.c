// SPDX-License-Identifier: Apache-2.0
#include "profiles.h"

#include "trees.h"

#include "pprof.pb-c.h"

#include <errno.h>
#include <zlib.h>

static void assert_fold(const struct fp_fold_options *options, const char *expected)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = sample_symbolizer();
	FP_AUTOTREE struct fp_tree *tree = NULL;

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_fold_profile(profile, options, symbolizer, tree), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_folded(tree, expected);
}

static void test_names(void **state)
{
	struct fp_fold_options options = { .type = FP_PROFILE_CPU, .kernel_frames = true };

	// The same offset is `leaf` where code stood and `caller` where a call returns to; the
	// user frame that entered the kernel is where code stood.
	assert_fold(&options,
		    "[no stack] 6\n"
		    "[stack lost] 5\n"
		    "do_syscall_[k] 7\n"
		    "plain+0xabc;[vdso]+0x999 3\n"
		    "start_thread;[anonymous executable memory];Lcom/x\\x3b::run_[j] 4\n"
		    "start_thread;caller;leaf 10\n"
		    "start_thread;leaf;do_syscall_[k];bpf_prog_12_probe_[k];[xfs]+0x20_[k] 20\n");
}

static void test_user_side_only(void **state)
{
	struct fp_fold_options options = { .type = FP_PROFILE_CPU };

	assert_fold(&options, "[no stack] 6\n"
			      "[no user stack] 7\n"
			      "[stack lost] 5\n"
			      "plain+0xabc;[vdso]+0x999 3\n"
			      "start_thread;[anonymous executable memory];Lcom/x\\x3b::run_[j] 4\n"
			      "start_thread;caller;leaf 10\n"
			      "start_thread;leaf 20\n");
}

static void test_root_label(void **state)
{
	struct fp_fold_options options = { .type = FP_PROFILE_OFF_CPU,
					   .root_label = "thread",
					   .kernel_frames = true };

	assert_fold(&options, "main;leaf;do_syscall_[k] 1000000\n");
	options.type = FP_PROFILE_CPU;
	options.kernel_frames = false;
	assert_fold(&options, "(none);[stack lost] 5\n"
			      "kworker/0:1;[no user stack] 7\n"
			      "main;[no stack] 6\n"
			      "main;plain+0xabc;[vdso]+0x999 3\n"
			      "main;start_thread;[anonymous executable memory];"
			      "Lcom/x\\x3b::run_[j] 4\n"
			      "worker;start_thread;caller;leaf 10\n"
			      "worker;start_thread;leaf 20\n");
}

static void test_raw(void **state)
{
	struct fp_fold_options options = { .type = FP_PROFILE_OFF_CPU,
					   .raw = true,
					   .kernel_frames = true };

	assert_fold(&options, "0100000000000000000000000000000000000000+0x1100;"
			      "0300000000000000000000000000000000000000+0x150_[k] 1000000\n");
}

static void test_kinds_and_modules(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = sample_symbolizer();
	FP_AUTOTREE struct fp_tree *tree = NULL;
	struct fp_fold_options options = { .type = FP_PROFILE_CPU,
					   .root_label = "thread",
					   .kernel_frames = true };
	static const struct {
		const char *path[4];
		enum fp_node_kind kind;
		const char *module;
	} cases[] = {
		{ { "worker" }, FP_NODE_LABEL, "" },
		{ { "worker", "start_thread" }, FP_NODE_USER, "/usr/lib/libc.so.6" },
		{ { "worker", "start_thread", "leaf", "do_syscall" }, FP_NODE_KERNEL, "[kernel]" },
		{ { "main", "plain+0xabc" }, FP_NODE_UNKNOWN, "/opt/plain" },
		{ { "main", "plain+0xabc", "[vdso]+0x999" }, FP_NODE_UNKNOWN, "[vdso]" },
		{ { "main", "[no stack]" }, FP_NODE_ERROR, "" },
	};

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_fold_profile(profile, &options, symbolizer, tree), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		uint32_t node = FP_TREE_ROOT;

		for (size_t p = 0; p < 4 && cases[i].path[p]; p++)
			node = child_of(tree, node, cases[i].path[p]);
		assert_int_equal(tree->nodes[node].kind, cases[i].kind);
		assert_string_equal(fp_intern_get(&tree->names, tree->nodes[node].module),
				    cases[i].module);
	}
}

static void test_single_stacks(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = sample_symbolizer();
	FP_AUTOTREE struct fp_tree *one = NULL;
	FP_AUTOTREE struct fp_tree *all = NULL;
	FP_AUTOBUF struct fp_buf one_text = { 0 }, all_text = { 0 };
	struct fp_fold_options options = { .type = FP_PROFILE_CPU, .kernel_frames = true };

	assert_int_equal(fp_tree_new(&one), 0);
	assert_int_equal(fp_tree_new(&all), 0);
	assert_int_equal(fp_fold_profile(profile, &options, symbolizer, all), 0);
	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *row = &profile->samples[i];
		const struct fp_stack *stack = &profile->stacks[row->stack];

		if (row->type == FP_PROFILE_CPU)
			assert_int_equal(fp_fold_stack(profile,
						       profile->stack_frames + stack->first,
						       stack->count, NULL, &options, symbolizer,
						       row->value, one),
					 0);
	}
	assert_int_equal(fp_tree_finish(one), 0);
	assert_int_equal(fp_tree_finish(all), 0);
	assert_int_equal(fp_folded_write(one, &one_text), 0);
	assert_int_equal(fp_folded_write(all, &all_text), 0);
	assert_string_equal((char *)one_text.data, (char *)all_text.data);
	assert_int_equal(fp_fold_stack(profile, NULL, 0, "label", &options, NULL, 1, one), -EINVAL);
}

typedef Fleetprof__Pprof__Profile pprof_profile;

static pprof_profile *pprof_decode(const struct fp_buf *bytes)
{
	static uint8_t message[1 << 20];
	z_stream stream = { .next_in = bytes->data,
			    .avail_in = (uInt)bytes->len,
			    .next_out = message,
			    .avail_out = sizeof(message) };
	pprof_profile *profile;

	assert_int_equal(inflateInit2(&stream, 31), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	profile = fleetprof__pprof__profile__unpack(NULL, stream.total_out, message);
	inflateEnd(&stream);
	assert_non_null(profile);
	return profile;
}

static const char *string_at(const pprof_profile *profile, int64_t index)
{
	assert_true(index >= 0 && (size_t)index < profile->n_string_table);
	return profile->string_table[index];
}

// Ids are dense from 1 and every reference leads somewhere.
static void assert_pprof_sound(const pprof_profile *profile)
{
	assert_string_equal(profile->string_table[0], "");
	for (size_t i = 0; i < profile->n_mapping; i++) {
		assert_int_equal(profile->mapping[i]->id, i + 1);
		string_at(profile, profile->mapping[i]->build_id);
	}
	for (size_t i = 0; i < profile->n_function; i++) {
		assert_int_equal(profile->function[i]->id, i + 1);
		assert_true(strlen(string_at(profile, profile->function[i]->name)) > 0);
	}
	for (size_t i = 0; i < profile->n_location; i++) {
		const Fleetprof__Pprof__Location *location = profile->location[i];

		assert_int_equal(location->id, i + 1);
		assert_true(location->mapping_id <= profile->n_mapping);
		if (location->mapping_id > 0 &&
		    profile->mapping[location->mapping_id - 1]->memory_limit > 0) {
			const Fleetprof__Pprof__Mapping *mapping =
			    profile->mapping[location->mapping_id - 1];

			assert_true(location->address >= mapping->memory_start);
			assert_true(location->address < mapping->memory_limit);
		}
		for (size_t l = 0; l < location->n_line; l++)
			assert_true(location->line[l]->function_id >= 1 &&
				    location->line[l]->function_id <= profile->n_function);
	}
	for (size_t i = 0; i < profile->n_sample; i++) {
		const Fleetprof__Pprof__Sample *sample = profile->sample[i];

		assert_int_equal(sample->n_value, profile->n_sample_type);
		assert_true(sample->n_location_id > 0);
		for (size_t l = 0; l < sample->n_location_id; l++)
			assert_true(sample->location_id[l] >= 1 &&
				    sample->location_id[l] <= profile->n_location);
	}
}

static int64_t value_sum(const pprof_profile *profile, size_t type)
{
	int64_t sum = 0;

	for (size_t i = 0; i < profile->n_sample; i++)
		sum += profile->sample[i]->value[type];
	return sum;
}

static void test_pprof(void **state)
{
	static const struct {
		enum fp_profile_type type;
		bool symbolized, wall;
		const char *types[2], *units[2];
		int64_t sums[2], period;
	} cases[] = {
		{ FP_PROFILE_CPU,
		  true,
		  false,
		  { "samples", "cpu" },
		  { "count", "nanoseconds" },
		  { 55, 55 * 10101010LL },
		  10101010 },
		{ FP_PROFILE_CPU,
		  false,
		  false,
		  { "samples", "cpu" },
		  { "count", "nanoseconds" },
		  { 55, 55 * 10101010LL },
		  10101010 },
		{ FP_PROFILE_OFF_CPU,
		  true,
		  false,
		  { "waits", "off_cpu" },
		  { "count", "nanoseconds" },
		  { 1, 1000000 },
		  1 },
		{ 0, true, true, { "wall" }, { "nanoseconds" }, { 55 * 10101010LL + 1000000 }, 1 },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct sample_profile sample = sample_profile_new();
		FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
		FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = sample_symbolizer();
		struct fp_fold_options options = { .type = cases[i].type,
						   .wall = cases[i].wall,
						   .kernel_frames = true };
		FP_AUTOBUF struct fp_buf bytes = { 0 };
		pprof_profile *pprof;

		assert_int_equal(fp_fold_pprof(profile, &options,
					       cases[i].symbolized ? symbolizer : NULL, &bytes),
				 0);
		pprof = pprof_decode(&bytes);
		assert_pprof_sound(pprof);
		assert_int_equal(pprof->n_sample_type, cases[i].wall ? 1 : 2);
		for (size_t t = 0; t < pprof->n_sample_type; t++) {
			assert_string_equal(string_at(pprof, pprof->sample_type[t]->type),
					    cases[i].types[t]);
			assert_string_equal(string_at(pprof, pprof->sample_type[t]->unit),
					    cases[i].units[t]);
			assert_int_equal(value_sum(pprof, t), cases[i].sums[t]);
		}
		assert_int_equal(pprof->period, cases[i].period);
		assert_int_equal(pprof->time_nanos, 1700000000000000000);
		assert_int_equal(pprof->duration_nanos, 30000000000);
		// The app is the main program, although libc was seen first.
		assert_string_equal(string_at(pprof, pprof->mapping[0]->filename), "/opt/app/app");
		assert_string_equal(string_at(pprof, pprof->mapping[0]->build_id),
				    "0100000000000000000000000000000000000000");
		assert_int_equal(pprof->mapping[0]->has_functions, cases[i].symbolized);
		fleetprof__pprof__profile__free_unpacked(pprof, NULL);
	}
}

// Addresses are a base + file offset; a caller's lies one byte back.
static void test_pprof_addresses(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	struct fp_fold_options options = { .type = FP_PROFILE_CPU, .kernel_frames = true };
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	const Fleetprof__Pprof__Sample *first;
	pprof_profile *pprof;
	uint64_t base;

	assert_int_equal(fp_fold_pprof(profile, &options, NULL, &bytes), 0);
	pprof = pprof_decode(&bytes);
	base = pprof->mapping[0]->memory_start - pprof->mapping[0]->file_offset;
	first = pprof->sample[0];
	assert_int_equal(first->n_location_id, 3);
	assert_int_equal(pprof->location[first->location_id[0] - 1]->address, base + 0x1100);
	assert_int_equal(pprof->location[first->location_id[1] - 1]->address, base + 0x10ff);
	assert_int_equal(pprof->location[first->location_id[0] - 1]->n_line, 0);
	assert_int_equal(first->n_label, 2);
	assert_string_equal(string_at(pprof, first->label[1]->key), "thread");
	assert_string_equal(string_at(pprof, first->label[1]->str), "worker");
	fleetprof__pprof__profile__free_unpacked(pprof, NULL);
}

static void test_pprof_of_a_tree(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of("a;b_[k] 2\na\\x0a\xff 3\n 4\n");
	struct fp_render_options options = { .title = "CPU", .period_ns = 10 };
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	pprof_profile *pprof;

	assert_int_equal(fp_renderer_find("pprof")->render(tree, &options, &bytes), 0);
	pprof = pprof_decode(&bytes);
	assert_int_equal(pprof->n_sample, 3);
	assert_int_equal(value_sum(pprof, 0), 9);
	assert_int_equal(value_sum(pprof, 1), 90);
	assert_int_equal(pprof->sample[1]->n_location_id, 2);
	assert_int_equal(pprof->n_function, 3);
	fleetprof__pprof__profile__free_unpacked(pprof, NULL);
	fp_buf_clear(&bytes);
	options = (struct fp_render_options){ .title = "Wall time",
					      .unit = FP_UNIT_NANOSECONDS,
					      .type_name = "wall" };
	assert_int_equal(fp_renderer_find("pprof")->render(tree, &options, &bytes), 0);
	pprof = pprof_decode(&bytes);
	assert_int_equal(pprof->n_sample_type, 1);
	assert_string_equal(string_at(pprof, pprof->sample_type[0]->type), "wall");
	assert_int_equal(value_sum(pprof, 0), 9);
	fleetprof__pprof__profile__free_unpacked(pprof, NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("frames get their names, leaves and callers each their own", test_names),
		FP_CASE("the user's side stands alone on request", test_user_side_only),
		FP_CASE("a label can stand below the stack", test_root_label),
		FP_CASE("raw frames are build-ID and offset", test_raw),
		FP_CASE("kinds and modules are kept", test_kinds_and_modules),
		FP_CASE("stack by stack is the same as the whole", test_single_stacks),
		FP_CASE("pprof holds the types, sums, mappings", test_pprof),
		FP_CASE("pprof's addresses lead back to file offsets", test_pprof_addresses),
		FP_CASE("a tree becomes pprof too", test_pprof_of_a_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
