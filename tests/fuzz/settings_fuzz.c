// SPDX-License-Identifier: Apache-2.0
//
// settings_fuzz: any bytes as a settings file. What is accepted must read back from its own
// dump to the same values; what is refused must say why.
#include "fuzz.h"

#include "common/clock.h"
#include "common/file.h"
#include "common/settings.h"

#include <string.h>
#include <sys/mman.h>

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

#define ROW(section, key, type, field, text, min, max, choices)                                    \
	{                                                                                          \
		section, key, type, offsetof(struct config, field), text, min, max, choices, true, \
		    "."                                                                            \
	}
static const struct fp_setting rows[] = {
	ROW("cpu", "enabled", FP_SETTING_BOOL, enabled, "yes", 0, 0, NULL),
	ROW("cpu", "hz", FP_SETTING_U32, hz, "19", 1, 1000, NULL),
	ROW("spool", "max_bytes", FP_SETTING_SIZE, max_bytes, "1MiB", 0, 0, NULL),
	ROW("spool", "window", FP_SETTING_DURATION, window_ns, "60s", 0, 3600 * FP_NS_PER_S, NULL),
	ROW("ship", "url", FP_SETTING_STRING, url, "", 0, 0, NULL),
	ROW("ship", "mode", FP_SETTING_CHOICE, mode, "slow", 0, 0, modes),
	ROW("ship", "labels", FP_SETTING_PAIRS, labels, "", 0, 0, NULL),
	ROW("ship", "rules", FP_SETTING_LINES, rules, "", 0, 0, NULL),
};
static const struct fp_settings_table table = { rows, FP_ARRAY_SIZE(rows), sizeof(struct config) };

static int read_bytes(const void *bytes, size_t size, struct config *config, struct fp_buf *error)
{
	FP_AUTOCLOSE int fd = memfd_create("settings", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || fp_write_all(fd, bytes, size) < 0 ||
	    fp_settings_defaults(&table, config, NULL) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fp_settings_read_file(&table, config, NULL, path, error);
}

static void check_round_trip(const struct config *config)
{
	FP_AUTOBUF struct fp_buf dump = { 0 }, again = { 0 }, error = { 0 };
	struct config copy;
	int r;

	if (fp_settings_dump(&table, config, NULL, &dump) < 0)
		abort();
	r = read_bytes(dump.data, dump.len, &copy, &error);
	// The one thing a dump may not be able to say: a line longer than a file can hold,
	// because the dump writes spaces around '=' that the file had not.
	if (r < 0 && !strstr((char *)error.data, "longer than"))
		abort();
	if (r == 0 && (fp_settings_dump(&table, &copy, NULL, &again) < 0 || again.len != dump.len ||
		       memcmp(again.data, dump.data, dump.len) != 0))
		abort();
	fp_settings_free(&table, &copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct config config;

	if (read_bytes(data, size, &config, &error) == 0)
		check_round_trip(&config);
	else if (error.len == 0)
		abort();
	fp_settings_free(&table, &config);
	return 0;
}
