// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include "agent/control.h"
#include "agent/role_start.h"
#include "common/clock.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#define OPTIONS_MAX 24

static const struct fp_command *const commands[] = {
	&fp_command_snapshot, &fp_command_status, &fp_command_flame,
	&fp_command_table,    &fp_command_doctor,
};

// What is printed may hold foreign bytes (paths, names): control bytes never reach the
// terminal.
static void print_line(const char *prefix, const char *format, va_list arguments)
{
	char *line FP_AUTOFREE = NULL;

	if (vasprintf(&line, format, arguments) < 0) {
		line = NULL;
		return;
	}
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	fprintf(stderr, "%s%s\n", prefix, line);
}

int fp_command_fail(enum fp_exit code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("agentctl: ", format, arguments);
	va_end(arguments);
	return (int)code;
}

void fp_command_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("", format, arguments);
	va_end(arguments);
}

int fp_command_help(const struct fp_command *command)
{
	printf("Usage: agentctl %s [OPTION]… %s\n\n%s\n\n", command->name, command->arguments,
	       command->help);
	for (size_t i = 0; i < command->options_count; i++) {
		const struct fp_option *option = &command->options[i];
		char left[64], letter[8] = "    ";

		if (isprint((unsigned char)option->id))
			snprintf(letter, sizeof(letter), "-%c, ", option->id);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, option->name,
			 option->value ? " " : "", option->value ? option->value : "");
		printf("  %-28s %s\n", left, option->help);
	}
	printf("  %-28s %s\n", "-h, --help", "print this");
	if (command->notes)
		printf("\n%s", command->notes);
	printf("\nManual: agentctl(1)\n");
	return FP_EXIT_OK;
}

struct getopt_tables {
	struct option long_options[OPTIONS_MAX + 2];
	char short_options[3 + 2 * OPTIONS_MAX + 2];
};

static void fill_tables(const struct fp_command *command, struct getopt_tables *tables)
{
	char *letter = tables->short_options;
	size_t count = 0;

	*letter++ = ':'; // a missing value is told apart from an unknown option
	*letter++ = 'h';
	for (; count < command->options_count && count < OPTIONS_MAX; count++) {
		const struct fp_option *option = &command->options[count];

		tables->long_options[count] = (struct option){
			.name = option->name,
			.has_arg = option->value ? required_argument : no_argument,
			.val = (unsigned char)option->id,
		};
		if (!isprint((unsigned char)option->id))
			continue;
		*letter++ = option->id;
		if (option->value)
			*letter++ = ':';
	}
	*letter = '\0';
	tables->long_options[count++] =
	    (struct option){ .name = "help", .val = FP_COMMAND_OPTION_HELP };
	tables->long_options[count] = (struct option){ 0 };
}

static int fail_option(const struct fp_command *command, char **argv, int kind)
{
	// optind already stands behind a long option, but on a cluster of short ones.
	const char *argument = argv[optind - 1];
	char letter[3] = { '-', (char)optopt, '\0' };
	const char *shown = argument && strncmp(argument, "--", 2) == 0 ? argument : letter;

	if (kind == ':')
		return fp_command_fail(FP_EXIT_USAGE,
				       "option '%s' needs a value, see agentctl %s --help", shown,
				       command->name);
	return fp_command_fail(FP_EXIT_USAGE,
			       "unknown option '%s' of 'agentctl %s', see agentctl %s --help",
			       shown, command->name, command->name);
}

static int take_operands(const struct fp_command *command, int argc, char **argv,
			 const char **ret_operand)
{
	size_t operands = (size_t)(argc - optind);

	if (operands > command->max_operands)
		return fp_command_fail(FP_EXIT_USAGE,
				       "unexpected argument '%s', see agentctl %s --help",
				       argv[optind + (int)command->max_operands], command->name);
	if (ret_operand)
		*ret_operand = operands ? argv[optind] : NULL;
	return 0;
}

int fp_command_parse(const struct fp_command *command, int argc, char **argv, fp_option_fn set,
		     void *context, const char **ret_operand)
{
	struct getopt_tables tables;

	fill_tables(command, &tables);
	opterr = 0;
	optind = 0; // glibc: start over, the tests parse more than once
	for (;;) {
		int id = getopt_long(argc, argv, tables.short_options, tables.long_options, NULL);
		int r;

		if (id < 0)
			return take_operands(command, argc, argv, ret_operand);
		if (id == '?' || id == ':')
			return fail_option(command, argv, id);
		if (id == FP_COMMAND_OPTION_HELP) {
			fp_command_help(command);
			return FP_COMMAND_DONE;
		}
		r = set((char)id, optarg, context);
		if (r != 0)
			return r;
	}
}

int fp_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (*end)
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int fp_duration_parse(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *suffix;
		uint64_t ns;
	} units[] = {
		{ "", FP_NS_PER_S },	     { "s", FP_NS_PER_S },	{ "ms", FP_NS_PER_MS },
		{ "min", 60 * FP_NS_PER_S }, { "m", 60 * FP_NS_PER_S },
	};
	char *end;
	unsigned long long value;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || value > 1000000)
		return -EINVAL;
	for (size_t i = 0; i < FP_ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].suffix) == 0) {
			*ret_ns = value * units[i].ns;
			return 0;
		}
	}
	return -EINVAL;
}

static int print_help(void)
{
	printf("Usage: agentctl COMMAND [OPTION]…\n\nLooks at this host with fleetprof.\n\n");
	for (size_t i = 0; i < FP_ARRAY_SIZE(commands); i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->help);
	printf(
	    "\n  --socket PATH  the agent's control socket, before COMMAND or among its options\n"
	    "  --help     print this; `agentctl COMMAND --help` for one command\n"
	    "  --version  print the version\n\n"
	    "Exit codes: 0 ok, 1 failed, 2 usage, 3 no agent runs, 4 not permitted, 5 kernel or\n"
	    "privileges do not allow it, 6 timeout.\nManual: agentctl(1)\n");
	return FP_EXIT_OK;
}

static const char *socket_path; // NULL: none was named

const char *fp_default_socket(void)
{
	return fp_socket_or(FP_CONTROL_DEFAULT_SOCKET);
}

const char *fp_socket_or(const char *configured)
{
	return socket_path ? socket_path : configured;
}

// Takes `--socket PATH` or `--socket=PATH` off the front. Returns how many words it was.
static int take_socket(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "--socket") == 0) {
		socket_path = argv[2];
		return 2;
	}
	if (argc > 1 && strncmp(argv[1], "--socket=", 9) == 0) {
		socket_path = argv[1] + 9;
		return 1;
	}
	return 0;
}

int fp_agentctl_main(int argc, char **argv)
{
	int taken = take_socket(argc, argv), code;
	const char *verb;

	if (fp_role_main(argc, argv, &code))
		return code;
	argc -= taken;
	argv += taken;
	verb = argc > 1 ? argv[1] : NULL;

	if (!verb)
		return fp_command_fail(FP_EXIT_USAGE, "no command, see agentctl --help");
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0)
		return print_help();
	if (strcmp(verb, "--version") == 0)
		return puts("agentctl " FP_VERSION) < 0 ? FP_EXIT_FAILED : FP_EXIT_OK;
	for (size_t i = 0; i < FP_ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, verb) == 0)
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	return fp_command_fail(FP_EXIT_USAGE, "unknown command '%s', see agentctl --help", verb);
}
