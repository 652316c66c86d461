// SPDX-License-Identifier: Apache-2.0
//
// settings_table: a table with a setting of every type, and files in the scratch directory.
#pragma once

#include "../cases.h"
#include "../scratch.h"

#include "common/clock.h"
#include "common/settings.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

struct config {
	bool enabled;
	uint32_t hz;
	uint64_t max_bytes;
	uint64_t window_ns;
	char *url;
	uint32_t mode;
	char *labels;
	char *rules;
};

static const char *const modes[] = { "fast", "slow", NULL };

static const struct fp_setting rows[] = {
	{ "cpu", "enabled", FP_SETTING_BOOL, offsetof(struct config, enabled), "yes", 0, 0, NULL,
	  true, "Samples the CPU." },
	{ "cpu", "hz", FP_SETTING_U32, offsetof(struct config, hz), "19", 1, 1000, NULL, true,
	  "Rate." },
	{ "spool", "max_bytes", FP_SETTING_SIZE, offsetof(struct config, max_bytes), "512MiB", 0, 0,
	  NULL, false, "Bound." },
	{ "spool", "window", FP_SETTING_DURATION, offsetof(struct config, window_ns), "60s",
	  FP_NS_PER_S, 3600 * FP_NS_PER_S, NULL, true, "Length." },
	{ "ship", "url", FP_SETTING_STRING, offsetof(struct config, url), "", 0, 0, NULL, true,
	  "Where to." },
	{ "ship", "mode", FP_SETTING_CHOICE, offsetof(struct config, mode), "slow", 0, 0, modes,
	  true, "How." },
	{ "ship", "labels", FP_SETTING_PAIRS, offsetof(struct config, labels), "", 0, 0, NULL, true,
	  "Labels." },
	{ "ship", "rules", FP_SETTING_LINES, offsetof(struct config, rules), "", 0, 0, NULL, true,
	  "Rules." },
};
static const struct fp_settings_table table = { rows, FP_ARRAY_SIZE(rows), sizeof(struct config) };

struct loaded {
	struct config config;
	struct fp_setting_origin origins[FP_ARRAY_SIZE(rows)];
	struct fp_buf error;
};

static inline void loaded_free(struct loaded *loaded)
{
	fp_settings_free(&table, &loaded->config);
	fp_buf_free(&loaded->error);
}
#define AUTOLOADED FP_CLEANUP(loaded_free)

static inline const char *write_file(const char *name, const char *content, size_t size)
{
	static char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", scratch_directory(), name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(content, 1, size, file), size);
	fclose(file);
	return path;
}

static inline int load(struct loaded *loaded, const char *content, size_t size)
{
	const char *path = write_file("x.conf", content, size);

	assert_int_equal(fp_settings_defaults(&table, &loaded->config, loaded->origins), 0);
	return fp_settings_read_file(&table, &loaded->config, loaded->origins, path,
				     &loaded->error);
}

static inline char *dump(const struct loaded *loaded, bool with_origins)
{
	struct fp_buf text = { 0 };

	assert_int_equal(
	    fp_settings_dump(&table, &loaded->config, with_origins ? loaded->origins : NULL, &text),
	    0);
	return fp_buf_take(&text);
}

#define TEXT(text) text, sizeof(text) - 1

#define LONG_NAME                                                                                  \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
	"xxxxxxxx"
