// SPDX-License-Identifier: Apache-2.0
//
// Which control groups are believed: those that root made. And what becomes of one that cannot be
// opened for the moment.
#include "cgroup_group.h"

#include <sys/resource.h>

#define SKIP 77

static void expect_group(const char *owner, const char *runtime, bool is_claimed)
{
	struct fp_cgroup_facts facts;
	struct fp_cgroup_tree tree;
	struct stat group;

	print_message("  %s\n", owner);
	assert_int_equal(stat(group_path, &group), 0);
	fp_cgroup_tree_open(choice.subsystem, &tree);
	assert_int_equal(fp_cgroup_tree_find(&tree, group.st_ino, &facts), 0);
	assert_string_equal(facts.container_id, ID);
	assert_string_equal(facts.runtime, runtime);
	assert_int_equal(facts.is_claimed, is_claimed);
	fp_cgroup_tree_close(&tree);
}

// Who may make groups in a group names them.
static void a_container_is_believed_where_root_made_its_group(void **state)
{
	assert_true(make_group(choice.mount));
	expect_group("root's in root's", "docker", false);
	assert_int_equal(chown(group_path, 65534, 65534), 0);
	expect_group("handed to somebody, in root's", "docker", false);
	assert_int_equal(chown(group_path, 0, 0), 0);
	assert_int_equal(chown(parent_path, 65534, 65534), 0);
	expect_group("root's in somebody's", "docker-rootless", true);
	assert_int_equal(chown(parent_path, 0, 0), 0);
	assert_int_equal(chmod(parent_path, 0777), 0);
	expect_group("root's, in which all may write", "docker-rootless", true);
	remove_group();
}

// The kubelet's log of the container that the group claims to be.
static void make_log(char directory[64], char link[256])
{
	char containers[128];

	strcpy(directory, "/tmp/fleetprof-test.XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(containers, sizeof(containers), "%s/containers", directory);
	assert_int_equal(mkdir(containers, 0755), 0);
	snprintf(link, 256, "%s/web-0_shop_nginx-" ID ".log", containers);
	assert_int_equal(symlink("/nowhere", link), 0);
}

static void remove_log(const char *directory, const char *link)
{
	char containers[128];

	snprintf(containers, sizeof(containers), "%s/containers", directory);
	unlink(link);
	rmdir(containers);
	rmdir(directory);
}

static void expect_labels(const char *log_directory, const char *pod, const char *service)
{
	struct fp_labeler_options options = { .cgroup_subsystem = choice.subsystem,
					      .log_directory = log_directory };
	struct fp_stack_record record = { .tgid = 1u << 30, .start_ns = 1 };
	struct fp_labeler *labeler;
	struct stat group;
	char *value;

	assert_int_equal(stat(group_path, &group), 0);
	record.cgroup_id = group.st_ino;
	assert_int_equal(fp_labeler_new(&options, &labeler), 0);
	expect_container(labeler, &record, 0, ID);
	value = label_of(labeler, &record, 0, "pod");
	assert_string_equal(value, pod);
	free(value);
	value = label_of(labeler, &record, 0, "service_name");
	assert_string_equal(value, service);
	free(value);
	fp_labeler_free(labeler);
}

static void a_claimed_container_has_the_names_of_no_pod(void **state)
{
	char directory[64], link[256];

	make_log(directory, link);
	assert_true(make_group(choice.mount));
	expect_labels(directory, "web-0", "web");
	assert_int_equal(chown(parent_path, 65534, 65534), 0);
	expect_labels(directory, "", "member");
	remove_group();
	remove_log(directory, link);
}

static void a_group_that_cannot_be_opened_for_now_is_asked_again(void **state)
{
	struct fp_labeler *labeler = labeler_new();
	struct fp_stack_record record = { .tgid = 1u << 30, .start_ns = 1 };
	struct rlimit before, none;
	struct stat group;

	assert_true(make_group(choice.mount));
	assert_int_equal(stat(group_path, &group), 0);
	record.cgroup_id = group.st_ino;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	expect_container(labeler, &record, 0, "");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect_container(labeler, &record, 0, ID);
	remove_group();
	fp_labeler_free(labeler);
}

static int leave_nothing(void **state)
{
	remove_group();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_container_is_believed_where_root_made_its_group),
		cmocka_unit_test(a_claimed_container_has_the_names_of_no_pod),
		cmocka_unit_test(a_group_that_cannot_be_opened_for_now_is_asked_again),
	};

	if (getuid() != 0) {
		puts("skipped: needs root");
		return SKIP;
	}
	if (!can_make_groups())
		return SKIP;
	return cmocka_run_group_tests(tests, NULL, leave_nothing);
}
