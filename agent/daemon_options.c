// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

#include "daemon_docs.h"
#include "daemon_exit.h"
#include "labels.h"
#include "role_start.h"

#include "common/log.h"

#include <errno.h>
#include <string.h>

static const char usage[] =
    "Usage: fleetprof-agent [OPTION]… [--SECTION-KEY=VALUE]…\n"
    "\n"
    "Samples the CPU stacks and the blocked time of every process of this host and leaves\n"
    "the profiles in a spool, from which its ship role sends them to a collector.\n"
    "\n"
    "  --config FILE       configuration file (default " FP_AGENT_DEFAULT_CONFIG ")\n"
    "  --check-config      read the configuration, say what is wrong with it, and exit\n"
    "  --dump-config       print every setting in force and where it came from, and exit\n"
    "  --print-docs=PAGE   print a page of the documentation: settings, metrics, outcomes\n"
    "  --version           print the version and exit\n"
    "  --help              print this and exit\n"
    "  --SECTION-KEY=VALUE set a setting, e.g. --cpu-hz=49 --collector-url=http://host:7171\n"
    "\n"
    "Exit codes: 0 ok, 1 failed, 2 usage or configuration, 5 kernel or privileges do not\n"
    "allow sampling, 75 another agent runs on this host.\n"
    "Manual: fleetprof-agent(8)\n";

static const struct word {
	const char *text;
	enum fp_daemon_mode mode;
} words[] = {
	{ "--check-config", FP_DAEMON_CHECK_CONFIG },
	{ "--dump-config", FP_DAEMON_DUMP_CONFIG },
	{ "--version", FP_DAEMON_VERSION },
	{ "--help", FP_DAEMON_HELP },
	{ "-h", FP_DAEMON_HELP },
};

static bool parse_word(const char *argument, struct fp_daemon_options *options)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(words); i++) {
		if (strcmp(words[i].text, argument) == 0) {
			options->mode = words[i].mode;
			return true;
		}
	}
	return false;
}

// `--name=value` or `--name value`; NULL when the argument is another one.
static const char *parse_value(const char *name, int argc, char **argv, int *position)
{
	const char *argument = argv[*position];
	size_t length = strlen(name);

	if (strncmp(argument, name, length) != 0)
		return NULL;
	if (argument[length] == '=')
		return argument + length + 1;
	if (argument[length] == '\0' && *position + 1 < argc)
		return argv[++*position];
	return NULL;
}

static int parse_argument(int argc, char **argv, int *position, struct fp_daemon_options *options)
{
	const char *value;

	if (parse_word(argv[*position], options))
		return 0;
	value = parse_value("--config", argc, argv, position);
	if (value) {
		options->source.path = value;
		options->source.path_required = true;
		return 0;
	}
	value = parse_value("--print-docs", argc, argv, position);
	if (value) {
		options->mode = FP_DAEMON_PRINT_DOCS;
		options->docs = value;
		return 0;
	}
	return -ENOENT;
}

int fp_daemon_options_parse(int argc, char **argv, struct fp_daemon_options *ret,
			    struct fp_buf *error)
{
	struct fp_daemon_options options = {
		.source = { .path = FP_AGENT_DEFAULT_CONFIG, .flags = argv },
	};
	size_t flags = 0;

	for (int i = 1; i < argc; i++) {
		char *argument = argv[i];

		if (parse_argument(argc, argv, &i, &options) == 0)
			continue;
		if (strncmp(argument, "--", 2) != 0 || !strchr(argument, '=')) {
			fp_buf_printf(error,
				      "unknown argument '%s', see fleetprof-agent --help; settings "
				      "are given as --section-key=value",
				      argument);
			return -EINVAL;
		}
		argv[flags++] = argument;
	}
	options.source.flags_count = flags;
	*ret = options;
	return 0;
}

static int print(const struct fp_buf *text)
{
	if (text->error || fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout))
		return FP_EXIT_FAILED;
	return FP_EXIT_OK;
}

static int print_docs(const char *name)
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	int r = fp_daemon_docs_print(name, &text);

	if (r == -ENOENT) {
		fp_error("no page '%s', there are: %s", name, fp_daemon_docs_names);
		return FP_EXIT_USAGE;
	}
	return r < 0 ? FP_EXIT_FAILED : print(&text);
}

static int dump(const struct fp_agent_config *config, const struct fp_setting_origin *origins)
{
	struct fp_buf text FP_AUTOBUF = { 0 };

	if (fp_settings_dump(&fp_agent_settings, config, origins, &text) < 0)
		return FP_EXIT_FAILED;
	return print(&text);
}

static void warn_of_round_rate(const struct fp_agent_config *config)
{
	if (config->cpu_enabled && config->cpu_hz % 10 == 0)
		fp_warn("cpu.hz = %u beats with timers of the programs it samples; 19, 49 or 99 do "
			"not",
			config->cpu_hz);
}

static void warn_of_rule(uint32_t rule, const char *sentence, void *context)
{
	struct fp_setting_origin origin;

	fp_agent_config_rule_origin(context, rule, &origin);
	fp_warn("%s: labels.relabel: %s", origin.text, sentence);
}

// Everything that needs the configuration; it is freed by whoever runs last.
static int with_config(const struct fp_daemon_options *options)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_setting_origin *origins FP_AUTOFREE =
	    calloc(fp_agent_settings.count, sizeof(*origins));
	struct fp_buf error FP_AUTOBUF = { 0 };
	struct fp_agent_config running;

	if (!origins)
		return FP_EXIT_FAILED;
	if (fp_agent_config_load(&options->source, &config, origins, &error) < 0) {
		fp_error("%.*s", (int)error.len, (const char *)error.data);
		return FP_EXIT_USAGE;
	}
	warn_of_round_rate(&config);
	fp_relabel_doubt(config.labels_relabel, config.labels_static, warn_of_rule, origins);
	if (options->mode == FP_DAEMON_CHECK_CONFIG)
		return FP_EXIT_OK;
	if (options->mode == FP_DAEMON_DUMP_CONFIG)
		return dump(&config, origins);
	running = config;
	config = (struct fp_agent_config){ 0 };
	return fp_daemon_run(&options->source, &running);
}

int fp_daemon_main(int argc, char **argv)
{
	struct fp_daemon_options options;
	struct fp_buf error FP_AUTOBUF = { 0 };
	int code;

	fp_log_set_name("fleetprof-agent");
	if (fp_role_main(argc, argv, &code))
		return code;
	if (fp_daemon_options_parse(argc, argv, &options, &error) < 0) {
		fp_error("%.*s", (int)error.len, (const char *)error.data);
		return FP_EXIT_USAGE;
	}
	switch (options.mode) {
	case FP_DAEMON_HELP:
		return fputs(usage, stdout) < 0 ? FP_EXIT_FAILED : FP_EXIT_OK;
	case FP_DAEMON_VERSION:
		return puts("fleetprof-agent " FP_VERSION) < 0 ? FP_EXIT_FAILED : FP_EXIT_OK;
	case FP_DAEMON_PRINT_DOCS:
		return print_docs(options.docs);
	default:
		return with_config(&options);
	}
}
