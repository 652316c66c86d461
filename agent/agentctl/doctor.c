// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include "client.h"
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

struct doctor_options {
	const char *socket; // NULL: the configuration's
	const char *config;
	bool json;
};

void fp_doctor_add(struct fp_doctor *doctor, const char *name, enum fp_preflight_status status,
		   const char *fix, const char *format, ...)
{
	struct fp_preflight_row *row = &doctor->rows[doctor->count];
	va_list arguments;

	if (doctor->count == FP_DOCTOR_ROWS_MAX)
		return;
	doctor->count++;
	*row = (struct fp_preflight_row){ .name = name, .status = status };
	snprintf(row->fix, sizeof(row->fix), "%s", fix);
	va_start(arguments, format);
	vsnprintf(row->finding, sizeof(row->finding), format, arguments);
	va_end(arguments);
}

// Who asks without root hears about the host, not about himself.
static void soften(struct fp_preflight_row *row)
{
	if (!row->of_caller || row->status != FP_PREFLIGHT_FAIL)
		return;
	row->status = FP_PREFLIGHT_WARN;
	snprintf(row->fix, sizeof(row->fix), "run `agentctl doctor` as root to know what root may");
}

static void judge_host(struct fp_doctor *doctor, const struct fp_agent_config *config)
{
	const struct fp_preflight_options options = {
		.cpu_hz = config->cpu_enabled ? config->cpu_hz : 0,
		.off_cpu = config->off_cpu_enabled,
		.hook = (enum fp_offcpu_hook)config->off_cpu_hook,
		.allow_unsafe_kernel = config->agent_allow_unsafe_kernel,
		.kernel_deny = config->agent_kernel_deny,
		.kernel_warn = config->agent_kernel_warn,
		.kernel_no_user_read = config->agent_kernel_no_user_read,
	};
	struct fp_preflight_facts facts;

	fp_preflight_gather(options.hook, &facts);
	doctor->count = fp_preflight_judge(&facts, &options, doctor->rows);
	for (size_t i = 0; i < doctor->count && facts.uid != 0; i++)
		soften(&doctor->rows[i]);
}

static int read_config(struct fp_doctor *doctor, const struct doctor_options *options,
		       struct fp_agent_config *config)
{
	const struct fp_agent_config_source source = {
		.path = options->config ? options->config : FP_AGENT_DEFAULT_CONFIG,
		.path_required = options->config != NULL,
	};
	struct fp_buf error FP_AUTOBUF = { 0 };
	bool exists = access(source.path, F_OK) == 0;

	if (fp_agent_config_load(&source, config, NULL, &error) == 0) {
		fp_doctor_add(doctor, "configuration", FP_PREFLIGHT_PASS, "", "'%s' %s",
			      source.path,
			      exists ? "is in order" : "does not exist: defaults hold");
		return 0;
	}
	fp_doctor_add(doctor, "configuration", FP_PREFLIGHT_FAIL,
		      "mend it; `fleetprof-agent --check-config` says when it is right", "%.*s",
		      (int)error.len, (const char *)error.data);
	return fp_settings_defaults(&fp_agent_settings, config, NULL);
}

static void judge_agent(struct fp_doctor *doctor, const char *socket_path)
{
	json_t *status FP_CLEANUP(fp_json_freep) = NULL;
	int r = fp_status_fetch(socket_path, &status);

	fp_doctor_judge_agent(doctor, socket_path, status, r);
}

static void print_text(const struct fp_doctor *doctor)
{
	static const char *const colors[] = { "\033[32m", "\033[33m", "\033[31m" };
	bool color = isatty(STDOUT_FILENO);

	for (size_t i = 0; i < doctor->count; i++) {
		const struct fp_preflight_row *row = &doctor->rows[i];

		printf("%s%s%s  %-15s %s\n", color ? colors[row->status] : "",
		       fp_preflight_status_name(row->status), color ? "\033[0m" : "", row->name,
		       row->finding);
		if (row->status != FP_PREFLIGHT_PASS && row->fix[0])
			printf("      %-15s fix: %s\n", "", row->fix);
	}
}

static int print_json(const struct fp_doctor *doctor)
{
	json_t *rows = json_array();
	json_t *root FP_CLEANUP(fp_json_freep) = json_pack("{s:o}", "checks", rows);

	for (size_t i = 0; i < doctor->count; i++) {
		const struct fp_preflight_row *row = &doctor->rows[i];

		json_array_append_new(rows,
				      json_pack("{s:s,s:s,s:s,s:s}", "name", row->name, "status",
						fp_preflight_status_name(row->status), "finding",
						row->finding, "fix", row->fix));
	}
	return json_dumpf(root, stdout, JSON_INDENT(2)) < 0 || puts("") < 0 ? -EIO : 0;
}

static bool has_failure(const struct fp_doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++)
		if (doctor->rows[i].status == FP_PREFLIGHT_FAIL)
			return true;
	return false;
}

static int set_option(char id, const char *value, void *context)
{
	struct doctor_options *options = context;

	if (id == 's')
		options->socket = value;
	else if (id == 'c')
		options->config = value;
	else
		options->json = true;
	return 0;
}

static int run_doctor(const struct fp_command *command, int argc, char **argv)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct doctor_options options = { 0 };
	struct fp_doctor found = { 0 }, doctor = { 0 };
	const char *socket_path;
	int r = fp_command_parse(command, argc, argv, set_option, &options, NULL);

	if (r != 0)
		return r == FP_COMMAND_DONE ? FP_EXIT_OK : r;
	if (read_config(&found, &options, &config) < 0)
		return fp_command_fail(FP_EXIT_FAILED, "out of memory");
	socket_path = options.socket ? options.socket : fp_socket_or(config.agent_control_socket);
	judge_host(&doctor, &config);
	doctor.rows[doctor.count++] = found.rows[0];
	judge_agent(&doctor, socket_path);
	fp_doctor_judge_collector(&doctor, &config);
	r = 0;
	if (options.json)
		r = print_json(&doctor);
	else
		print_text(&doctor);
	return r < 0 || fflush(stdout) || has_failure(&doctor) ? FP_EXIT_FAILED : FP_EXIT_OK;
}

static const struct fp_option doctor_options[] = {
	{ 's', "socket", "PATH", "control socket of the agent" },
	{ 'c', "config", "FILE", "the agent's configuration (" FP_AGENT_DEFAULT_CONFIG ")" },
	{ 'j', "json", NULL, "print the rows as JSON" },
};

const struct fp_command fp_command_doctor = {
	.name = "doctor",
	.arguments = "",
	.help = "Says what this host allows, what is missing, and how to mend it.",
	.notes = "Exit code 1 when a row says FAIL.\n",
	.options = doctor_options,
	.options_count = FP_ARRAY_SIZE(doctor_options),
	.run = run_doctor,
};
