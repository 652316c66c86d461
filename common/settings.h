// SPDX-License-Identifier: Apache-2.0
//
// settings: one table row per setting gives its place in the struct, section and key,
// default, range, unit, flag, help and whether a reload applies it. The file parser
// (INI, through inih), environment, command line, --dump-config and the documentation
// page are all driven by the same rows.
// Strict: an unknown section or key, a value out of range or without its unit is an error
// that names file, line and key. Precedence: flags > environment > conf.d/*.conf > file > default.
// Environment name: FLEETPROF_<SECTION>_<KEY> in capitals. Flag: --<section>-<key> with dashes.
// Ownership: string values are owned by the struct; fp_settings_free releases them.
#pragma once

#include "buf.h"

enum fp_setting_type {
	FP_SETTING_BOOL,     // bool: yes/no/true/false/on/off
	FP_SETTING_U32,	     // uint32_t: plain number
	FP_SETTING_SIZE,     // uint64_t bytes: number + B, KiB, MiB, GiB
	FP_SETTING_DURATION, // uint64_t nanoseconds: number + ms, s, min, h, d
	FP_SETTING_STRING,   // char *: never NULL after defaults
	FP_SETTING_CHOICE,   // uint32_t index into choices
	FP_SETTING_PAIRS,    // char *: `name=value, name=value`, validated; for static labels
	FP_SETTING_LINES,    // char *: lines with '\n' between; a file gives one a key, repeated
};

struct fp_setting {
	const char *section;
	const char *key;
	enum fp_setting_type type;
	size_t offset;		    // of the field in the settings struct
	const char *default_text;   // in file syntax
	uint64_t min, max;	    // in the unit of the field; max 0: no limit
	const char *const *choices; // NULL-terminated, for FP_SETTING_CHOICE
	bool reloadable;	    // SIGHUP applies it; otherwise "restart needed"
	const char *help;	    // one sentence, ends with a period
};

// True when the field is a string, which the struct owns.
static inline bool fp_setting_is_text(const struct fp_setting *row)
{
	return row->type == FP_SETTING_STRING || row->type == FP_SETTING_PAIRS ||
	       row->type == FP_SETTING_LINES;
}

#define FP_SETTING_LINES_KNOWN 160

// Where the value in force came from, one per row (for --dump-config).
struct fp_setting_origin {
	char text[96]; // "default", "/etc/…:12", "environment", "flag"
	// Of a FP_SETTING_LINES row that a file set: where each of its lines stands there; of more
	// than these the rest is not kept.
	uint32_t lines[FP_SETTING_LINES_KNOWN], lines_count;
};

struct fp_settings_table {
	const struct fp_setting *rows;
	size_t count;
	size_t struct_size;
};

// Fills *settings with the defaults. origins: table->count entries, or NULL.
int fp_settings_defaults(const struct fp_settings_table *table, void *settings,
			 struct fp_setting_origin *origins);
// Reads `path` and then `<path without .conf>.conf.d/*.conf` in byte order. On error returns
// -errno (-EINVAL for content) and puts one line into error: `path:line: section.key: cause`;
// *settings then holds part of the values and is only good for fp_settings_free. A line holds
// at most 8192 bytes. A key of FP_SETTING_LINES may stand repeatedly in a file, each adding a
// line to what the file says; the whole replaces what files before it said.
int fp_settings_read_file(const struct fp_settings_table *table, void *settings,
			  struct fp_setting_origin *origins, const char *path,
			  struct fp_buf *error);
int fp_settings_read_environment(const struct fp_settings_table *table, void *settings,
				 struct fp_setting_origin *origins, struct fp_buf *error);
// The same for one line of the value, from 0: `text` with that line's number.
void fp_setting_origin_line(const struct fp_setting_origin *origin, uint32_t line,
			    struct fp_setting_origin *ret);
// Applies one `--section-key=value` argument. -ENOENT: not a setting's flag. A flag of
// FP_SETTING_LINES adds a line where its origin says that a flag came before it.
int fp_settings_apply_flag(const struct fp_settings_table *table, void *settings,
			   struct fp_setting_origin *origins, const char *argument,
			   struct fp_buf *error);
void fp_settings_free(const struct fp_settings_table *table, void *settings);
// --dump-config: every value in file syntax with its origin as a comment.
int fp_settings_dump(const struct fp_settings_table *table, const void *settings,
		     const struct fp_setting_origin *origins, struct fp_buf *ret_text);
// The Markdown table for docs/.
int fp_settings_markdown(const struct fp_settings_table *table, struct fp_buf *ret_text);
