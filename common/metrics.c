// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include "clock.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static size_t slots_size(size_t count)
{
	return (count ? count : 1) * sizeof(uint64_t);
}

static int map_slots(const struct fp_metric *rows, size_t count, int fd,
		     struct fp_metrics *ret_metrics)
{
	void *slots = mmap(NULL, slots_size(count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (slots == MAP_FAILED)
		return -errno;
	*ret_metrics = (struct fp_metrics){ .rows = rows, .count = count, .slots = slots };
	return 0;
}

int fp_metrics_share(const struct fp_metric *rows, size_t count, struct fp_metrics *ret_metrics,
		     int *ret_fd)
{
	// Inherited on purpose: this descriptor is what the other process gets.
	FP_AUTOCLOSE int fd = memfd_create("fleetprof-metrics", MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)slots_size(count)) < 0)
		return -errno;
	// The less privileged side must not be able to shrink it under us (SIGBUS).
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	r = map_slots(rows, count, fd, ret_metrics);
	if (r == 0)
		*ret_fd = fp_take_fd(&fd);
	return r;
}

int fp_metrics_map(const struct fp_metric *rows, size_t count, int fd,
		   struct fp_metrics *ret_metrics)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	// Another table's memory, for example of another version, must not be misread.
	if (info.st_size != (off_t)slots_size(count))
		return -EINVAL;
	return map_slots(rows, count, fd, ret_metrics);
}

void fp_metrics_unmap(struct fp_metrics *metrics)
{
	if (metrics->slots)
		munmap(metrics->slots, slots_size(metrics->count));
	*metrics = (struct fp_metrics){ 0 };
}

static void render_header(const char *name, const char *help, const char *type, struct fp_buf *text)
{
	fp_buf_printf(text, "# HELP %s ", name);
	for (const char *p = help; *p; p++) {
		if (*p == '\\' || *p == '\n')
			fp_buf_str(text, *p == '\n' ? "\\n" : "\\\\");
		else
			fp_buf_byte(text, (uint8_t)*p);
	}
	fp_buf_printf(text, "\n# TYPE %s %s\n", name, type);
}

static void render_ns(uint64_t ns, struct fp_buf *text)
{
	fp_buf_printf(text, "%" PRIu64 ".%09" PRIu64 "\n", ns / (uint64_t)FP_NS_PER_S,
		      ns % (uint64_t)FP_NS_PER_S);
}

static void render_sample(const struct fp_metrics *metrics, size_t row, struct fp_buf *text)
{
	const struct fp_metric *metric = &metrics->rows[row];
	uint64_t value = fp_metric_get(metrics, row);

	fp_buf_str(text, metric->name);
	if (metric->labels)
		fp_buf_printf(text, "{%s}", metric->labels);
	fp_buf_byte(text, ' ');
	if (metric->unit == FP_METRIC_TEXT_INFO)
		fp_buf_str(text, "1\n"); // the labels are the information
	else if (metric->unit == FP_METRIC_NANOSECONDS)
		render_ns(value, text);
	else
		fp_buf_printf(text, "%" PRIu64 "\n", value);
}

static const char *type_word(const struct fp_metric *metric)
{
	return metric->type == FP_METRIC_COUNTER ? "counter" : "gauge";
}

static bool is_first_of_name(const struct fp_metric *rows, size_t row)
{
	for (size_t i = 0; i < row; i++)
		if (strcmp(rows[i].name, rows[row].name) == 0)
			return false;
	return true;
}

int fp_metrics_render(const struct fp_metrics *metrics, struct fp_buf *text)
{
	const struct fp_metric *rows = metrics->rows;

	// The format allows one block per name, so rows that stand apart are brought together.
	for (size_t i = 0; i < metrics->count; i++) {
		if (!is_first_of_name(rows, i))
			continue;
		render_header(rows[i].name, rows[i].help, type_word(&rows[i]), text);
		for (size_t j = i; j < metrics->count; j++)
			if (strcmp(rows[j].name, rows[i].name) == 0)
				render_sample(metrics, j, text);
	}
	return text->error;
}

struct process_stat {
	uint64_t cpu_ticks;
	uint64_t start_ticks; // since boot
	uint64_t resident_pages;
};

// Fields of /proc/PID/stat by their numbers in proc_pid_stat(5).
static int parse_process_stat(char *line, struct process_stat *ret_stat)
{
	char *rest = strrchr(line, ')'), *save = NULL; // the name may hold spaces and brackets
	uint64_t fields[25] = { 0 };
	int number = 3;

	if (!rest)
		return -EINVAL;
	for (char *word = strtok_r(rest + 1, " ", &save); word && number < 25;
	     word = strtok_r(NULL, " ", &save))
		fields[number++] = strtoull(word, NULL, 10);
	if (number < 25)
		return -EINVAL;
	*ret_stat = (struct process_stat){ .cpu_ticks = fields[14] + fields[15],
					   .start_ticks = fields[22],
					   .resident_pages = fields[24] };
	return 0;
}

static int read_boot_time_s(uint64_t *ret_s)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r = fp_file_read("/proc/stat", 16 << 20, &text);
	char *line;

	if (r < 0)
		return r;
	line = strstr((char *)text.data, "\nbtime ");
	if (!line)
		return -ENODATA;
	*ret_s = strtoull(line + 7, NULL, 10);
	return 0;
}

static int count_descriptors(const char *directory_path, uint64_t *ret_count)
{
	DIR *directory = opendir(directory_path);
	struct dirent *entry;
	uint64_t count = 0;

	if (!directory)
		return -errno;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			count++;
	closedir(directory);
	*ret_count = count;
	return 0;
}

static void render_gauge(const char *name, const char *help, uint64_t value, struct fp_buf *text)
{
	render_header(name, help, "gauge", text);
	fp_buf_printf(text, "%s %" PRIu64 "\n", name, value);
}

int fp_metrics_render_process(int pid, struct fp_buf *text)
{
	uint64_t ticks_per_s = (uint64_t)sysconf(_SC_CLK_TCK), boot_s, descriptors = 0;
	FP_AUTOBUF struct fp_buf content = { 0 };
	struct process_stat stat = { 0 };
	char path[64];
	int r;

	pid = pid ? pid : getpid();
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	r = fp_file_read(path, 4096, &content);
	if (r == 0)
		r = parse_process_stat((char *)content.data, &stat);
	if (r < 0)
		return r;
	render_header("process_cpu_seconds_total", "User and system CPU time.", "counter", text);
	fp_buf_str(text, "process_cpu_seconds_total ");
	render_ns(stat.cpu_ticks * ((uint64_t)FP_NS_PER_S / ticks_per_s), text);
	render_gauge("process_resident_memory_bytes", "Resident memory.",
		     stat.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE), text);
	if (read_boot_time_s(&boot_s) == 0)
		render_gauge("process_start_time_seconds",
			     "Start of the process, seconds since 1970.",
			     boot_s + stat.start_ticks / ticks_per_s, text);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	// Unreadable for a process of another user: then the line is left out.
	if (count_descriptors(path, &descriptors) == 0)
		render_gauge("process_open_fds", "Open file descriptors.", descriptors, text);
	return text->error;
}

static void markdown_cell(const char *string, struct fp_buf *text)
{
	for (const char *p = string; *p; p++) {
		if (*p == '|')
			fp_buf_byte(text, '\\');
		fp_buf_byte(text, (uint8_t)*p);
	}
}

int fp_metrics_markdown(const struct fp_metric *rows, size_t count, struct fp_buf *text)
{
	fp_buf_str(text, "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < count; i++) {
		fp_buf_printf(text, "| `%s` | %s | ", rows[i].name, type_word(&rows[i]));
		if (rows[i].labels) {
			fp_buf_byte(text, '`');
			markdown_cell(rows[i].labels, text);
			fp_buf_byte(text, '`');
		}
		fp_buf_str(text, " | ");
		markdown_cell(rows[i].help, text);
		fp_buf_str(text, " |\n");
	}
	return text->error;
}
