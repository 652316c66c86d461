// SPDX-License-Identifier: Apache-2.0
#include "settings_table.h"

static void test_defaults(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };

	assert_int_equal(load(&loaded, TEXT("; nothing but comments\n\n# and blanks\n  \n")), 0);
	assert_true(loaded.config.enabled);
	assert_int_equal(loaded.config.hz, 19);
	assert_int_equal(loaded.config.max_bytes, 512 << 20);
	assert_int_equal(loaded.config.window_ns, 60 * FP_NS_PER_S);
	assert_string_equal(loaded.config.url, "");
	assert_int_equal(loaded.config.mode, 1);
	assert_string_equal(loaded.origins[1].text, "default");
}

static void test_all_types(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };

	assert_int_equal(load(&loaded, TEXT("\xef\xbb\xbf[cpu]\r\n"
					    "enabled = off\r\n"
					    "hz=99   ; faster\r\n"
					    "[spool]\n"
					    "max_bytes = 3 GiB\n"
					    "window = 1500ms\n"
					    "[ship]\n"
					    "url = http://c:7171/x?a=b#c;d\n"
					    "mode = fast\n"
					    "labels = team=a b, zone.name = z\n"
					    "[cpu]")),
			 0);
	assert_false(loaded.config.enabled);
	assert_int_equal(loaded.config.hz, 99);
	assert_int_equal(loaded.config.max_bytes, 3ULL << 30);
	assert_int_equal(loaded.config.window_ns, 1500 * FP_NS_PER_MS);
	assert_string_equal(loaded.config.url, "http://c:7171/x?a=b#c;d");
	assert_int_equal(loaded.config.mode, 0);
	assert_string_equal(loaded.config.labels, "team=a b, zone.name = z");
}

struct error_case {
	const char *content;
	size_t size;
	const char *error; // behind the path
};

static const struct error_case error_cases[] = {
	{ TEXT("[cpu]\n\nhzz = 1\n"), ":3: cpu.hzz: unknown key" },
	{ TEXT("[cpu]\nurl = x\n"), ":2: cpu.url: unknown key" },
	{ TEXT("[cpus]\n"), ":1: unknown section" },
	{ TEXT("[cpu\nhz = 1\n"), ":1: the ']' of a section line is missing" },
	{ TEXT("hz = 1\n"), ":1: hz: no [section] line stands before it" },
	{ TEXT("[cpu]\nhz\n"), ":2: neither '[section]' nor 'key = value'" },
	{ TEXT("[cpu]\nhz = 5\n# x\nhz = 6\n"), ":4: cpu.hz: already set in line 2" },
	{ TEXT("[ship]\nurl = a\n  b\n"),
	  ":3: the line is indented; a value cannot go on in the next line" },
	{ TEXT("[cpu]\nhz = 0\n"), ":2: cpu.hz: out of range, allowed is 1 to 1000" },
	{ TEXT("[cpu]\nhz = 1001\n"), ":2: cpu.hz: out of range, allowed is 1 to 1000" },
	{ TEXT("[cpu]\nhz = 99999999999999999999\n"),
	  ":2: cpu.hz: out of range, allowed is 1 to 1000" },
	{ TEXT("[cpu]\nhz = -1\n"), ":2: cpu.hz: not a whole number" },
	{ TEXT("[cpu]\nhz = 19Hz\n"), ":2: cpu.hz: not a whole number" },
	{ TEXT("[cpu]\nhz =\n"), ":2: cpu.hz: not a whole number" },
	{ TEXT("[cpu]\nenabled = 1\n"), ":2: cpu.enabled: neither yes nor no" },
	{ TEXT("[spool]\nmax_bytes = 100\n"),
	  ":2: spool.max_bytes: the unit is missing, expected B, KiB, MiB, GiB" },
	{ TEXT("[spool]\nmax_bytes = 100MB\n"),
	  ":2: spool.max_bytes: unknown unit 'MB', expected B, KiB, MiB, GiB" },
	{ TEXT("[spool]\nmax_bytes = 99999999999GiB\n"),
	  ":2: spool.max_bytes: out of range, allowed is 0B or more" },
	{ TEXT("[spool]\nwindow = 10\n"),
	  ":2: spool.window: the unit is missing, expected us, ms, s, min, h, d" },
	{ TEXT("[spool]\nwindow = 1.5s\n"),
	  ":2: spool.window: fractions are not accepted, use a smaller unit" },
	{ TEXT("[spool]\nwindow = 2h\n"), ":2: spool.window: out of range, allowed is 1s to 1h" },
	{ TEXT("[ship]\nmode = quick\n"), ":2: ship.mode: not one of fast, slow" },
	{ TEXT("[ship]\nurl = a\tb\n"), ":2: ship.url: control characters are not accepted" },
	{ TEXT("[ship]\nlabels = a\n"), ":2: ship.labels: expected name=value, name=value" },
	{ TEXT("[ship]\nlabels = 1a=b\n"),
	  ":2: ship.labels: '1a=b' has no valid name or no value" },
	{ TEXT("[ship]\nlabels = a=\n"), ":2: ship.labels: 'a=' has no valid name or no value" },
	{ TEXT("[ship]\nlabels = a=1,\n"), ":2: ship.labels: expected name=value, name=value" },
	{ TEXT("[ship]\nlabels = a=1, b=2,a =3\n"), ":2: ship.labels: 'a' is given twice" },
	{ TEXT("[cpu]\nhz = 1\0\n"), ":2: the line holds a NUL byte" },
	{ TEXT("[" LONG_NAME LONG_NAME LONG_NAME "]\n"),
	  ":1: the ']' of a section line is missing" },
	{ TEXT("[ship]\n" LONG_NAME LONG_NAME LONG_NAME "\n"),
	  ":2: neither '[section]' nor 'key = value'" },
	{ TEXT("[ship]\n" LONG_NAME LONG_NAME LONG_NAME "x = y\n"),
	  ":2: neither '[section]' nor 'key = value'" },
	{ TEXT("[ship]\n\t" LONG_NAME LONG_NAME LONG_NAME "x = y\n"),
	  ":2: the line is indented; a value cannot go on in the next line" },
	{ TEXT("[ship]\nlabels = a=" LONG_NAME LONG_NAME ", b\n"),
	  ":2: ship.labels: expected name=value, name=value" },
	{ TEXT("[ship]\nurl = " LONG_NAME LONG_NAME LONG_NAME "\0\n"),
	  ":2: the line holds a NUL byte" },
	{ TEXT("[ship]\nrules = a\nmode = fast\nrules = b\tc\n"),
	  ":4: ship.rules: control characters are not accepted" },
};

static void test_errors(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(error_cases); i++) {
		const struct error_case *c = &error_cases[i];
		AUTOLOADED struct loaded loaded = { 0 };
		char expected[256];

		snprintf(expected, sizeof(expected), "%s/x.conf%s", scratch_directory(), c->error);
		print_message("  %s\n", c->error + 1);
		assert_int_equal(load(&loaded, c->content, c->size), -EINVAL);
		assert_string_equal((char *)loaded.error.data, expected);
	}
}

static void test_unreadable(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };

	assert_int_equal(fp_settings_defaults(&table, &loaded.config, NULL), 0);
	assert_int_equal(fp_settings_read_file(&table, &loaded.config, NULL, "/nonexistent/a.conf",
					       &loaded.error),
			 -ENOENT);
	assert_string_equal((char *)loaded.error.data,
			    "/nonexistent/a.conf: cannot be read: No such file or directory");
}

static void test_drop_ins(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };
	char directory[128], expected[160];

	snprintf(directory, sizeof(directory), "%s/x.conf.d", scratch_directory());
	assert_int_equal(mkdir(directory, 0700), 0);
	write_file("x.conf.d/20.conf", TEXT("[cpu]\nhz = 20\n"));
	write_file("x.conf.d/10.conf", TEXT("[cpu]\nhz = 10\n[ship]\nurl = ten\n"));
	write_file("x.conf.d/30.conf.disabled", TEXT("[nonsense]\n"));
	write_file("x.conf.d/.conf", TEXT("[nonsense]\n"));
	assert_int_equal(load(&loaded, TEXT("[cpu]\nhz = 5\nenabled = no\n")), 0);
	assert_int_equal(loaded.config.hz, 20);
	assert_string_equal(loaded.config.url, "ten");
	assert_false(loaded.config.enabled);
	snprintf(expected, sizeof(expected), "%s/20.conf:2", directory);
	assert_string_equal(loaded.origins[1].text, expected);
	snprintf(expected, sizeof(expected), "%s/x.conf:3", scratch_directory());
	assert_string_equal(loaded.origins[0].text, expected);
	loaded_free(&loaded);

	write_file("x.conf.d/20.conf", TEXT("\n[nonsense]\n"));
	assert_int_equal(load(&loaded, TEXT("")), -EINVAL);
	snprintf(expected, sizeof(expected), "%s/20.conf:2: unknown section", directory);
	assert_string_equal((char *)loaded.error.data, expected);
	unlink(write_file("x.conf.d/20.conf", TEXT("")));
	unlink(write_file("x.conf.d/10.conf", TEXT("")));
}

static void test_long_origin(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };
	size_t length;

	write_file(LONG_NAME ".conf", TEXT("\n[cpu]\nhz = 5\n"));
	assert_int_equal(fp_settings_defaults(&table, &loaded.config, loaded.origins), 0);
	assert_int_equal(
	    fp_settings_read_file(&table, &loaded.config, loaded.origins,
				  write_file(LONG_NAME ".conf", TEXT("\n[cpu]\nhz = 5\n")),
				  &loaded.error),
	    0);
	length = strlen(loaded.origins[1].text);
	assert_int_equal(length, sizeof(loaded.origins[1].text) - 1);
	assert_memory_equal(loaded.origins[1].text, "...x", 4);
	assert_string_equal(loaded.origins[1].text + length - 8, "x.conf:3");
}

static void test_precedence(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };

	setenv("FLEETPROF_CPU_HZ", "49", 1);
	setenv("FLEETPROF_SPOOL_MAX_BYTES", "7KiB", 1);
	setenv("FLEETPROF_CPU_NO_SUCH_KEY", "ignored", 1);
	assert_int_equal(load(&loaded, TEXT("[cpu]\nhz = 5\n[spool]\nmax_bytes = 1B\n")), 0);
	assert_int_equal(
	    fp_settings_read_environment(&table, &loaded.config, loaded.origins, &loaded.error), 0);
	assert_int_equal(fp_settings_apply_flag(&table, &loaded.config, loaded.origins,
						"--spool-max-bytes=9MiB", &loaded.error),
			 0);
	assert_int_equal(loaded.config.hz, 49);
	assert_string_equal(loaded.origins[1].text, "environment");
	assert_int_equal(loaded.config.max_bytes, 9 << 20);
	assert_string_equal(loaded.origins[2].text, "flag");
	unsetenv("FLEETPROF_SPOOL_MAX_BYTES");
	setenv("FLEETPROF_CPU_HZ", "x", 1);
	assert_int_equal(fp_settings_read_environment(&table, &loaded.config, NULL, &loaded.error),
			 -EINVAL);
	assert_string_equal((char *)loaded.error.data,
			    "FLEETPROF_CPU_HZ: cpu.hz: not a whole number");
	assert_int_equal(loaded.config.hz, 49);
	unsetenv("FLEETPROF_CPU_HZ");
}

static void test_flags(void **state)
{
	static const struct {
		const char *argument;
		int result;
		const char *error;
	} cases[] = {
		{ "--cpu-hz=7", 0, "" },
		{ "--ship-url=", 0, "" },
		{ "--ship-url=a=b", 0, "" },
		{ "--cpu-hz", -EINVAL, "--cpu-hz: a value is missing, write --cpu-hz=…" },
		{ "--cpu-hz=0", -EINVAL, "--cpu-hz: cpu.hz: out of range, allowed is 1 to 1000" },
		{ "--ship-url=a ;b", -EINVAL,
		  "--ship-url: ship.url: ' ;' begins a comment and is not accepted in a value" },
		{ "--ship-url= a", -EINVAL,
		  "--ship-url: ship.url: leading and trailing spaces are not accepted" },
		{ "--cpu-h=7", -ENOENT, "" },
		{ "--spool-max_bytes=1B", -ENOENT, "" },
		{ "--help", -ENOENT, "" },
		{ "", -ENOENT, "" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		AUTOLOADED struct loaded loaded = { 0 };

		assert_int_equal(fp_settings_defaults(&table, &loaded.config, loaded.origins), 0);
		assert_int_equal(fp_settings_apply_flag(&table, &loaded.config, loaded.origins,
							cases[i].argument, &loaded.error),
				 cases[i].result);
		assert_string_equal(loaded.error.len ? (char *)loaded.error.data : "",
				    cases[i].error);
	}
}

static void test_dump(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 }, again = { 0 };
	FP_AUTOFREE char *first = NULL, *second = NULL, *commented = NULL;

	assert_int_equal(load(&loaded, TEXT("[spool]\nwindow = 90s\nmax_bytes = 1536KiB\n"
					    "[ship]\nurl = http://x\nlabels = a=1, b=2\n")),
			 0);
	first = dump(&loaded, false);
	assert_string_equal(first, "[cpu]\nenabled = yes\nhz = 19\n\n"
				   "[spool]\nmax_bytes = 1536KiB\nwindow = 90s\n\n"
				   "[ship]\nurl = http://x\nmode = slow\nlabels = a=1, b=2\n"
				   "rules = \n");
	commented = dump(&loaded, true);
	assert_non_null(strstr(commented, "\nhz = 19 ; default\n"));
	assert_non_null(strstr(commented, "/x.conf:2\n"));
	assert_int_equal(load(&again, commented, strlen(commented)), 0);
	second = dump(&again, false);
	assert_string_equal(second, first);
}

static void test_dump_spells_defaults(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };
	FP_AUTOFREE char *text = NULL;

	assert_int_equal(load(&loaded, TEXT("[spool]\nmax_bytes = 2048MiB\n")), 0);
	text = dump(&loaded, true);
	assert_non_null(strstr(text, "\nwindow = 60s ; default\n")); // not 1min
	assert_non_null(strstr(text, "\nmax_bytes = 2GiB ; /"));
}

static void test_markdown(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	const char *page;

	assert_int_equal(fp_settings_markdown(&table, &text), 0);
	page = (char *)text.data;
	assert_memory_equal(page, "## [cpu]\n\n| Key | ", 18);
	assert_non_null(strstr(page, "\n| `max_bytes` | `512MiB` | 0B or more | restart | "
				     "`--spool-max-bytes` | `FLEETPROF_SPOOL_MAX_BYTES` | Bound. "
				     "|\n"));
	assert_non_null(strstr(page, "\n| `url` | (empty) | text | reload | "));
	assert_non_null(strstr(page, "\n| `mode` | `slow` | fast, slow | "));
}

static void test_bad_default(void **state)
{
	const struct fp_setting bad[] = {
		{ "a", "s", FP_SETTING_STRING, offsetof(struct config, url), "text", 0, 0, NULL,
		  true, "First." },
		{ "a", "k", FP_SETTING_U32, offsetof(struct config, hz), "0", 1, 2, NULL, true,
		  "Bad." },
	};
	const struct fp_settings_table bad_table = { bad, 2, sizeof(struct config) };
	struct config config;

	assert_int_equal(fp_settings_defaults(&bad_table, &config, NULL), -EINVAL);
	assert_null(config.url);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("an empty file leaves the defaults", test_defaults),
		FP_CASE("a file sets values of every type", test_all_types),
		FP_CASE("an error names file, line, key and cause", test_errors),
		FP_CASE("an unreadable file is named", test_unreadable),
		FP_CASE("drop-in files override in byte order", test_drop_ins),
		FP_CASE("a long path keeps its end as origin", test_long_origin),
		FP_CASE("flags beat the environment, which beats files", test_precedence),
		FP_CASE("flags are matched whole and checked like files", test_flags),
		FP_CASE("a dump reads back to the same settings", test_dump),
		FP_CASE("a dump spells defaults as the table does", test_dump_spells_defaults),
		FP_CASE("the documentation table has every column", test_markdown),
		FP_CASE("a default outside its own range is refused", test_bad_default),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
