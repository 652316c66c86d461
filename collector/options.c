// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "collectormetrics.h"
#include "http.h"

#include <errno.h>
#include <string.h>

static const struct option_row {
	const char *flag;
	enum fp_collector_action action;
	const char *help;
} option_rows[] = {
	{ "--check-config", FP_ACTION_CHECK, "check the configuration and exit" },
	{ "--dump-config", FP_ACTION_DUMP, "print every setting and where it came from" },
	{ "--print-docs=settings", FP_ACTION_DOCS_SETTINGS, "print the table of settings" },
	{ "--print-docs=metrics", FP_ACTION_DOCS_METRICS, "print the table of metrics" },
	{ "--print-docs=routes", FP_ACTION_DOCS_ROUTES, "print the table of HTTP paths" },
	{ "--version", FP_ACTION_VERSION, "print the version" },
	{ "--help", FP_ACTION_HELP, "print this" },
};

#define CONFIG_WORD "--config" // FILE in the next argument
#define CONFIG_FLAG "--config="

void fp_collector_options_free(struct fp_collector_options *options)
{
	fp_settings_free(&fp_collector_settings, &options->config);
	free(options->origins);
	options->origins = NULL;
}

static const struct option_row *find_option(const char *argument)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(option_rows); i++)
		if (strcmp(option_rows[i].flag, argument) == 0)
			return &option_rows[i];
	return NULL;
}

// The default file may be missing; one that was named must be there.
static int read_files(struct fp_collector_options *options, const char *path, struct fp_buf *error)
{
	const char *file = path ? path : FP_COLLECTOR_CONFIG_PATH;
	int r;

	if (!path && access(file, F_OK) < 0 && errno == ENOENT)
		r = 0;
	else
		r = fp_settings_read_file(&fp_collector_settings, &options->config,
					  options->origins, file, error);
	if (r < 0)
		return r;
	return fp_settings_read_environment(&fp_collector_settings, &options->config,
					    options->origins, error);
}

static int apply_flag(struct fp_collector_options *options, const char *argument,
		      struct fp_buf *error)
{
	const struct option_row *row = find_option(argument);
	int r;

	if (row) {
		options->action = row->action;
		return 0;
	}
	if (strncmp(argument, CONFIG_FLAG, strlen(CONFIG_FLAG)) == 0)
		return 0; // read before
	r = fp_settings_apply_flag(&fp_collector_settings, &options->config, options->origins,
				   argument, error);
	if (r == -ENOENT)
		fp_buf_printf(error, "unknown option '%s'; --help lists them", argument);
	return r;
}

static const char *find_config(int argc, char **argv)
{
	const char *path = NULL;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], CONFIG_FLAG, strlen(CONFIG_FLAG)) == 0)
			path = argv[i] + strlen(CONFIG_FLAG);
		else if (strcmp(argv[i], CONFIG_WORD) == 0 && i + 1 < argc)
			path = argv[++i];
	}
	return path;
}

int fp_collector_options_read(int argc, char **argv, struct fp_collector_options *ret_options,
			      struct fp_buf *error)
{
	FP_CLEANUP(fp_collector_options_free) struct fp_collector_options options = { 0 };
	int r;

	options.origins = calloc(fp_collector_settings.count, sizeof(*options.origins));
	if (!options.origins)
		return -ENOMEM;
	r = fp_settings_defaults(&fp_collector_settings, &options.config, options.origins);
	if (r == 0)
		r = read_files(&options, find_config(argc, argv), error);
	if (r < 0)
		return r;
	for (int i = 1; r == 0 && i < argc; i++) {
		if (strcmp(argv[i], CONFIG_WORD) == 0)
			i++; // read before
		else
			r = apply_flag(&options, argv[i], error);
	}
	if (r < 0)
		return r;
	*ret_options = options;
	options = (struct fp_collector_options){ 0 };
	return 0;
}

static void print_help(struct fp_buf *text)
{
	fp_buf_str(text,
		   "fleetprof-collector stores the profiles that agents send and shows them "
		   "on a page.\n\nUsage: fleetprof-collector [options]\n\n"
		   "  --config=FILE            settings, default " FP_COLLECTOR_CONFIG_PATH "\n");
	for (size_t i = 0; i < FP_ARRAY_SIZE(option_rows); i++)
		fp_buf_printf(text, "  %-24s %s\n", option_rows[i].flag, option_rows[i].help);
	fp_buf_str(text, "\nSettings:\n");
	for (size_t i = 0; i < fp_collector_settings.count; i++) {
		const struct fp_setting *row = &fp_collector_settings.rows[i];
		char flag[96];

		snprintf(flag, sizeof(flag), "--%s-%s", row->section, row->key);
		for (char *p = flag; *p; p++)
			if (*p == '_')
				*p = '-';
		fp_buf_printf(text, "  %s=VALUE (default '%s')\n      %s\n", flag,
			      row->default_text, row->help);
	}
}

static const char settings_head[] =
    "<!-- Printed by `fleetprof-collector --print-docs=settings`; do not edit. -->\n"
    "# Settings of the collector\n\n"
    "`" FP_COLLECTOR_CONFIG_PATH "`, then `/etc/fleetprof/collector.conf.d/*.conf`, then the\n"
    "environment (`FLEETPROF_<SECTION>_<KEY>`), then flags (`--section-key=value`); the last one\n"
    "wins.\n\n";
static const char metrics_head[] =
    "<!-- Printed by `fleetprof-collector --print-docs=metrics`; do not edit. -->\n"
    "# Metrics of the collector\n\nServed as `/metrics` on `http.listen`.\n";

static void print_routes(struct fp_buf *text)
{
	fp_buf_str(text, "| Method | Path | What it does |\n|---|---|---|\n");
	for (size_t i = 0; i < fp_routes_count; i++)
		fp_buf_printf(text, "| %s | `%s` | %s |\n", fp_routes[i].method, fp_routes[i].path,
			      fp_routes[i].help);
}

int fp_collector_options_print(const struct fp_collector_options *options)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	switch (options->action) {
	case FP_ACTION_CHECK:
	case FP_ACTION_SERVE:
		break;
	case FP_ACTION_DUMP:
		fp_settings_dump(&fp_collector_settings, &options->config, options->origins, &text);
		break;
	case FP_ACTION_DOCS_SETTINGS:
		fp_buf_str(&text, settings_head);
		fp_settings_markdown(&fp_collector_settings, &text);
		break;
	case FP_ACTION_DOCS_METRICS:
		fp_buf_str(&text, metrics_head);
		fp_metrics_markdown(fp_collector_metrics, FP_COLLECTOR_METRIC_COUNT, &text);
		break;
	case FP_ACTION_DOCS_ROUTES:
		print_routes(&text);
		break;
	case FP_ACTION_VERSION:
		fp_buf_str(&text, "fleetprof-collector " FP_VERSION "\n");
		break;
	case FP_ACTION_HELP:
		print_help(&text);
		break;
	}
	if (text.error)
		return text.error;
	if (!text.len)
		return 0;
	return fwrite(text.data, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : -EIO;
}
