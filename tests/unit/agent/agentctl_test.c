// SPDX-License-Identifier: Apache-2.0
#include "agent/agentctl/client.h"
#include "agent/agentctl/command.h"
#include "agent/agentctl/doctor.h"
#include "agent/agentctl/output.h"
#include "agent/agentctl/snapshot.h"
#include "common/clock.h"
#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static const struct {
	const char *text;
	int result;
	uint64_t ns;
} durations[] = {
	{ "10s", 0, 10 * FP_NS_PER_S },
	{ "10", 0, 10 * FP_NS_PER_S },
	{ "500ms", 0, 500 * FP_NS_PER_MS },
	{ "2min", 0, 120 * FP_NS_PER_S },
	{ "2m", 0, 120 * FP_NS_PER_S },
	{ "", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "-1s", -EINVAL, 0 },
	{ "1.5s", -EINVAL, 0 },
	{ "10 s", -EINVAL, 0 },
	{ "10h", -EINVAL, 0 },
	{ "99999999999999999999s", -EINVAL, 0 },
};

static void test_duration(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(durations); i++) {
		uint64_t ns = 0;

		print_message("  '%s'\n", durations[i].text);
		assert_int_equal(fp_duration_parse(durations[i].text, &ns), durations[i].result);
		assert_int_equal(ns, durations[i].ns);
	}
}

static void test_number(void **state)
{
	uint64_t number = 0;

	assert_int_equal(fp_number_parse("997", 1, 997, &number), 0);
	assert_int_equal(number, 997);
	assert_int_equal(fp_number_parse("998", 1, 997, &number), -ERANGE);
	assert_int_equal(fp_number_parse("0", 1, 997, &number), -ERANGE);
	assert_int_equal(fp_number_parse("-1", 1, 997, &number), -EINVAL);
	assert_int_equal(fp_number_parse("0x10", 1, 997, &number), -EINVAL);
	assert_int_equal(fp_number_parse("", 1, 997, &number), -EINVAL);
	assert_int_equal(number, 997); // untouched
}

static const struct {
	const char *sentence;
	const char *words[8];
	int code;
} lines[] = {
	{ "no command is a usage error", { "agentctl" }, FP_EXIT_USAGE },
	{ "an unknown command is a usage error", { "agentctl", "frob" }, FP_EXIT_USAGE },
	{ "--help is no error", { "agentctl", "--help" }, FP_EXIT_OK },
	{ "--version is no error", { "agentctl", "--version" }, FP_EXIT_OK },
	{ "each command has help", { "agentctl", "snapshot", "--help" }, FP_EXIT_OK },
	{ "a snapshot needs a process", { "agentctl", "snapshot" }, FP_EXIT_USAGE },
	{ "an unknown option is a usage error", { "agentctl", "flame", "--frob" }, FP_EXIT_USAGE },
	{ "an unknown short one too", { "agentctl", "flame", "-Z" }, FP_EXIT_USAGE },
	{ "an option without its value too", { "agentctl", "flame", "-o" }, FP_EXIT_USAGE },
	{ "a second file too", { "agentctl", "flame", "a", "b" }, FP_EXIT_USAGE },
	{ "an operand where none is taken too", { "agentctl", "status", "now" }, FP_EXIT_USAGE },
	{ "a rate that is none too",
	  { "agentctl", "snapshot", "--pid", "1", "--hz", "1000" },
	  FP_EXIT_USAGE },
	{ "a format that is none too",
	  { "agentctl", "snapshot", "--pid", "1", "--format", "png" },
	  FP_EXIT_USAGE },
	{ "both as SVG need a file",
	  { "agentctl", "snapshot", "--pid", "1", "--both", "--format", "svg" },
	  FP_EXIT_USAGE },
	{ "so do others",
	  { "agentctl", "snapshot", "--pid", "1", "--run-queue", "--wakers", "--format=pprof" },
	  FP_EXIT_USAGE },
	{ "wall time is a picture of its own",
	  { "agentctl", "snapshot", "--pid", "1", "--wall", "--off-cpu", "--output=x" },
	  FP_EXIT_USAGE },
	{ "no agent is its own code",
	  { "agentctl", "status", "--socket", "/nonexistent/agent.sock" },
	  FP_EXIT_NOT_RUNNING },
	{ "the socket may stand before the command",
	  { "agentctl", "--socket", "/nonexistent/agent.sock", "status" },
	  FP_EXIT_NOT_RUNNING },
	{ "a file that is not there fails",
	  { "agentctl", "flame", "/nonexistent/file" },
	  FP_EXIT_FAILED },
};

static void test_lines(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(lines); i++) {
		char *argv[9] = { 0 };
		int argc = 0;

		while (lines[i].words[argc]) {
			argv[argc] = (char *)lines[i].words[argc];
			argc++;
		}
		print_message("  %s\n", lines[i].sentence);
		assert_int_equal(fp_agentctl_main(argc, argv), lines[i].code);
	}
}

// Bits of `shown` are rows of fp_aspects: cpu, off_cpu, run_queue, waker, wall.
static void test_recorded(void **state)
{
	static const struct {
		uint32_t shown;
		bool cpu, off_cpu, run_queue, waker;
	} cases[] = {
		{ 1, true, false, false, false }, { 2, false, true, false, false },
		{ 3, true, true, false, false },  { 4, false, true, true, false },
		{ 8, false, true, false, true },  { 12, false, true, true, true },
		{ 16, true, true, true, false },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_snapshot_options options = { .shown = cases[i].shown };

		assert_int_equal(fp_snapshot_records(&options, FP_PROFILE_CPU), cases[i].cpu);
		assert_int_equal(fp_snapshot_records(&options, FP_PROFILE_OFF_CPU),
				 cases[i].off_cpu);
		assert_int_equal(fp_snapshot_records(&options, FP_PROFILE_RUN_QUEUE),
				 cases[i].run_queue);
		assert_int_equal(fp_snapshot_records(&options, FP_PROFILE_WAKER), cases[i].waker);
		assert_int_equal(fp_snapshot_shows(&options, fp_aspect_wall), cases[i].shown == 16);
	}
}

static void test_insert(void **state)
{
	static const char *const cases[][2] = {
		{ "out.svg", "out.cpu.svg" },		{ "a.b/out", "a.b/out.cpu" },
		{ "/x/out.pb.gz", "/x/out.pb.cpu.gz" }, { ".hidden", ".hidden.cpu" },
		{ "d/.hidden", "d/.hidden.cpu" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		char *path FP_AUTOFREE = fp_output_insert(cases[i][0], "cpu");

		assert_string_equal(path, cases[i][1]);
	}
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void test_output(void **state)
{
	char directory[] = "/tmp/fp-output-XXXXXX", file[64], link_path[64], other[64];
	struct fp_buf text FP_AUTOBUF = { 0 };
	struct stat st;

	assert_non_null(mkdtemp(directory));
	snprintf(file, sizeof(file), "%s/a", directory);
	snprintf(link_path, sizeof(link_path), "%s/l", directory);
	snprintf(other, sizeof(other), "%s/none/a", directory);
	assert_int_equal(fp_output_write(file, "old", 3), 0);
	assert_int_equal(symlink(file, link_path), 0);
	assert_int_equal(fp_output_write(link_path, "new", 3), 0); // through the link
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(fp_file_read(file, 100, &text), 0);
	assert_int_equal(text.len, 3);
	assert_memory_equal(text.data, "new", 3);
	assert_int_equal(fp_output_write(other, "x", 1), -ENOENT);
	assert_int_equal(fp_output_write(directory, "x", 1), -EISDIR);
	assert_int_equal(fp_output_write("/dev/null", "x", 1), 0);
	assert_int_equal(fp_output_write("/dev/full", "x", 1), -ENOSPC);
	assert_int_equal(count_entries(directory), 2); // no temporary file is left
	unlink(file);
	unlink(link_path);
	rmdir(directory);
}

static const struct {
	const char *sentence, *json;
	const char *row; // NULL: no row but PASS
	enum fp_preflight_status status;
	const char *finding;
} answers[] = {
	{ "an agent in order passes",
	  "{\"type\":\"status\",\"pid\":7,\"delivery\":{\"spool_writable\":true}}", NULL,
	  FP_PREFLIGHT_PASS, "" },
	{ "an epoch out of balance is a defect",
	  "{\"type\":\"status\",\"balance_errors\":2,\"delivery\":{\"spool_writable\":true}}",
	  "balance", FP_PREFLIGHT_FAIL, "2 epochs" },
	{ "a spool that takes nothing fails",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":false}}", "spool",
	  FP_PREFLIGHT_FAIL, "could not take" },
	{ "dropped batches are said",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true,\"batches_dropped\":3}}",
	  "spool", FP_PREFLIGHT_WARN, "3 batches" },
	{ "a collector that took nothing yet is said",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true,\"collector\":\"http://c\","
	  "\"batches_queued\":3}}",
	  "delivery", FP_PREFLIGHT_WARN, "no batch" },
	{ "a program whose stacks stop is named",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"stopped_builds\":[{"
	  "\"path\":"
	  "\"/usr/bin/x\",\"stacks\":10,\"stopped\":9},{\"path\":\"/y\",\"stacks\":1000,"
	  "\"stopped\":1}]}",
	  "whole_stacks", FP_PREFLIGHT_WARN, "'/usr/bin/x': 9 of its 10" },
	{ "a few stacks of a program say nothing",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"stopped_builds\":[{"
	  "\"path\":\"/x\",\"stacks\":4,\"stopped\":4}]}",
	  NULL, FP_PREFLIGHT_PASS, "" },
	{ "what passes by itself is no warning",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"stopped_builds\":[{"
	  "\"path\":\"/x\",\"stacks\":40,\"stopped\":40,\"reason\":\"new_process\"}]}",
	  NULL, FP_PREFLIGHT_PASS, "" },
	{ "and why they stop",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"stopped_builds\":[{"
	  "\"path\":\"/x\",\"stacks\":10,\"stopped\":9,\"reason\":\"no_room\"}]}",
	  "whole_stacks", FP_PREFLIGHT_WARN, "there was no room for its unwind table" },
	{ "a reason that this agentctl does not know stands as it came",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"stopped_builds\":[{"
	  "\"path\":\"/x\",\"stacks\":10,\"stopped\":9,\"reason\":\"later\"}]}",
	  "whole_stacks", FP_PREFLIGHT_WARN, "stop short: later" },
	{ "unwind tables that are off are said",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"unwind\":{\"enabled\":"
	  "false,\"why\":\"unwind.tables is off\"}}",
	  "unwind_tables", FP_PREFLIGHT_WARN, "unwind.tables is off" },
	{ "and those that find no room",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"unwind\":{\"enabled\":"
	  "true,\"no_room\":3,\"bytes_max\":67108864}}",
	  "unwind_tables", FP_PREFLIGHT_WARN, "3 times a table found no room in 64 MiB" },
	{ "tables in order pass",
	  "{\"type\":\"status\",\"delivery\":{\"spool_writable\":true},\"unwind\":{\"enabled\":"
	  "true,\"tables\":3}}",
	  NULL, FP_PREFLIGHT_PASS, "" },
	{ "a refusal is said in its words", "{\"type\":\"error\",\"message\":\"go away\"}", "agent",
	  FP_PREFLIGHT_WARN, "go away" },
};

static void test_doctor(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(answers); i++) {
		struct fp_doctor doctor = { 0 };
		json_t *status FP_CLEANUP(fp_json_freep) = json_loads(answers[i].json, 0, NULL);
		const struct fp_preflight_row *found = NULL;
		size_t wrong = 0;

		print_message("  %s\n", answers[i].sentence);
		assert_non_null(status);
		fp_doctor_judge_agent(&doctor, "/s", status, 0);
		for (size_t row = 0; row < doctor.count; row++) {
			if (doctor.rows[row].status == FP_PREFLIGHT_PASS)
				continue;
			wrong++;
			found = &doctor.rows[row];
			assert_true(found->fix[0]);
		}
		assert_int_equal(wrong, answers[i].row ? 1 : 0);
		if (!answers[i].row)
			continue;
		assert_string_equal(found->name, answers[i].row);
		assert_int_equal(found->status, answers[i].status);
		assert_non_null(strstr(found->finding, answers[i].finding));
	}
}

static const struct {
	const char *json, *line;
} named[] = {
	{ "{\"symbols\":{\"enabled\":false}}", "off" },
	{ "{}", "off" },
	{ "{\"symbols\":{\"enabled\":true,\"opener_starts\":1,\"role_starts\":0}}",
	  "opener restarted 0 times, symbols role not started; 0 perf maps open, 0 refused, 0 "
	  "files "
	  "timed out, 0 denied, 0 questions dropped, the queue being full" },
	{ "{\"symbols\":{\"enabled\":true,\"opener_starts\":3,\"role_starts\":2,"
	  "\"perf_maps_open\":4,\"perf_maps_refused\":5,\"files_timed_out\":6,"
	  "\"files_denied\":7,\"questions_dropped\":8}}",
	  "opener restarted 2 times, symbols role restarted 1 times; 4 perf maps open, 5 refused, "
	  "6 "
	  "files timed out, 7 denied, 8 questions dropped, the queue being full" },
};

static void test_names(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(named); i++) {
		json_t *status FP_CLEANUP(fp_json_freep) = json_loads(named[i].json, 0, NULL);
		FP_AUTOBUF struct fp_buf line = { 0 };

		assert_non_null(status);
		assert_int_equal(fp_status_names(status, &line), 0);
		assert_string_equal((char *)line.data, named[i].line);
	}
}

static const struct {
	const char *json, *line;
} waits[] = {
	{ "{\"hook\":\"off\"}", "off, 0 intervals (0.0 s), 0 without their stack" },
	{ "{\"hook\":\"sched_exit_tp\",\"samples\":12,\"nanoseconds\":1500000000,\"stacks_lost\":"
	  "1}",
	  "sched_exit_tp, 12 intervals (1.5 s), 1 without their stack; every interval kept" },
	{ "{\"hook\":\"way_out\",\"samples\":3,\"quantum_ns\":11800,\"weight\":4,"
	  "\"walk_budget\":500}",
	  "way_out, 3 intervals (0.0 s), 0 without their stack; one departure in "
	  "4, about 500 stacks a second" },
	{ "{\"hook\":\"fexit\",\"quantum_ns\":2000000,\"weight\":1}",
	  "fexit, 0 intervals (0.0 s), 0 without their stack; quantum 2 ms" },
	{ "{\"hook\":\"irq_work\",\"quantum_ns\":3600000000000,\"weight\":1,\"walk_budget\":0}",
	  "irq_work, 0 intervals (0.0 s), 0 without their stack; quantum 3600 s" },
	{ "{\"hook\":\"way_out\",\"quantum_ns\":1000,\"weight\":1,\"walk_budget\":250}",
	  "way_out, 0 intervals (0.0 s), 0 without their stack; every interval kept, about 250 "
	  "stacks a second" },
};

static void test_waits(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(waits); i++) {
		json_t *source FP_CLEANUP(fp_json_freep) = json_loads(waits[i].json, 0, NULL);
		FP_AUTOBUF struct fp_buf line = { 0 };

		assert_non_null(source);
		assert_int_equal(fp_status_waits(source, &line), 0);
		assert_string_equal((char *)line.data, waits[i].line);
	}
}

// Lines and bytes come in whatever pieces the kernel makes of them.
static void test_link(void **state)
{
	struct fp_agent_link link FP_CLEANUP(fp_link_close) = { .fd = -1 };
	struct fp_buf bytes FP_AUTOBUF = { 0 };
	json_t *line = NULL;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	link.fd = fds[0];
	assert_int_equal(send(fds[1], "{\"a\":1}\n{\"bytes\":3}\nx\ny{\"b\":2}", 30, 0), 30);
	assert_int_equal(fp_link_line(&link, 1000, &line), 0);
	assert_int_equal(fp_json_number(line, "a"), 1);
	fp_json_freep(&line);
	assert_int_equal(fp_link_line(&link, 1000, &line), 0);
	assert_int_equal(fp_link_bytes(&link, fp_json_number(line, "bytes"), 1000, &bytes), 0);
	fp_json_freep(&line);
	assert_int_equal(bytes.len, 3);
	assert_memory_equal(bytes.data, "x\ny", 3);
	assert_int_equal(fp_link_line(&link, 10, &line), -ETIMEDOUT);
	assert_int_equal(send(fds[1], "\nnonsense\n", 10, 0), 10);
	assert_int_equal(fp_link_line(&link, 1000, &line), 0);
	assert_int_equal(fp_json_number(line, "b"), 2);
	fp_json_freep(&line);
	assert_int_equal(fp_link_line(&link, 1000, &line), -EBADMSG);
	close(fds[1]);
	assert_int_equal(fp_link_line(&link, 1000, &line), -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duration), cmocka_unit_test(test_number),
		cmocka_unit_test(test_lines),	 cmocka_unit_test(test_insert),
		cmocka_unit_test(test_output),	 cmocka_unit_test(test_doctor),
		cmocka_unit_test(test_link),	 cmocka_unit_test(test_names),
		cmocka_unit_test(test_recorded), cmocka_unit_test(test_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
