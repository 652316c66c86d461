// SPDX-License-Identifier: Apache-2.0
//
// command: the verbs of agentctl. One table row per verb gives its name, arguments, options
// and help; parsing (getopt_long) and --help are driven by the rows.
// Messages are one line on stderr: the object in single quotes, then what to do next.
// Threads: none.
#pragma once

#include "agent/daemon_exit.h"
#include "common/buf.h"

struct fp_option {
	char id;	   // passed to set(); a printable character is the short option too
	const char *name;  // long name
	const char *value; // NULL: a switch; else the word for the value in --help
	const char *help;
};

struct fp_command {
	const char *name;
	const char *arguments; // e.g. "[FILE]", for the usage line
	const char *help;      // one line
	const char *notes;     // further help text, may be NULL
	const struct fp_option *options;
	size_t options_count;
	size_t max_operands;
	// argv[0] is the verb's name. Returns an exit code.
	int (*run)(const struct fp_command *command, int argc, char **argv);
};

extern const struct fp_command fp_command_snapshot, fp_command_status, fp_command_flame,
    fp_command_table, fp_command_doctor;

// Applies one option. 0, or an exit code after it has said what is wrong.
typedef int (*fp_option_fn)(char id, const char *value, void *context);

#define FP_COMMAND_DONE (-1) // --help was printed: end with success
#define FP_SOCKET_OPTION                                                                           \
	{                                                                                          \
		's', "socket", "PATH", "control socket of the agent"                               \
	}
#define FP_COMMAND_OPTION_HELP 'h'

// Parses the options; *ret_operand (may be NULL) gets the operand or NULL.
// 0 to go on, FP_COMMAND_DONE, or the exit code after a message.
int fp_command_parse(const struct fp_command *command, int argc, char **argv, fp_option_fn set,
		     void *context, const char **ret_operand);
int fp_command_help(const struct fp_command *command);
// Says `agentctl: …` on stderr and yields the code.
int fp_command_fail(enum fp_exit code, const char *format, ...) FP_PRINTF(2, 3);
// A line on stderr that is no failure.
void fp_command_say(const char *format, ...) FP_PRINTF(1, 2);
// Parses a decimal number within bounds. -EINVAL or -ERANGE.
int fp_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
// `10s`, `500ms`, `1min`, or a plain number of seconds. -EINVAL.
int fp_duration_parse(const char *text, uint64_t *ret_ns);
// The socket that `agentctl --socket PATH COMMAND` names, else the default.
const char *fp_default_socket(void);
const char *fp_socket_or(const char *configured); // the one named, else `configured`
int fp_agentctl_main(int argc, char **argv);
