// SPDX-License-Identifier: Apache-2.0
//
// A snapshot's profile → what was asked for. Samples and nanoseconds never share a picture, unless
// as wall time: of several pictures each has a file, and on standard output only a table
// (sections) or folded stacks (every line says which it is) can hold them.
#include "snapshot.h"

#include "output.h"
#include "agent/kernelmap_note.h"
#include "common/clock.h"
#include "common/file.h"
#include "profile/fold.h"
#include "profile/render.h"
#include "profile/summary.h"
#include "profile/wall.h"

#include <errno.h>
#include <string.h>

#define KERNEL_NOTES_MAX 65536
#define KERNEL_ID_LEN	 20

struct view {
	const struct fp_snapshot_options *options;
	const struct fp_snapshot_result *result;
	struct fp_symbolizer *symbolizer;
};

static bool is_format(const struct fp_snapshot_options *options, const char *name)
{
	return strcmp(options->format, name) == 0;
}

static bool is_several(const struct fp_snapshot_options *options)
{
	return options->shown & (options->shown - 1);
}

bool fp_snapshot_view_check(const struct fp_snapshot_options *options)
{
	if (!fp_renderer_find(options->format)) {
		fp_command_fail(FP_EXIT_USAGE,
				"unknown format '%s', there are folded, svg, pprof, table and json",
				options->format);
		return false;
	}
	if (is_several(options) && fp_snapshot_shows(options, fp_aspect_wall)) {
		fp_command_fail(FP_EXIT_USAGE,
				"--wall is one picture that holds CPU, off-CPU and run-queue time "
				"(wakers are off-CPU time again); take it alone, or the others "
				"without it");
		return false;
	}
	if (is_several(options) && !options->output && !is_format(options, "table") &&
	    !is_format(options, "folded")) {
		fp_command_fail(FP_EXIT_USAGE,
				"several pictures in the format '%s' make several files: name them "
				"with -o FILE, or take one of --cpu, --off-cpu, --run-queue and "
				"--wakers",
				options->format);
		return false;
	}
	return true;
}

static bool read_kernel_id(uint8_t id[KERNEL_ID_LEN])
{
	struct fp_buf notes FP_AUTOBUF = { 0 };
	size_t length = 0;

	return fp_file_read("/sys/kernel/notes", KERNEL_NOTES_MAX, &notes) == 0 &&
	       fp_note_build_id(notes.data, notes.len, id, KERNEL_ID_LEN, &length) == 0 &&
	       length == KERNEL_ID_LEN;
}

// Where symbols are looked for; the symbolizer borrows all of it.
struct places {
	uint8_t kernel_id[KERNEL_ID_LEN];
	char root[40], debug[64];
	const char *debug_dirs[3];
};

// Files are looked up in the root directory of the process: in a container they are not ours.
static int open_symbolizer(int root_fd, struct places *places, struct fp_symbolizer **ret)
{
	struct fp_symbolizer_options options = {
		.debug_dirs = places->debug_dirs,
		.use_local_files = true,
		.allow_paths_without_id = true,
	};

	places->debug_dirs[0] = "/usr/lib/debug";
	if (root_fd >= 0) {
		snprintf(places->root, sizeof(places->root), "/proc/self/fd/%d", root_fd);
		snprintf(places->debug, sizeof(places->debug), "%s/usr/lib/debug", places->root);
		options.root_prefix = places->root;
		places->debug_dirs[1] = places->debug;
	}
	if (read_kernel_id(places->kernel_id)) {
		options.kallsyms_path = "/proc/kallsyms";
		options.kernel_build_id = places->kernel_id;
	}
	return fp_symbolizer_new(&options, ret);
}

static int render_tree(const struct view *view, const struct fp_fold_options *fold,
		       const struct fp_render_options *render, struct fp_buf *bytes)
{
	struct fp_tree *tree FP_AUTOTREE = NULL;
	int r = fp_tree_new(&tree);

	if (r == 0)
		r = fp_fold_profile(view->result->profile, fold, view->symbolizer, tree);
	if (r == 0)
		r = fp_tree_finish(tree);
	return r == 0 ? fp_renderer_find(view->options->format)->render(tree, render, bytes) : r;
}

static int describe(const struct view *view, const struct fp_aspect *aspect,
		    struct fp_buf *subtitle, struct fp_buf *quality)
{
	const struct fp_profile *profile = view->result->profile;
	char comm[16];

	memcpy(comm, view->result->comm, sizeof(comm)); // raw bytes; renderers make them safe
	fp_buf_printf(subtitle, "%s (pid %u) on %s, %.1f s", comm, view->result->pid,
		      fp_profile_str(profile, profile->hostname),
		      (double)view->result->elapsed_ns / 1e9);
	if (fp_aspect_has(aspect, FP_PROFILE_CPU))
		fp_buf_printf(subtitle, " at %u Hz", view->options->hz);
	if (aspect->type)
		fp_summary_line(profile, aspect->type, quality);
	else
		fp_wall_line(profile, quality);
	fp_buf_byte(quality, '\0'); // also when there is none
	return subtitle->error ? subtitle->error : quality->error;
}

static int render_aspect(const struct view *view, const struct fp_aspect *aspect,
			 struct fp_buf *bytes)
{
	const struct fp_profile *profile = view->result->profile;
	struct fp_buf subtitle FP_AUTOBUF = { 0 }, quality FP_AUTOBUF = { 0 };
	const struct fp_fold_options fold = {
		.type = aspect->type,
		.wall = !aspect->type,
		.root_label = "thread",
		.raw = view->options->raw,
		.kernel_frames = true,
	};
	struct fp_render_options render = {
		.title = aspect->title,
		.type_name = aspect->name,
		.unit = aspect->unit,
		.period_ns = aspect->type == FP_PROFILE_CPU ? profile->period_ns : 0,
		.duration_ns = profile->end_boottime_ns - profile->start_boottime_ns,
		.time_realtime_ns = profile->start_realtime_ns,
	};
	int r = describe(view, aspect, &subtitle, &quality);

	if (r < 0)
		return r;
	render.subtitle = (const char *)subtitle.data;
	render.quality = quality.len > 1 ? (const char *)quality.data : NULL;
	if (!view->options->output && fp_output_is_terminal(&render.columns))
		render.color = true;
	if (is_format(view->options, "pprof"))
		return fp_fold_pprof(profile, &fold, view->symbolizer, bytes);
	return render_tree(view, &fold, &render, bytes);
}

static int fail_write(const char *path, int error)
{
	return fp_command_fail(FP_EXIT_FAILED, "cannot write '%s': %s", path ? path : "-",
			       strerror(-error));
}

static int write_files(const struct view *view)
{
	for (size_t i = 0; i < fp_aspects_count; i++) {
		char *path FP_AUTOFREE =
		    fp_output_insert(view->options->output, fp_aspects[i].name);
		struct fp_buf bytes FP_AUTOBUF = { 0 };
		int r = path ? 0 : -ENOMEM;

		if (!fp_snapshot_shows(view->options, &fp_aspects[i]))
			continue;
		if (r == 0)
			r = render_aspect(view, &fp_aspects[i], &bytes);
		if (r == 0)
			r = fp_output_write(path, bytes.data, bytes.len);
		if (r < 0)
			return fail_write(path, r);
		if (!view->options->quiet)
			fp_command_say("agentctl: wrote '%s'", path);
	}
	return FP_EXIT_OK;
}

// Every line of the text with `word;` in front.
static int add_prefixed(const struct fp_buf *text, const char *word, struct fp_buf *bytes)
{
	const char *line = (const char *)text->data, *end = line + text->len;

	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t size = newline ? (size_t)(newline - line) + 1 : (size_t)(end - line);

		fp_buf_printf(bytes, "%s;", word);
		fp_buf_append(bytes, line, size);
		line += size;
	}
	return bytes->error;
}

static int write_one(const struct view *view)
{
	bool prefix = is_several(view->options) && is_format(view->options, "folded");
	struct fp_buf bytes FP_AUTOBUF = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < fp_aspects_count; i++) {
		struct fp_buf part FP_AUTOBUF = { 0 };

		if (!fp_snapshot_shows(view->options, &fp_aspects[i]))
			continue;
		r = render_aspect(view, &fp_aspects[i], &part);
		if (r == 0 && bytes.len && !prefix)
			r = fp_buf_byte(&bytes, '\n');
		if (r == 0)
			r = prefix ? add_prefixed(&part, fp_aspects[i].name, &bytes)
				   : fp_buf_append(&bytes, part.data, part.len);
	}
	if (r == 0)
		r = fp_output_write(view->options->output, bytes.data, bytes.len);
	if (r < 0)
		return fail_write(view->options->output, r);
	if (prefix && !view->options->quiet)
		fp_command_say("agentctl: lines begin with 'cpu;' (samples) or another type's "
			       "name, as 'off_cpu;' (nanoseconds); part them before you draw them");
	return FP_EXIT_OK;
}

static uint64_t count_samples(const struct fp_profile *profile, const struct fp_aspect *aspect)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < profile->samples_count; i++)
		if (fp_aspect_has(aspect, profile->samples[i].type))
			count += profile->samples[i].count;
	return count;
}

// Why a picture is empty.
static void say_nothing_came(const struct fp_profile *profile, const struct fp_aspect *aspect)
{
	if (aspect->type == FP_PROFILE_RUN_QUEUE)
		fp_command_say("agentctl: it never had to wait for a CPU in that time");
	else if (aspect->type == FP_PROFILE_WAKER)
		fp_command_say("agentctl: nobody woke it in that time");
	else if (aspect->type != FP_PROFILE_CPU)
		fp_command_say("agentctl: it was never off the CPU in that time");
	else if (profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_EXPECTED_SAMPLES])
		fp_command_say("agentctl: it used so little of the CPU that no sample met it; "
			       "--off-cpu shows where it waits");
	else
		fp_command_say("agentctl: it did not use the CPU in that time; --off-cpu shows "
			       "where it waits");
}

static void summarize(const struct view *view)
{
	const struct fp_profile *profile = view->result->profile;

	for (size_t i = 0; i < fp_aspects_count; i++) {
		const struct fp_aspect *aspect = &fp_aspects[i];
		struct fp_buf text FP_AUTOBUF = { 0 };
		int r;

		if (!fp_snapshot_shows(view->options, aspect))
			continue;
		r = aspect->type ? fp_summary_text(profile, aspect->type, &text)
				 : fp_wall_text(profile, &text);
		if (r == 0 && text.len)
			fwrite(text.data, 1, text.len, stderr);
		if (!count_samples(profile, aspect))
			say_nothing_came(profile, aspect);
	}
}

int fp_snapshot_view(const struct fp_snapshot_options *options,
		     const struct fp_snapshot_result *result, int root_fd)
{
	struct places places = { 0 };
	struct fp_symbolizer *symbolizer FP_CLEANUP(fp_symbolizer_freep) = NULL;
	struct view view = { .options = options, .result = result };
	int r = options->raw ? 0 : open_symbolizer(root_fd, &places, &symbolizer);
	int code;

	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "cannot look up symbols: %s", strerror(-r));
	view.symbolizer = symbolizer;
	code = is_several(options) && options->output && !is_format(options, "table")
		   ? write_files(&view)
		   : write_one(&view);
	if (!options->quiet && code == FP_EXIT_OK)
		summarize(&view);
	return code;
}
