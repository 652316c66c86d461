// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include "settingvalue.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static void set_origin(struct fp_setting_origin *origins, size_t row, const char *text)
{
	if (!origins)
		return;
	snprintf(origins[row].text, sizeof(origins[row].text), "%s", text);
	origins[row].lines_count = 0;
}

void fp_setting_origin_line(const struct fp_setting_origin *origin, uint32_t line,
			    struct fp_setting_origin *ret)
{
	const char *colon = strrchr(origin->text, ':');

	snprintf(ret->text, sizeof(ret->text), "%s", origin->text);
	ret->lines_count = 0;
	if (line < origin->lines_count && colon)
		snprintf(ret->text, sizeof(ret->text), "%.*s:%u", (int)(colon - origin->text),
			 origin->text, origin->lines[line]);
}

int fp_settings_defaults(const struct fp_settings_table *table, void *settings,
			 struct fp_setting_origin *origins)
{
	FP_AUTOBUF struct fp_buf cause = { 0 };

	memset(settings, 0, table->struct_size);
	for (size_t i = 0; i < table->count; i++) {
		int r = fp_setting_parse(&table->rows[i], settings, table->rows[i].default_text,
					 &cause);

		if (r < 0) {
			fp_settings_free(table, settings);
			return r;
		}
		set_origin(origins, i, "default");
	}
	return 0;
}

void fp_settings_free(const struct fp_settings_table *table, void *settings)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct fp_setting *row = &table->rows[i];

		if (fp_setting_is_text(row))
			fp_free_ptr((char *)settings + row->offset);
	}
}

// FLEETPROF_SECTION_KEY
static void append_variable(const struct fp_setting *row, struct fp_buf *text)
{
	fp_buf_printf(text, "FLEETPROF_%s_%s", row->section, row->key);
	for (size_t i = 0; text->error == 0 && i < text->len; i++)
		text->data[i] = (uint8_t)toupper(text->data[i]);
}

// --section-key
static void append_flag(const struct fp_setting *row, struct fp_buf *text)
{
	size_t start = text->len;

	fp_buf_printf(text, "--%s-%s", row->section, row->key);
	for (size_t i = start; text->error == 0 && i < text->len; i++)
		if (text->data[i] == '_')
			text->data[i] = '-';
}

typedef int (*parse_fn)(const struct fp_setting *row, void *settings, const char *text,
			struct fp_buf *cause);

struct given { // a value and where it is from
	const struct fp_setting *row;
	const char *value, *where;
	parse_fn parse;
};

// Parses and, on failure, writes the line `where: section.key: cause`.
static int apply(const struct given *given, void *settings, struct fp_buf *error)
{
	FP_AUTOBUF struct fp_buf cause = { 0 };
	int r = given->parse(given->row, settings, given->value, &cause);

	if (r < 0)
		fp_buf_printf(error, "%s: %s.%s: %s", given->where, given->row->section,
			      given->row->key, cause.len ? (char *)cause.data : strerror(-r));
	return r;
}

int fp_settings_read_environment(const struct fp_settings_table *table, void *settings,
				 struct fp_setting_origin *origins, struct fp_buf *error)
{
	for (size_t i = 0; i < table->count; i++) {
		FP_AUTOBUF struct fp_buf name = { 0 };
		const char *value;
		int r;

		append_variable(&table->rows[i], &name);
		if (name.error)
			return name.error;
		value = getenv((char *)name.data);
		if (!value)
			continue;
		r = apply(
		    &(struct given){ &table->rows[i], value, (char *)name.data, fp_setting_parse },
		    settings, error);
		if (r < 0)
			return r;
		set_origin(origins, i, "environment");
	}
	return 0;
}

static parse_fn flag_parser(const struct fp_settings_table *table,
			    const struct fp_setting_origin *origins, size_t row)
{
	if (table->rows[row].type == FP_SETTING_LINES && origins &&
	    strcmp(origins[row].text, "flag") == 0)
		return fp_setting_add_line;
	return fp_setting_parse;
}

int fp_settings_apply_flag(const struct fp_settings_table *table, void *settings,
			   struct fp_setting_origin *origins, const char *argument,
			   struct fp_buf *error)
{
	size_t name_size = strcspn(argument, "=");

	for (size_t i = 0; i < table->count; i++) {
		FP_AUTOBUF struct fp_buf flag = { 0 };
		int r;

		append_flag(&table->rows[i], &flag);
		if (flag.error)
			return flag.error;
		if (flag.len != name_size || memcmp(flag.data, argument, name_size) != 0)
			continue;
		if (!argument[name_size]) {
			fp_buf_printf(error, "%s: a value is missing, write %s=…",
				      (char *)flag.data, (char *)flag.data);
			return -EINVAL;
		}
		r = apply(&(struct given){ &table->rows[i], argument + name_size + 1,
					   (char *)flag.data, flag_parser(table, origins, i) },
			  settings, error);
		if (r == 0)
			set_origin(origins, i, "flag");
		return r;
	}
	return -ENOENT;
}

static bool starts_section(const struct fp_settings_table *table, size_t row)
{
	return row == 0 || strcmp(table->rows[row].section, table->rows[row - 1].section) != 0;
}

static void dump_row(const struct fp_setting *row, const char *value, size_t size,
		     const struct fp_setting_origin *origin, struct fp_buf *text)
{
	fp_buf_printf(text, "%s = ", row->key);
	fp_buf_append(text, value, size);
	if (origin)
		fp_buf_printf(text, " ; %s", origin->text);
	fp_buf_byte(text, '\n');
}

// In file syntax: a line for each line of the value.
static void dump_lines(const struct fp_setting *row, const char *value,
		       const struct fp_setting_origin *origin, struct fp_buf *text)
{
	size_t size;

	for (uint32_t line = 0;; line++) {
		struct fp_setting_origin own;

		size = strcspn(value, "\n");
		if (origin)
			fp_setting_origin_line(origin, line, &own);
		dump_row(row, value, size, origin ? &own : NULL, text);
		if (!value[size])
			return;
		value += size + 1;
	}
}

int fp_settings_dump(const struct fp_settings_table *table, const void *settings,
		     const struct fp_setting_origin *origins, struct fp_buf *ret_text)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct fp_setting *row = &table->rows[i];
		const struct fp_setting_origin *origin = origins ? &origins[i] : NULL;
		FP_AUTOBUF struct fp_buf value = { 0 };

		if (starts_section(table, i))
			fp_buf_printf(ret_text, "%s[%s]\n", i ? "\n" : "", row->section);
		// A default is spelled as the documentation spells it: 168h, not 7d.
		if (origin && strcmp(origin->text, "default") == 0)
			fp_buf_str(&value, row->default_text);
		else
			fp_setting_format(row, settings, &value);
		if (value.error)
			return value.error;
		dump_lines(row, value.len ? (char *)value.data : "", origin, ret_text);
	}
	return ret_text->error;
}

static void markdown_row(const struct fp_setting *row, struct fp_buf *text)
{
	FP_AUTOBUF struct fp_buf range = { 0 }, flag = { 0 }, variable = { 0 };

	fp_setting_format_range(row, &range);
	append_flag(row, &flag);
	append_variable(row, &variable);
	if (range.error || flag.error || variable.error) {
		text->error = -ENOMEM;
		return;
	}
	fp_buf_printf(text, "| `%s` | %s%s%s | %s | %s | `%s` | `%s` | %s |\n", row->key,
		      row->default_text[0] ? "`" : "", row->default_text,
		      row->default_text[0] ? "`" : "(empty)", (char *)range.data,
		      row->reloadable ? "reload" : "restart", (char *)flag.data,
		      (char *)variable.data, row->help);
}

int fp_settings_markdown(const struct fp_settings_table *table, struct fp_buf *ret_text)
{
	for (size_t i = 0; i < table->count; i++) {
		if (starts_section(table, i))
			fp_buf_printf(ret_text,
				      "%s## [%s]\n\n"
				      "| Key | Default | Allowed | Takes effect | Flag | "
				      "Environment | Meaning |\n|---|---|---|---|---|---|---|\n",
				      i ? "\n" : "", table->rows[i].section);
		markdown_row(&table->rows[i], ret_text);
	}
	return ret_text->error;
}
