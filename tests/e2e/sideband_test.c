// SPDX-License-Identifier: Apache-2.0
//
// The side-band on the live kernel: what short-lived programs map arrives in order, with the
// build-IDs that readelf(1) finds in their files, and the process table can still tell after
// they have gone. Needs root.
#include "../unit/cases.h"

#include "agent/procfs.h"
#include "agent/process.h"
#include "common/hashmap.h"

#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define CHILDREN 60u

extern char **environ;

struct child { // what the stream told of one child
	uint64_t fork_ns, exec_ns, first_map_ns, exit_ns;
	char executable[64]; // base name of the first file mapped after the exec
	uint32_t files;
};

static struct fp_sideband *sideband;
static struct fp_process_table *table;
static struct fp_hashmap children; // pid → struct child
static uint64_t last_ns, events, lost;
static uint32_t files_checked, files_without_id;

// The build-ID that readelf finds, as lower-case hexadecimal; "" when the file has none.
static void readelf_build_id(const char *path, char ret_hex[64])
{
	char command[4200], line[256];
	FILE *output;

	ret_hex[0] = '\0';
	snprintf(command, sizeof(command), "LC_ALL=C readelf -n '%s' 2>/dev/null", path);
	output = popen(command, "re");
	assert_non_null(output);
	while (fgets(line, sizeof(line), output))
		sscanf(line, " Build ID: %63[0-9a-f]", ret_hex);
	pclose(output);
}

static void check_build_id(const struct fp_event *event)
{
	struct told {
		char name[128], id[64];
	};
	static struct told told[64]; // readelf once per file: running it makes events too
	char found[64] = "";
	const char *expected;
	uint32_t i = 0;

	while (i < FP_ARRAY_SIZE(told) - 1 && told[i].name[0] &&
	       strcmp(told[i].name, event->name) != 0)
		i++;
	if (!told[i].name[0]) {
		snprintf(told[i].name, sizeof(told[i].name), "%s", event->name);
		readelf_build_id(event->name, told[i].id);
	}
	expected = told[i].id;
	for (i = 0; i < event->build_id_len; i++)
		snprintf(found + 2 * i, 3, "%02x", event->build_id[i]);
	if (strcmp(found, expected) != 0)
		print_message("  build-ID of '%s'\n", event->name);
	assert_string_equal(found, expected);
	files_checked++;
	files_without_id += expected[0] == '\0';
}

static void note_mapping(struct child *child, const struct fp_event *event)
{
	const char *base = strrchr(event->name, '/');

	if (event->name[0] != '/' || strcmp(event->name, "//anon") == 0 || !child->exec_ns)
		return;
	if (!child->first_map_ns) {
		child->first_map_ns = event->time_ns;
		snprintf(child->executable, sizeof(child->executable), "%s", base + 1);
	}
	child->files++;
	if (strncmp(event->name, "/usr/", 5) == 0)
		check_build_id(event);
}

static int take(const struct fp_event *event, void *context)
{
	struct child *child = fp_hashmap_get(&children, &event->tgid);

	assert_true(event->time_ns >= last_ns); // over all CPUs and all calls
	last_ns = event->time_ns;
	events++;
	if (child && event->kind == FP_EVENT_FORK && event->tid == event->tgid)
		child->fork_ns = event->time_ns;
	else if (child && event->kind == FP_EVENT_EXEC)
		child->exec_ns = event->time_ns;
	else if (child && event->kind == FP_EVENT_MMAP)
		note_mapping(child, event);
	else if (child && event->kind == FP_EVENT_EXIT && event->tid == event->tgid)
		child->exit_ns = event->time_ns;
	return fp_process_table_event(table, event);
}

static void read_all(void)
{
	uint64_t lost_now = 0;

	assert_int_equal(fp_sideband_read(sideband, take, NULL, &lost_now), 0);
	lost += lost_now;
}

static pid_t run(const char *const *arguments)
{
	pid_t pid;

	assert_int_equal(
	    posix_spawn(&pid, arguments[0], NULL, NULL, (char *const *)arguments, environ), 0);
	return pid;
}

static void run_and_wait(const char *const *arguments, bool follow)
{
	pid_t pid = run(arguments);
	uint32_t key = (uint32_t)pid;

	if (follow)
		assert_non_null(fp_hashmap_put(&children, &key, NULL));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int begin_with(uint32_t ring_bytes)
{
	last_ns = events = lost = 0;
	files_checked = files_without_id = 0;
	children = FP_HASHMAP_INIT(uint32_t, struct child);
	if (fp_process_table_new(NULL, &table) != 0)
		return -1;
	return fp_sideband_open(ring_bytes, &sideband);
}

static int begin(void **state)
{
	return begin_with(0);
}

static int begin_small(void **state)
{
	return begin_with(16 * 1024);
}

static int end(void **state)
{
	fp_sideband_freep(&sideband);
	fp_process_table_freep(&table);
	fp_hashmap_free(&children);
	return 0;
}

static const char *const true_program[] = { "/usr/bin/true", NULL };
static const char *const sleep_program[] = { "/usr/bin/sleep", "0", NULL };

static void expect_told(uint32_t pid, const struct child *child, const char *executable)
{
	assert_true(child->fork_ns != 0);
	assert_true(child->fork_ns < child->exec_ns);
	assert_true(child->exec_ns < child->first_map_ns);
	assert_true(child->first_map_ns < child->exit_ns);
	assert_string_equal(child->executable, executable);
	assert_true(child->files >= 3); // program, dynamic linker, C library
}

// A stack of the child, taken just before it exited, is resolved after it has gone.
static void expect_view(uint32_t pid, const struct child *child, const char *executable)
{
	struct fp_stack_record record = { .tgid = pid,
					  .tid = pid,
					  .time_ns = child->exit_ns,
					  .start_ns = child->fork_ns - 1000 };
	struct fp_process_view view;
	uint32_t with_id = 0;

	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, executable);
	for (uint32_t i = 0; i < view.count; i++)
		with_id += view.files[view.mappings[i].file].build_id_len == 20;
	assert_true(with_id >= 3);
}

static void test_short_lived(void **state)
{
	const void *key;
	void *value;
	struct fp_process_stats stats;

	for (uint32_t i = 0; i < CHILDREN; i++) {
		run_and_wait(i % 2 ? sleep_program : true_program, true);
		read_all();
	}
	assert_int_equal(children.count, CHILDREN);
	assert_int_equal(lost, 0);
	for (size_t at = 0; fp_hashmap_next(&children, &at, &key, &value);) {
		const struct child *child = value;
		const char *name = strcmp(child->executable, "true") == 0 ? "true" : "sleep";

		expect_told(*(const uint32_t *)key, child, name);
		expect_view(*(const uint32_t *)key, child, name);
	}
	assert_true(files_checked >= 3 * CHILDREN);
	assert_int_equal(files_without_id, 0);
	fp_process_table_stats(table, &stats);
	assert_int_equal(stats.lazy_failed, 0);
	print_message("  %llu events, %u mappings with readelf's build-ID\n",
		      (unsigned long long)events, files_checked);
}

static bool seen_page;
static uint64_t page_address;

static int find_page(const struct fp_event *event, void *context)
{
	if (event->kind == FP_EVENT_MMAP && event->tgid == (uint32_t)getpid() &&
	    event->start <= page_address && page_address < event->start + event->length)
		seen_page = true;
	return 0;
}

// Memory that becomes executable later, as JIT compilers do it.
static void test_protection_changed(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t lost_now;

	page_address = (uint64_t)(uintptr_t)page;
	seen_page = false;
	assert_int_equal(fp_sideband_read(sideband, find_page, NULL, &lost_now), 0);
	assert_false(seen_page);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(fp_sideband_read(sideband, find_page, NULL, &lost_now), 0);
	assert_true(seen_page);
	munmap(page, 4096);
}

// Nothing is read while far more happens than the rings hold.
static void test_overrun(void **state)
{
	struct pollfd readable = { .fd = fp_sideband_fd(sideband), .events = POLLIN };
	uint64_t before;

	for (uint32_t i = 0; i < 200; i++)
		run_and_wait(true_program, false);
	assert_int_equal(poll(&readable, 1, 0), 1);
	read_all();
	before = events;
	assert_true(before > 100);
	// The kernel reports a loss with the next record that fits.
	for (uint32_t i = 0; i < 20; i++)
		run_and_wait(true_program, false);
	read_all();
	assert_true(events > before);
	assert_true(lost > 0);
	print_message("  %llu events, %llu lost\n", (unsigned long long)events,
		      (unsigned long long)lost);
}

static int fail_at_third(const struct fp_event *event, void *context)
{
	return ++*(int *)context == 3 ? -ECANCELED : 0;
}

static void test_callback_error(void **state)
{
	uint64_t lost_now = 99;
	int calls = 0;

	for (uint32_t i = 0; i < 5; i++)
		run_and_wait(true_program, false);
	assert_int_equal(fp_sideband_read(sideband, fail_at_third, &calls, &lost_now), -ECANCELED);
	assert_int_equal(calls, 3);
	assert_int_equal(lost_now, 99);
	read_all();			  // goes on behind the third
	assert_true(events >= 5 * 5 - 3); // each forks, execs, maps three files, exits
}

static void test_sync_cpus(void **state)
{
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN);

	assert_int_equal(fp_sideband_sync_cpus(sideband), online);
	assert_int_equal(fp_sideband_sync_cpus(sideband), online);
}

static void test_bad_ring_sizes(void **state)
{
	struct fp_sideband *other = NULL;

	assert_int_equal(fp_sideband_open(100000, &other), -EINVAL);
	assert_int_equal(fp_sideband_open(4096, &other), -EINVAL);
	assert_null(other);
}

#define CASE(sentence, function, setup)                                                            \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = setup, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("programs that live for milliseconds are told of in full", test_short_lived,
		     begin),
		CASE("memory made executable later is told of", test_protection_changed, begin),
		CASE("records that did not fit are counted", test_overrun, begin_small),
		CASE("an error of the receiver loses one event, no more", test_callback_error,
		     begin),
		CASE("all online CPUs are watched", test_sync_cpus, begin),
		CASE("ring sizes that cannot be are refused", test_bad_ring_sizes, begin),
	};
	struct fp_sideband *probe = NULL;
	int r = fp_sideband_open(0, &probe);

	fp_sideband_free(probe);
	if (r == -EPERM || r == -EACCES) {
		printf("SKIP: system-wide perf events need root or CAP_PERFMON\n");
		return 77;
	}
	return cmocka_run_group_tests(cases, NULL, NULL);
}
