// SPDX-License-Identifier: Apache-2.0
//
// unwindtable: the table of each file named, as the symbols role makes it, on a line of JSON: CPU
// time, memory, rows, rules, bytes. With --rows first, the rows themselves. For
// bench/unwindtables.py and for whoever wants to see what a table says.
#include "agent/unwindtable.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * FP_NS_PER_S + (uint64_t)now.tv_nsec;
}

// Of this process; getrusage would tell of whoever started it, too.
static long peak_kib(void)
{
	FP_AUTOBUF struct fp_buf status = { 0 };
	const char *line;

	if (fp_file_read("/proc/self/status", 1 << 16, &status) < 0)
		return -1;
	line = strstr((const char *)status.data, "VmHWM:");
	return line ? strtol(line + strlen("VmHWM:"), NULL, 10) : -1;
}

static const char *const kinds[] = { "gap",	 "end",	      "rsp",	   "rbp",
				     "register", "rsp deref", "rbp deref", "plt",
				     "signal",	 "cannot",    "indexed" };
_Static_assert(FP_ARRAY_SIZE(kinds) == FP_UNWIND_CFA_COUNT, "a name each");

#define FP_UNWIND_CANNOT_LABEL(id, label, text) label,
static const char *const reasons[] = { FP_UNWIND_CANNOTS(FP_UNWIND_CANNOT_LABEL) };

static void print_rows(const struct fp_unwind_view *view)
{
	static const char *const saved[] = { "same", "cfa", "rbp", "lost" };

	for (uint32_t i = 0; i < view->head->rows; i++) {
		const struct fp_unwind_rule *rule = &view->rules[view->rule_of[i]];

		printf("%8x %s", view->offsets[i], kinds[rule->cfa]);
		if (rule->cfa == FP_UNWIND_CANNOT)
			printf(" %s", reasons[rule->add]);
		else if (rule->cfa > FP_UNWIND_END)
			printf(" r%u %+d %+d rbp %s%+d rbx %s%+d return %u", rule->reg,
			       rule->offset, rule->add, saved[rule->saved & 3], rule->rbp_at,
			       saved[rule->saved >> 2], rule->rbx_at, rule->return_reg);
		putchar('\n');
	}
}

static void print_line(const char *path, const struct fp_unwind_view *view, uint64_t ns,
		       size_t bytes)
{
	printf("{\"file\": \"%s\", \"cpu_ms\": %.1f, \"peak_kib\": %ld, \"bytes\": %zu, "
	       "\"rows\": %u, \"rules\": %u, \"entries\": %u, \"rejected\": %u",
	       path, (double)ns / 1e6, peak_kib(), bytes, view->head->rows, view->head->rules,
	       view->head->entries, view->head->rejected);
	for (size_t i = 0; i < FP_UNWIND_CANNOT_COUNT; i++)
		printf(", \"cannot_%s\": %u", reasons[i], view->head->cannot[i]);
	puts("}");
}

static int show(const char *path, bool with_rows)
{
	FP_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;
	uint64_t start_ns = cpu_ns();
	int r = fd < 0 ? -errno : fp_unwind_table_make(fd, NULL, &table);
	uint64_t ns = cpu_ns() - start_ns;

	if (r == 0)
		r = fp_unwind_table_check(table.data, table.len, &view);
	if (r < 0) {
		printf("{\"file\": \"%s\", \"error\": \"%s\"}\n", path, strerror(-r));
		return 1;
	}
	if (with_rows)
		print_rows(&view);
	print_line(path, &view, ns, table.len);
	return 0;
}

int main(int argc, char **argv)
{
	bool with_rows = argc > 1 && strcmp(argv[1], "--rows") == 0;
	int failed = 0;

	for (int i = with_rows ? 2 : 1; i < argc; i++)
		failed |= show(argv[i], with_rows);
	return failed;
}
