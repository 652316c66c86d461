// SPDX-License-Identifier: Apache-2.0
//
// settingsfile: the file form of the settings. inih splits lines into section, key and
// value; what it would pass over silently (unknown empty sections, continuation lines,
// NUL bytes) is refused here, line by line, before it sees it. Of a line longer than the 198
// bytes it reads it gets the key alone, and the value is put in behind it.
#include "settings.h"

#include "file.h"
#include "settingvalue.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 20, LINE_MAX_BYTES = 8192 };

struct reading {
	const struct fp_settings_table *table;
	void *settings;
	struct fp_setting_origin *origins;
	const char *path;
	const char *next, *end; // what is left of the content
	int line;
	int *seen_lines;	// per row: the line that set it in this file, or 0
	const char *long_value; // of the line that inih has the key of, or NULL
	size_t long_size;
	int result;
	struct fp_buf *error;
};

static int fail(struct reading *reading, const char *what, const char *cause)
{
	fp_buf_printf(reading->error, "%s:%d: %s%s%s", reading->path, reading->line, what,
		      what[0] ? ": " : "", cause);
	reading->result = -EINVAL;
	return -EINVAL;
}

// line is NUL-terminated and keeps its newline.
static int check_section(struct reading *reading, const char *line)
{
	size_t size = strcspn(line + 1, "]\n");

	if (line[1 + size] != ']')
		return fail(reading, "", "the ']' of a section line is missing");
	for (size_t i = 0; i < reading->table->count; i++) {
		const char *section = reading->table->rows[i].section;

		if (strlen(section) == size && memcmp(section, line + 1, size) == 0)
			return 0;
	}
	return fail(reading, "", "unknown section");
}

// line: what fits of the whole, which has size bytes at text.
static int check_line(struct reading *reading, const char *line, const char *text, size_t size)
{
	size_t indent = strspn(line, " \t\r");

	if (size > LINE_MAX_BYTES)
		return fail(reading, "", "the line is longer than 8192 bytes");
	if (memchr(text, '\0', size))
		return fail(reading, "", "the line holds a NUL byte");
	if (strchr("\n;#", line[indent]) || line[indent] == '\0')
		return 0; // blank or a comment
	if (indent > 0)
		return fail(reading, "",
			    "the line is indented; a value cannot go on in the next line");
	return line[0] == '[' ? check_section(reading, line) : 0;
}

// Leaves `key =` in line, and the rest to on_value.
static int keep_long_value(struct reading *reading, char *line, const char *text, size_t size)
{
	size_t key = strcspn(line, "=:"), indent = 0;

	while (indent < size && strchr(" \t\r", text[indent]))
		indent++;
	// Of a section line no ']' fits, and an indented line was refused: blank or a comment.
	if (indent == size || strchr("\n;#", text[indent])) {
		line[0] = '\0';
		return 0;
	}
	if (indent > 0)
		return fail(reading, "",
			    "the line is indented; a value cannot go on in the next line");
	if (!line[key])
		return fail(reading, "", "neither '[section]' nor 'key = value'");
	line[key + 1] = '\0';
	reading->long_value = text + key + 1;
	reading->long_size = size - key - 1;
	return 0;
}

// As fgets, for inih; it is called once per line.
static char *read_line(char *line, int room, void *stream)
{
	struct reading *reading = stream;
	size_t left = (size_t)(reading->end - reading->next), size, copied;
	const char *newline, *text = reading->next;
	int r;

	if (left == 0 || reading->result < 0)
		return NULL;
	newline = memchr(text, '\n', left);
	size = newline ? (size_t)(newline - text) + 1 : left;
	copied = size < (size_t)room ? size : (size_t)room - 1;
	memcpy(line, text, copied);
	line[copied] = '\0';
	reading->next += size;
	reading->line++;
	r = check_line(reading, line, text, size);
	if (r == 0 && copied < size)
		r = keep_long_value(reading, line, text, size);
	return r < 0 ? NULL : line;
}

static bool is_space(char byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// As inih does it: a ';' behind a space begins a comment, spaces around the value are none.
static char *long_value(const struct reading *reading)
{
	const char *value = reading->long_value;
	size_t size = 0;

	while (size < reading->long_size &&
	       !(value[size] == ';' && size > 0 && is_space(value[size - 1])))
		size++;
	for (; size > 0 && is_space(*value); size--)
		value++;
	while (size > 0 && is_space(value[size - 1]))
		size--;
	return strndup(value, size);
}

static void set_file_origin(struct reading *reading, size_t row)
{
	char line[16];
	int room;

	if (!reading->origins)
		return;
	room = (int)sizeof(reading->origins[row].text) -
	       snprintf(line, sizeof(line), ":%d", reading->line) - 1;
	// A path that does not fit loses its beginning: the file's own name tells more.
	if ((int)strlen(reading->path) > room)
		snprintf(reading->origins[row].text, sizeof(reading->origins[row].text), "...%s%s",
			 reading->path + strlen(reading->path) - (size_t)room + 3, line);
	else
		snprintf(reading->origins[row].text, sizeof(reading->origins[row].text), "%s%s",
			 reading->path, line);
}

// A value that adds no line has none.
static void keep_line(struct reading *reading, size_t row, bool adds, const char *value)
{
	struct fp_setting_origin *origin = reading->origins ? &reading->origins[row] : NULL;

	if (!origin || reading->table->rows[row].type != FP_SETTING_LINES)
		return;
	if (!adds)
		origin->lines_count = 0;
	if (value[0] && origin->lines_count < FP_SETTING_LINES_KNOWN)
		origin->lines[origin->lines_count++] = (uint32_t)reading->line;
}

static void apply_value(struct reading *reading, size_t row, const char *name, const char *value)
{
	const struct fp_setting *setting = &reading->table->rows[row];
	bool adds = setting->type == FP_SETTING_LINES && reading->seen_lines[row];
	FP_AUTOBUF struct fp_buf cause = { 0 };
	int r;

	if (reading->seen_lines[row] && !adds) {
		fp_buf_printf(&cause, "already set in line %d", reading->seen_lines[row]);
		fail(reading, name, cause.error ? "already set" : (char *)cause.data);
		return;
	}
	reading->seen_lines[row] = reading->line;
	r = adds ? fp_setting_add_line(setting, reading->settings, value, &cause)
		 : fp_setting_parse(setting, reading->settings, value, &cause);
	if (r < 0) {
		fail(reading, name, cause.len ? (char *)cause.data : strerror(-r));
		reading->result = r;
		return;
	}
	set_file_origin(reading, row);
	keep_line(reading, row, adds, value);
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
	struct reading *reading = user;
	FP_AUTOFREE char *whole = NULL;
	char name[160];

	if (reading->result < 0)
		return 0;
	if (reading->long_value) {
		whole = long_value(reading);
		reading->long_value = NULL;
		if (!whole) {
			reading->result = -ENOMEM;
			return 0;
		}
		value = whole;
	}
	snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", key);
	for (size_t i = 0; i < reading->table->count; i++) {
		const struct fp_setting *row = &reading->table->rows[i];

		if (strcmp(row->section, section) == 0 && strcmp(row->key, key) == 0) {
			apply_value(reading, i, name, value);
			return reading->result == 0;
		}
	}
	fail(reading, name, section[0] ? "unknown key" : "no [section] line stands before it");
	return 0;
}

static int read_one_file(struct reading *reading, const char *path)
{
	FP_AUTOFREE int *seen_lines = calloc(reading->table->count + 1, sizeof(*seen_lines));
	FP_AUTOBUF struct fp_buf content = { 0 };
	int r = fp_file_read(path, FILE_MAX_BYTES, &content);

	if (r < 0) {
		fp_buf_printf(reading->error, "%s: cannot be read: %s", path, strerror(-r));
		return r;
	}
	if (!seen_lines)
		return -ENOMEM;
	reading->path = path;
	reading->next = (char *)content.data;
	reading->end = reading->next + content.len;
	reading->line = 0;
	reading->seen_lines = seen_lines;
	r = ini_parse_stream(read_line, reading, on_value, reading);
	if (reading->result == 0 && r != 0) {
		reading->line = r; // inih goes on behind the first bad line, and tells which it was
		fail(reading, "", "neither '[section]' nor 'key = value'");
	}
	return reading->result;
}

static int is_drop_in(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > 5 &&
	       strcmp(entry->d_name + length - 5, ".conf") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_drop_ins(struct reading *reading, const char *directory)
{
	struct dirent **entries = NULL;
	int count = scandir(directory, &entries, is_drop_in, by_bytes), r = 0;

	if (count < 0) {
		if (errno == ENOENT)
			return 0;
		r = -errno;
		fp_buf_printf(reading->error, "%s: cannot be read: %s", directory, strerror(-r));
		return r;
	}
	for (int i = 0; i < count; i++) {
		FP_AUTOBUF struct fp_buf path = { 0 };

		if (r == 0)
			r = fp_buf_printf(&path, "%s/%s", directory, entries[i]->d_name);
		if (r == 0)
			r = read_one_file(reading, (char *)path.data);
		free(entries[i]);
	}
	free(entries);
	return r;
}

int fp_settings_read_file(const struct fp_settings_table *table, void *settings,
			  struct fp_setting_origin *origins, const char *path, struct fp_buf *error)
{
	FP_AUTOBUF struct fp_buf directory = { 0 };
	struct reading reading = {
		.table = table, .settings = settings, .origins = origins, .error = error
	};
	size_t length = strlen(path);
	bool has_suffix = length > 5 && strcmp(path + length - 5, ".conf") == 0;
	int r = read_one_file(&reading, path);

	if (r == 0)
		r = fp_buf_printf(&directory, "%s%s.d", path, has_suffix ? "" : ".conf");
	if (r == 0)
		r = read_drop_ins(&reading, (char *)directory.data);
	return r;
}
