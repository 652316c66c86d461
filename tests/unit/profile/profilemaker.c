// SPDX-License-Identifier: Apache-2.0
//
// profilemaker: files for the tests that look at them with other programs.
//   profilemaker FORMAT [ns] [icicle] [width=N] [quality=TEXT] < folded > file
//   profilemaker raw-pprof LIBRARY OFFSET… > file: one raw frame per offset of the library,
//     the i-th with i + 1 samples.
#include "common/file.h"
#include "profile/fold.h"
#include "profile/folded.h"
#include "profile/render.h"

#include <string.h>

static int read_stdin(struct fp_buf *ret_text)
{
	ssize_t got;

	do {
		if (fp_buf_reserve(ret_text, 65536))
			return -1;
		got = read(STDIN_FILENO, ret_text->data + ret_text->len, 65536);
		if (got > 0)
			ret_text->len += (size_t)got;
	} while (got > 0);
	return (int)got;
}

static int render_folded(const struct fp_renderer *renderer,
			 const struct fp_render_options *options, struct fp_buf *ret_bytes)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_folded_result result;

	if (read_stdin(&text) || fp_tree_new(&tree) ||
	    fp_folded_parse((const char *)text.data, text.len, tree, &result) ||
	    result.bad_lines > 0 || fp_tree_finish(tree))
		return -1;
	return renderer->render(tree, options, ret_bytes);
}

static void parse_options(int argc, char **argv, struct fp_render_options *options)
{
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "ns") == 0)
			options->unit = FP_UNIT_NANOSECONDS;
		else if (strcmp(argv[i], "icicle") == 0)
			options->icicle = true;
		else if (strncmp(argv[i], "width=", 6) == 0)
			options->width_px = (uint32_t)strtoul(argv[i] + 6, NULL, 10);
		else if (strncmp(argv[i], "title=", 6) == 0)
			options->title = argv[i] + 6;
		else if (strncmp(argv[i], "quality=", 8) == 0)
			options->quality = argv[i] + 8;
	}
	if (options->unit == FP_UNIT_SAMPLES)
		options->period_ns = 10000000;
}

static int add_offset(struct fp_profile *profile, uint32_t build, uint64_t offset, uint64_t value)
{
	struct fp_frame frame = { .kind = FP_FRAME_FILE, .build = build, .offset = offset };
	struct fp_sample sample = { .type = FP_PROFILE_CPU, .count = value, .value = value };
	struct fp_label label;
	uint32_t id;

	if (fp_profile_frame(profile, &frame, &id) ||
	    fp_profile_stack(profile, &id, 1, &sample.stack) ||
	    fp_profile_cstring(profile, "thread", &label.name) ||
	    fp_profile_cstring(profile, "main", &label.value) ||
	    fp_profile_labels(profile, &label, 1, &sample.labels))
		return -1;
	return fp_profile_sample(profile, &sample);
}

static int raw_pprof(int argc, char **argv, struct fp_buf *ret_bytes)
{
	static const struct fp_fold_options options = { .type = FP_PROFILE_CPU, .raw = true };
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_build build = { .kind = FP_BUILD_NONE };
	uint32_t id;

	if (fp_profile_new(&profile) || fp_profile_cstring(profile, argv[2], &build.path) ||
	    fp_profile_build(profile, &build, &id))
		return -1;
	profile->period_ns = 10000000;
	for (int i = 3; i < argc; i++) {
		if (add_offset(profile, id, strtoull(argv[i], NULL, 0), (uint64_t)i - 2))
			return -1;
	}
	return fp_fold_pprof(profile, &options, NULL, ret_bytes);
}

int main(int argc, char **argv)
{
	struct fp_render_options options = { .title = "CPU", .subtitle = "host web-1, 30 s" };
	const struct fp_renderer *renderer = argc > 1 ? fp_renderer_find(argv[1]) : NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	int error;

	parse_options(argc, argv, &options);
	if (argc > 3 && strcmp(argv[1], "raw-pprof") == 0)
		error = raw_pprof(argc, argv, &bytes);
	else
		error = renderer ? render_folded(renderer, &options, &bytes) : -1;
	return error || fp_write_all(STDOUT_FILENO, bytes.data, bytes.len) ? 1 : 0;
}
