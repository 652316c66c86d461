// SPDX-License-Identifier: Apache-2.0
#include "settings_table.h"

static void test_long_lines(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };
	static char content[16384];
	size_t most = 8192 - strlen("url = ") - 1;

	assert_int_equal(
	    load(&loaded, TEXT("[ship]\n"
			       "; " LONG_NAME LONG_NAME LONG_NAME "\n"
			       "  # " LONG_NAME LONG_NAME LONG_NAME "\n"
			       "url =  a" LONG_NAME LONG_NAME LONG_NAME "b ; comment ; again\n"
			       "mode = fast\n"
			       "rules: " LONG_NAME LONG_NAME "=;" LONG_NAME "  \r\n"
			       "rules = " LONG_NAME LONG_NAME " c\n"
			       "labels = a=1")),
	    0);
	assert_string_equal(loaded.config.url, "a" LONG_NAME LONG_NAME LONG_NAME "b");
	assert_string_equal(loaded.config.rules,
			    LONG_NAME LONG_NAME "=;" LONG_NAME "\n" LONG_NAME LONG_NAME " c");
	assert_int_equal(loaded.config.mode, 0);
	assert_string_equal(loaded.config.labels, "a=1");
	loaded_free(&loaded);

	for (size_t over = 0; over < 2; over++) {
		int size = snprintf(content, sizeof(content), "[ship]\nurl = ");

		memset(content + size, 'u', most + over);
		content[size + (int)(most + over)] = '\n';
		assert_int_equal(load(&loaded, content, (size_t)size + most + over + 1),
				 over ? -EINVAL : 0);
		if (over)
			assert_non_null(strstr((char *)loaded.error.data,
					       ":2: the line is longer than 8192 bytes"));
		else
			assert_int_equal(strlen(loaded.config.url), most);
		loaded_free(&loaded);
	}
}

static void test_lines(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 }, again = { 0 };
	FP_AUTOFREE char *text = NULL, *second = NULL;
	char directory[128];

	assert_int_equal(load(&loaded, TEXT("[ship]\nrules = drop a =~ \"b\"\nmode = fast\n"
					    "[cpu]\nhz = 5\n[ship]\nrules = keep c =~ d;e\n")),
			 0);
	assert_string_equal(loaded.config.rules, "drop a =~ \"b\"\nkeep c =~ d;e");
	text = dump(&loaded, true);
	assert_non_null(strstr(text, "\nrules = drop a =~ \"b\" ; /"));
	assert_non_null(strstr(text, "/x.conf:2\nrules = keep c =~ d;e ; /"));
	assert_non_null(strstr(strstr(text, "rules = keep"), "/x.conf:7\n"));
	assert_int_equal(load(&again, text, strlen(text)), 0);
	assert_string_equal(again.config.rules, loaded.config.rules);
	second = dump(&again, false);
	assert_non_null(strstr(second, "\nrules = drop a =~ \"b\"\nrules = keep c =~ d;e\n"));

	// flags: the first replaces, the next add
	for (int i = 0; i < 2; i++)
		assert_int_equal(fp_settings_apply_flag(&table, &loaded.config, loaded.origins,
							i ? "--ship-rules=two" : "--ship-rules=one",
							&loaded.error),
				 0);
	assert_string_equal(loaded.config.rules, "one\ntwo");
	setenv("FLEETPROF_SHIP_RULES", "x y\nz", 1);
	assert_int_equal(
	    fp_settings_read_environment(&table, &loaded.config, loaded.origins, &loaded.error), 0);
	unsetenv("FLEETPROF_SHIP_RULES");
	assert_string_equal(loaded.config.rules, "x y\nz");

	// a file of conf.d replaces what was before it
	snprintf(directory, sizeof(directory), "%s/x.conf.d", scratch_directory());
	mkdir(directory, 0700);
	write_file("x.conf.d/50.conf", TEXT("[ship]\nrules = other\n"));
	loaded_free(&loaded);
	assert_int_equal(load(&loaded, TEXT("[ship]\nrules = a\nrules = b\n")), 0);
	unlink(write_file("x.conf.d/50.conf", TEXT("")));
	assert_int_equal(rmdir(directory), 0);
	assert_string_equal(loaded.config.rules, "other");
}

static void expect_line(const struct loaded *loaded, uint32_t line, const char *ending)
{
	struct fp_setting_origin origin;
	size_t size;

	fp_setting_origin_line(&loaded->origins[FP_ARRAY_SIZE(rows) - 1], line, &origin);
	size = strlen(origin.text);
	assert_true(size >= strlen(ending));
	assert_string_equal(origin.text + size - strlen(ending), ending);
}

static void test_origins(void **state)
{
	AUTOLOADED struct loaded loaded = { 0 };
	static char content[8192];
	size_t size = 0;

	assert_int_equal(load(&loaded, TEXT("[ship]\nrules = one\nrules =\n\n; none\nrules = two\n"
					    "[cpu]\nhz = 5\n[ship]\nrules = three\n")),
			 0);
	expect_line(&loaded, 0, "/x.conf:2");
	expect_line(&loaded, 1, "/x.conf:6");
	expect_line(&loaded, 2, "/x.conf:10");
	expect_line(&loaded, 3, "/x.conf:10"); // there is none: the value's
	assert_int_equal(fp_settings_apply_flag(&table, &loaded.config, loaded.origins,
						"--ship-rules=four", &loaded.error),
			 0);
	expect_line(&loaded, 0, "flag");
	loaded_free(&loaded);

	for (int i = 0; i < FP_SETTING_LINES_KNOWN + 2; i++)
		size += (size_t)snprintf(content + size, sizeof(content) - size, "%srules = r\n",
					 i ? "" : "[ship]\n");
	assert_int_equal(load(&loaded, content, size), 0);
	expect_line(&loaded, FP_SETTING_LINES_KNOWN - 1, "/x.conf:161");
	expect_line(&loaded, FP_SETTING_LINES_KNOWN, "/x.conf:163"); // the last
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("a line may be longer than inih reads", test_long_lines),
		FP_CASE("a key of lines may be repeated, and each adds one", test_lines),
		FP_CASE("each line of a value knows where it stands", test_origins),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
