// SPDX-License-Identifier: Apache-2.0
//
// flame, table: folded stacks from a file or a pipe → a picture or a table. No agent and no
// privileges needed.
#include "command.h"

#include "output.h"
#include "profile/folded.h"
#include "profile/render.h"

#include <errno.h>
#include <string.h>

struct view_options {
	struct fp_render_options render;
	const char *output;
	bool quiet;
};

enum { OPTION_TITLE = 1, OPTION_SUBTITLE, OPTION_ICICLE, OPTION_WIDTH, OPTION_ROWS, OPTION_NS };

static int set_number(const char *name, const char *value, uint64_t max, uint32_t *ret)
{
	uint64_t number;

	if (fp_number_parse(value, 1, max, &number) < 0)
		return fp_command_fail(FP_EXIT_USAGE,
				       "'%s' is no value for --%s, give a number from 1 to %llu",
				       value, name, (unsigned long long)max);
	*ret = (uint32_t)number;
	return 0;
}

static int set_option(char id, const char *value, void *context)
{
	struct view_options *options = context;

	switch (id) {
	case 'o':
		options->output = value;
		break;
	case 'q':
		options->quiet = true;
		break;
	case OPTION_TITLE:
		options->render.title = value;
		break;
	case OPTION_SUBTITLE:
		options->render.subtitle = value;
		break;
	case OPTION_ICICLE:
		options->render.icicle = true;
		break;
	case OPTION_NS:
		options->render.unit = FP_UNIT_NANOSECONDS;
		break;
	case OPTION_WIDTH:
		return set_number("width", value, 100000, &options->render.width_px);
	case OPTION_ROWS:
		return set_number("rows", value, 100000, &options->render.rows);
	}
	return 0;
}

static int read_tree(const char *file, bool quiet, struct fp_tree *tree)
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	struct fp_folded_result result = { 0 };
	const char *shown = file ? file : "-";
	int r = fp_input_read(file, &text);

	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "cannot read '%s': %s", shown, strerror(-r));
	r = fp_folded_parse((const char *)text.data, text.len, tree, &result);
	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "cannot take in '%s': %s", shown,
				       strerror(-r));
	if (result.bad_lines && !quiet)
		fp_command_say("agentctl: skipped %llu bad lines of '%s'; the first, line %llu: %s",
			       (unsigned long long)result.bad_lines, shown,
			       (unsigned long long)result.first_bad,
			       result.first_bad_reason ? result.first_bad_reason : "not a stack");
	if (result.lines == 0)
		return fp_command_fail(FP_EXIT_FAILED,
				       "'%s' holds no folded stack, nothing to draw", shown);
	r = fp_tree_finish(tree);
	return r < 0 ? fp_command_fail(FP_EXIT_FAILED, "%s", strerror(-r)) : 0;
}

static int run_view(const struct fp_command *command, int argc, char **argv, const char *renderer)
{
	struct view_options options = { .render = { .title = "Flame graph" } };
	struct fp_tree *tree FP_AUTOTREE = NULL;
	struct fp_buf bytes FP_AUTOBUF = { 0 };
	const char *file = NULL;
	int r = fp_command_parse(command, argc, argv, set_option, &options, &file);

	if (r != 0)
		return r == FP_COMMAND_DONE ? FP_EXIT_OK : r;
	if (fp_tree_new(&tree) < 0)
		return fp_command_fail(FP_EXIT_FAILED, "out of memory");
	r = read_tree(file, options.quiet, tree);
	if (r != 0)
		return r;
	if (!options.output && fp_output_is_terminal(&options.render.columns))
		options.render.color = true;
	r = fp_renderer_find(renderer)->render(tree, &options.render, &bytes);
	if (r == 0)
		r = fp_output_write(options.output, bytes.data, bytes.len);
	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "cannot write '%s': %s",
				       options.output ? options.output : "-", strerror(-r));
	return FP_EXIT_OK;
}

static int run_flame(const struct fp_command *command, int argc, char **argv)
{
	return run_view(command, argc, argv, "svg");
}

static int run_table(const struct fp_command *command, int argc, char **argv)
{
	return run_view(command, argc, argv, "table");
}

static const struct fp_option flame_options[] = {
	{ 'o', "output", "FILE", "write there instead of to standard output" },
	{ OPTION_TITLE, "title", "TEXT", "title of the picture" },
	{ OPTION_SUBTITLE, "subtitle", "TEXT", "second line of the title" },
	{ OPTION_ICICLE, "icicle", NULL, "root on top" },
	{ OPTION_WIDTH, "width", "PIXELS", "width of the picture (1200)" },
	{ OPTION_NS, "nanoseconds", NULL, "values are nanoseconds, not samples" },
	{ 'q', "quiet", NULL, "do not speak of skipped lines" },
};

const struct fp_command fp_command_flame = {
	.name = "flame",
	.arguments = "[FILE]",
	.help = "Draws folded stacks as a flame graph (SVG).",
	.notes = "FILE holds one stack per line, `frame;frame;frame value`, outermost first;\n"
		 "without it, or with -, standard input is read.\n",
	.options = flame_options,
	.options_count = FP_ARRAY_SIZE(flame_options),
	.max_operands = 1,
	.run = run_flame,
};

static const struct fp_option table_options[] = {
	{ 'o', "output", "FILE", "write there instead of to standard output" },
	{ OPTION_TITLE, "title", "TEXT", "title of the table" },
	{ OPTION_ROWS, "rows", "N", "functions shown (30)" },
	{ OPTION_NS, "nanoseconds", NULL, "values are nanoseconds, not samples" },
	{ 'q', "quiet", NULL, "do not speak of skipped lines" },
};

const struct fp_command fp_command_table = {
	.name = "table",
	.arguments = "[FILE]",
	.help = "Lists the functions of folded stacks with their own and total share.",
	.notes = "FILE holds one stack per line, `frame;frame;frame value`, outermost first;\n"
		 "without it, or with -, standard input is read.\n",
	.options = table_options,
	.options_count = FP_ARRAY_SIZE(table_options),
	.max_operands = 1,
	.run = run_table,
};
