// SPDX-License-Identifier: Apache-2.0
#include "agent/opener_mounts.h"

#include "common/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICE(major, minor) ((uint64_t)(major) << 32 | (minor))

// As kernels write it, among lines that make no sense.
static const char table[] =
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "23 22 0:21 / /proc rw,nosuid - proc proc rw\n"
    "24 22 0:45 / /tmp rw - tmpfs tmpfs rw\n"
    "\n"
    "x y z\n"
    "25 22 0:46\n"
    "26 22 0:47 / /no/dash rw shared:9\n"
    "27 22 0:48 / /no/type rw -\n"
    "28 24 0:50 / /tmp/remote rw,nosuid shared:3 master:1 - fuse.sshfs me@far:/ rw,user_id=0\n"
    "29 22 0:51 / /mnt/a\\040b rw - nfs4 server:/x rw\n"
    "30 22 0:52 / /mnt rw - overlay overlay rw,lowerdir=/a:/b - fuse\n"
    "31 22 8:17 / /usb rw - fuseblk /dev/sdb1 rw\n"
    "32 22 0:60 / /over rw - ext4 /dev/x rw\n"
    "33 32 0:61 / /over rw - 9p host rw";

static void assert_type(bool found, const struct fp_mount *mount, const char *type)
{
	assert_int_equal(found, type != NULL);
	if (!type)
		return;
	assert_int_equal(mount->type_size, strlen(type));
	assert_memory_equal(mount->type, type, mount->type_size);
}

static void a_path_belongs_to_the_deepest_and_uppermost_mount(void **state)
{
	static const struct {
		const char *path, *type;
	} cases[] = {
		{ "/", "ext4" },
		{ "/etc/passwd", "ext4" },
		{ "/tmp", "tmpfs" },
		{ "/tmp/perf-1.map", "tmpfs" },
		{ "/tmpx/perf-1.map", "ext4" },
		{ "/tmp/remote/perf-1.map", "fuse.sshfs" },
		{ "/tmp/remotely", "tmpfs" },
		{ "/mnt/a b/file", "nfs4" },
		{ "/mnt/a\\040b/file", "overlay" },
		{ "/mnt/other", "overlay" },
		{ "/over/file", "9p" },
		{ "/no/dash/file", "ext4" },
		{ "/no/type/file", "ext4" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_mount mount;

		assert_type(fp_mount_of_path(table, cases[i].path, &mount), &mount, cases[i].type);
	}
}

static void a_mount_is_found_by_device_and_by_id(void **state)
{
	struct fp_mount mount;

	assert_type(fp_mount_of_device(table, DEVICE(254, 1), &mount), &mount, "ext4");
	assert_type(fp_mount_of_device(table, DEVICE(0, 50), &mount), &mount, "fuse.sshfs");
	assert_type(fp_mount_of_device(table, DEVICE(0, 52), &mount), &mount, "overlay");
	assert_type(fp_mount_of_device(table, DEVICE(0, 48), &mount), &mount, NULL);
	assert_type(fp_mount_of_id(table, 33, &mount), &mount, "9p");
	assert_type(fp_mount_of_id(table, 25, &mount), &mount, NULL);
	assert_type(fp_mount_of_device("", DEVICE(0, 1), &mount), &mount, NULL);
}

static void the_deny_list_names_types_or_their_families(void **state)
{
	static const struct {
		const char *list;
		uint64_t device;
		bool denied;
	} cases[] = {
		{ "fuse, nfs4", DEVICE(0, 50), true },
		{ "fuse.sshfs", DEVICE(0, 50), true },
		{ "fuse.other", DEVICE(0, 50), false },
		{ "fuse.ssh", DEVICE(0, 50), false },
		{ "sshfs", DEVICE(0, 50), false },
		{ "nfs", DEVICE(0, 51), false },
		{ "nfs4", DEVICE(0, 51), true },
		{ "9p,nfs,nfs4", DEVICE(0, 51), true },
		{ "fuse", DEVICE(8, 17), false },
		{ " fuse ,  fuseblk ", DEVICE(8, 17), true },
		{ "", DEVICE(0, 50), false },
		{ " , ,", DEVICE(0, 50), false },
		{ "ext", DEVICE(254, 1), false },
		{ "ext4x", DEVICE(254, 1), false },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_mount mount;

		assert_true(fp_mount_of_device(table, cases[i].device, &mount));
		if (fp_mount_is_denied(&mount, cases[i].list) != cases[i].denied)
			fail_msg("'%s' on row %zu", cases[i].list, i);
	}
}

static void a_path_is_denied_by_any_mount_on_the_way(void **state)
{
	static const struct {
		const char *path, *list;
		bool denied;
	} cases[] = {
		{ "/tmp/remote/perf-1.map", "fuse", true },
		{ "/tmp/remotely/perf-1.map", "fuse", false },
		{ "/tmp/remote/perf-1.map", "tmpfs", true }, // lies above it
		{ "/over/file", "ext4", true },		     // is covered by another
		{ "/over/file", "9p", true },
		{ "/mnt/a b/file", "overlay", true },
		{ "/mnt/a b/file", "fuse", false },
		{ "/tmp/file", "ext4", true }, // the root's
		{ "/tmp/file", "", false },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++)
		if (fp_mount_path_is_denied(table, cases[i].path, cases[i].list) != cases[i].denied)
			fail_msg("%s with %s", cases[i].path, cases[i].list);
}

static void numbers_that_are_none_make_no_mount(void **state)
{
	static const char *const lines[] = {
		"1 2 3:4\n/ /point rw - ext4 /dev/x rw\n",
		"1 2 3:\n4 / /point rw - ext4 /dev/x rw\n",
		"1 \n2 3:4 / /point rw - ext4 /dev/x rw\n",
		"1 2 -3:4 / /point rw - ext4 /dev/x rw\n",
		"1 2 4294967296:4 / /point rw - ext4 /dev/x rw\n",
		"1 2 3:0x4 / /point rw - ext4 /dev/x rw\n",
		" 1 2 3:4 / /point rw - ext4 /dev/x rw\n",
		"1 2 3:4",
		"1",
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(lines); i++) {
		const char *text = lines[i];
		struct fp_mount mount;

		if (fp_mount_next(&text, &mount))
			fail_msg("row %zu", i);
	}
}

#define MANY 2000

// One upon the other on /stack, each with a device of its own, and one aside.
static void each_of_many_mounts_is_found(void **state)
{
	FP_AUTOFREE char *text = NULL;
	struct fp_mount mount;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	for (unsigned int i = 0; i < MANY; i++)
		fprintf(out, "%u %u 0:%u / /stack rw,relatime shared:%u - type%u none rw\n",
			1000 + i, 999 + i, 100 + i, i, i);
	fprintf(out, "9000 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
	assert_int_equal(fclose(out), 0);
	for (unsigned int i = 0; i < MANY; i++) {
		char type[16];

		snprintf(type, sizeof(type), "type%u", i);
		assert_type(fp_mount_of_id(text, 1000 + i, &mount), &mount, type);
		assert_int_equal(mount.device, DEVICE(0, 100 + i));
		assert_type(fp_mount_of_device(text, DEVICE(0, 100 + i), &mount), &mount, type);
		assert_int_equal(mount.id, 1000 + i);
	}
	assert_type(fp_mount_of_path(text, "/stack/file", &mount), &mount, "type1999");
	assert_type(fp_mount_of_path(text, "/aside", &mount), &mount, "ext4");
	assert_false(fp_mount_of_id(text, 1000 + MANY, &mount));
	assert_true(fp_mount_path_is_denied(text, "/stack/file", "type1000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_belongs_to_the_deepest_and_uppermost_mount),
		cmocka_unit_test(a_mount_is_found_by_device_and_by_id),
		cmocka_unit_test(the_deny_list_names_types_or_their_families),
		cmocka_unit_test(a_path_is_denied_by_any_mount_on_the_way),
		cmocka_unit_test(numbers_that_are_none_make_no_mount),
		cmocka_unit_test(each_of_many_mounts_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
