// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include "agent/daemon.h"
#include "common/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

struct given {
	const char *sentence;
	const char *file; // content, or NULL for none
	const char *flag;
	const char *expected_error; // part of it, or NULL when it is taken
};

static const struct given table[] = {
	{ "nothing at all gives the defaults", NULL, NULL, NULL },
	{ "a file is read", "[cpu]\nhz = 49\n", NULL, NULL },
	{ "an unknown key is named with file and line", "[cpu]\n\nherz = 49\n", NULL,
	  ":3: cpu.herz" },
	{ "a wrong value is named with file and line", "[window]\nlength = 60\n", NULL,
	  ":2: window.length" },
	{ "an unknown section is named", "[cpus]\nhz = 49\n", NULL, ":1: " },
	{ "an unknown flag is named", NULL, "--cpu-herz=3", "'--cpu-herz=3'" },
	{ "no source at all is refused", "[cpu]\nenabled = no\n[off_cpu]\nenabled = no\n", NULL,
	  "off_cpu.enabled" },
	{ "a ring that is no power of two is refused", NULL, "--limits-ring-size=3MiB",
	  "limits.ring_size" },
	{ "a ring that is one is taken", NULL, "--limits-ring-size=4MiB", NULL },
	{ "draining more rarely than windows close is refused",
	  "[window]\nlength = 5s\ndrain_interval = 6s\n", NULL, ":3: window.drain_interval" },
	{ "a collector without a scheme is refused", NULL, "--collector-url=host:7171",
	  "collector.url" },
	{ "a collector with one is taken", NULL, "--collector-url=https://host:7171", NULL },
	{ "a relative spool is refused", NULL, "--spool-directory=spool", "spool.directory" },
	{ "a relative log directory is refused", "[labels]\nlog_directory = var/log\n", NULL,
	  ":2: labels.log_directory: must be an absolute path" },
	{ "no log directory is taken", NULL, "--labels-log-directory=", NULL },
	{ "of many rules the wrong one's line is named",
	  "[labels]\nrelabel = keep a =~ b\n\n; a comment\nrelabel = drop a =~ (b\n\n\n\n"
	  "relabel = keep c =~ d\n",
	  NULL, ":5: labels.relabel: rule 2, 'drop a =~ (b': " },
	{ "a wrong rule of a flag is named by its number", NULL, "--labels-relabel=drop a",
	  "flag: labels.relabel: rule 1, 'drop a'" },
	{ "a list of kernels is taken", NULL, "--agent-kernel-deny=4.19, 6.1.0-6.1.35", NULL },
	{ "what is no list of kernels is refused", NULL, "--agent-kernel-deny=new ones",
	  "agent.kernel_deny" },
};

static char *write_file(const char *content)
{
	char *path = strdup("/tmp/fp-config-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	close(fd);
	return path;
}

static void check(const struct given *given)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_buf error FP_AUTOBUF = { 0 };
	char *flag = (char *)given->flag;
	struct fp_agent_config_source source = { .flags = &flag, .flags_count = flag ? 1 : 0 };
	char *path FP_AUTOFREE = given->file ? write_file(given->file) : NULL;
	int r;

	source.path = path;
	source.path_required = path != NULL;
	r = fp_agent_config_load(&source, &config, NULL, &error);
	if (path)
		unlink(path);
	fp_buf_byte(&error, '\0');
	if (!given->expected_error) {
		assert_int_equal(r, 0);
		return;
	}
	assert_int_equal(r, -EINVAL);
	assert_non_null(strstr((const char *)error.data, given->expected_error));
	if (given->expected_error[0] == ':') // a line of the file: it is named too
		assert_non_null(strstr((const char *)error.data, path));
	assert_null(strchr((const char *)error.data, '\n'));
	assert_null(config.collector_url); // untouched
}

static void test_table(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(table); i++) {
		print_message("  %s\n", table[i].sentence);
		check(&table[i]);
	}
}

static void test_missing_file(void **state)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_buf error FP_AUTOBUF = { 0 };
	struct fp_agent_config_source source = { .path = "/nonexistent/agent.conf" };

	assert_int_equal(fp_agent_config_load(&source, &config, NULL, &error), 0);
	assert_int_equal(config.cpu_hz, 19);
	assert_int_equal(config.window_length_ns, 60 * FP_NS_PER_S);
	fp_agent_config_free(&config);
	config = (struct fp_agent_config){ 0 };
	source.path_required = true;
	assert_int_equal(fp_agent_config_load(&source, &config, NULL, &error), -ENOENT);
	fp_buf_byte(&error, '\0');
	assert_non_null(strstr((const char *)error.data, "/nonexistent/agent.conf"));
}

static void load_flag(const char *flag, struct fp_agent_config *config)
{
	struct fp_buf error FP_AUTOBUF = { 0 };
	char *flags[] = { (char *)flag };
	struct fp_agent_config_source source = { .flags = flags, .flags_count = 1 };

	assert_int_equal(fp_agent_config_load(&source, config, NULL, &error), 0);
}

// Every row must be told apart by differs and moved by exchange, or a reload would miss it.
static void test_rows(void **state)
{
	static const char *const flags[] = { "--cpu-hz=49",
					     "--off-cpu-enabled=no",
					     "--limits-ring-size=1MiB",
					     "--window-length=61s",
					     "--limits-walk=helper",
					     "--labels-static=a=b",
					     "--collector-url=http://h" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(flags); i++) {
		struct fp_agent_config one FP_AUTOCONFIG = { 0 }, other FP_AUTOCONFIG = { 0 };
		size_t different = 0;

		load_flag(flags[i], &one);
		load_flag("--cpu-hz=19", &other);
		for (size_t row = 0; row < fp_agent_settings.count; row++) {
			const struct fp_setting *setting = &fp_agent_settings.rows[row];

			if (!fp_agent_config_differs(setting, &one, &other))
				continue;
			different++;
			fp_agent_config_exchange(setting, &one, &other);
			assert_true(fp_agent_config_differs(setting, &one, &other));
			fp_agent_config_exchange(setting, &one, &other);
		}
		assert_int_equal(different, 1);
	}
}

static void test_sampler(void **state)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_sampler_config sampler;

	load_flag("--cpu-enabled=no", &config);
	fp_agent_config_sampler(&config, false, &sampler);
	assert_int_equal(sampler.cpu_hz, 0);
	assert_true(sampler.off_cpu);
	assert_false(sampler.use_helper_walk);
	fp_agent_config_sampler(&config, true, &sampler);
	assert_true(sampler.use_helper_walk);
	config.limits_walk = FP_WALK_FRAME_POINTER; // asked for: the kernel's list does not count
	fp_agent_config_sampler(&config, true, &sampler);
	assert_false(sampler.use_helper_walk);
}

static void test_options(void **state)
{
	char *argv[] = { (char *)"fleetprof-agent", (char *)"--config", (char *)"/a.conf",
			 (char *)"--cpu-hz=49", (char *)"--check-config" };
	char *unknown[] = { (char *)"fleetprof-agent", (char *)"--nonsense" };
	char *stray[] = { (char *)"fleetprof-agent", (char *)"a.conf" };
	struct fp_daemon_options options;
	struct fp_buf error FP_AUTOBUF = { 0 };

	assert_int_equal(fp_daemon_options_parse(5, argv, &options, &error), 0);
	assert_int_equal(options.mode, FP_DAEMON_CHECK_CONFIG);
	assert_string_equal(options.source.path, "/a.conf");
	assert_true(options.source.path_required);
	assert_int_equal(options.source.flags_count, 1);
	assert_string_equal(options.source.flags[0], "--cpu-hz=49");
	assert_int_equal(fp_daemon_options_parse(2, unknown, &options, &error), -EINVAL);
	assert_int_equal(fp_daemon_options_parse(2, stray, &options, &error), -EINVAL);
	fp_buf_byte(&error, '\0');
	assert_non_null(strstr((const char *)error.data, "'--nonsense'"));
	assert_non_null(strstr((const char *)error.data, "'a.conf'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),	cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_rows),	cmocka_unit_test(test_sampler),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
