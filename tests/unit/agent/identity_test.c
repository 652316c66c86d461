// SPDX-License-Identifier: Apache-2.0
#include "agent/identity.h"

#include "common/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static const struct {
	const char *sentence, *text;
	int result;
} ids[] = {
	{ "a machine-id is 32 digits and a newline", "0123456789abcdef0123456789ABCDEF\n", 0 },
	{ "a boot id has dashes", "01234567-89ab-cdef-0123-456789abcdef\n", 0 },
	{ "an empty file is none", "", -EINVAL },
	{ "a short one is none", "0123456789abcdef\n", -EINVAL },
	{ "a long one is none", "0123456789abcdef0123456789abcdef0\n", -EINVAL },
	{ "systemd's placeholder is none", "uninitialized\n", -EINVAL },
	{ "all zero is none", "00000000000000000000000000000000\n", -EINVAL },
	{ "a letter that is no digit makes it none", "0123456789abcdefg123456789abcdef\n",
	  -EINVAL },
};

static void test_parse(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(ids); i++) {
		uint8_t id[16] = { 7 };

		print_message("  %s\n", ids[i].sentence);
		assert_int_equal(fp_identity_parse(ids[i].text, strlen(ids[i].text), id),
				 ids[i].result);
		assert_int_equal(id[0], ids[i].result ? 7 : 0x01);
		if (ids[i].result == 0)
			assert_int_equal(id[15], 0xef);
	}
}

static char directory[] = "/tmp/fp-identity-XXXXXX";

static int set_up(void **state)
{
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/host-id", directory);
	unlink(path);
	return rmdir(directory);
}

static void test_made_id_is_kept(void **state)
{
	const struct fp_identity_source source = { .machine_id_file = "/nonexistent",
						   .state_directory = directory };
	struct fp_identity first, second;

	assert_int_equal(fp_identity_read(&source, &first), 0);
	assert_true(first.host_id_made);
	assert_int_equal(fp_identity_read(&source, &second), 0);
	assert_memory_equal(first.host_id, second.host_id, 16);
	assert_memory_equal(first.boot_id, second.boot_id, 16);
}

// A damaged file is replaced, and the new id is kept in its turn.
static void test_damaged_id(void **state)
{
	const struct fp_identity_source source = { .machine_id_file = "/nonexistent",
						   .state_directory = directory };
	int fd FP_AUTOCLOSE = fp_dir_open(directory, 0755);
	struct fp_identity first, second;

	assert_int_equal(fp_file_write_durable(fd, "host-id", "damaged", 7, 0644), 0);
	assert_int_equal(fp_identity_read(&source, &first), 0);
	assert_int_equal(fp_identity_read(&source, &second), 0);
	assert_memory_equal(first.host_id, second.host_id, 16);
}

static void test_machine_id(void **state)
{
	const struct fp_identity_source source = {
		.machine_id_file = "/proc/sys/kernel/random/boot_id", // has the form of one
		.state_directory = "/nonexistent",
		.hostname = "named",
	};
	struct fp_identity identity;

	assert_int_equal(fp_identity_read(&source, &identity), 0);
	assert_false(identity.host_id_made);
	assert_memory_equal(identity.host_id, identity.boot_id, 16);
	assert_string_equal(identity.hostname, "named");
}

static void test_stamp(void **state)
{
	struct fp_identity identity = { .host_id = { 1 },
					.boot_id = { 2 },
					.hostname = "h",
					.kernel_release = "6.1",
					.machine = "m" };
	struct fp_profile *profile FP_AUTOPROFILE = NULL;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_identity_stamp(&identity, 42, profile), 0);
	assert_int_equal(profile->sequence, 42);
	assert_memory_equal(profile->host_id, identity.host_id, 16);
	assert_memory_equal(profile->boot_id, identity.boot_id, 16);
	assert_string_equal(fp_profile_str(profile, profile->hostname), "h");
	assert_string_equal(fp_profile_str(profile, profile->kernel_release), "6.1");
	assert_string_equal(fp_profile_str(profile, profile->machine), "m");
	assert_string_equal(fp_profile_str(profile, profile->agent_version), FP_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),	   cmocka_unit_test(test_made_id_is_kept),
		cmocka_unit_test(test_damaged_id), cmocka_unit_test(test_machine_id),
		cmocka_unit_test(test_stamp),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
