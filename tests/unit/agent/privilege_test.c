// SPDX-License-Identifier: Apache-2.0
//
// Dropping cannot be taken back, so each case is a child of its own. Needs root.
#include "agent/privilege.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define NOBODY 65534

// Exit code of the check in a child.
static int in_child(int (*check)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(check());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static uint64_t six(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < FP_CAPABILITY_COUNT; i++)
		mask |= 1ULL << fp_capabilities[i].capability;
	return mask;
}

static int check_dropped(void)
{
	const struct fp_privilege privilege = { .uid = NOBODY, .gid = NOBODY, .change_user = true };
	uid_t uids[3];
	uint64_t mask = 0;

	if (fp_privilege_drop(&privilege) < 0)
		return 1;
	if (getresuid(&uids[0], &uids[1], &uids[2]) < 0 || uids[0] != NOBODY || uids[1] != NOBODY ||
	    uids[2] != NOBODY || getgroups(0, NULL) != 0)
		return 2;
	if (fp_privilege_effective(&mask) < 0 || mask != six())
		return 3;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) != 1)
		return 4;
	if (prctl(PR_CAPBSET_READ, (long)CAP_SYS_ADMIN, 0L, 0L, 0L) != 0 ||
	    prctl(PR_CAPBSET_READ, (long)CAP_BPF, 0L, 0L, 0L) != 1)
		return 5;
	if (setresuid(0, 0, 0) == 0)
		return 6;
	// Files of root are readable (CAP_DAC_READ_SEARCH), never writable.
	if (open("/etc/passwd", O_WRONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return 7;
	fp_privilege_admin(true);
	if (fp_privilege_effective(&mask) < 0 || mask != six())
		return 8;
	return 0;
}

static int check_admin_kept(void)
{
	const struct fp_privilege privilege = {
		.uid = NOBODY, .gid = NOBODY, .change_user = true, .keep_admin = true
	};
	const uint64_t admin = 1ULL << CAP_SYS_ADMIN;
	uint64_t mask = 0;

	if (fp_privilege_drop(&privilege) < 0 || fp_privilege_effective(&mask) < 0 || mask != six())
		return 1;
	if (fp_privilege_admin(true) < 0 || fp_privilege_effective(&mask) < 0 ||
	    mask != (six() | admin))
		return 2;
	if (fp_privilege_admin(false) < 0 || fp_privilege_effective(&mask) < 0 || mask != six())
		return 3;
	return 0;
}

static int check_stays_root(void)
{
	const struct fp_privilege privilege = { 0 };
	uint64_t mask = 0;

	if (fp_privilege_drop(&privilege) < 0 || geteuid() != 0)
		return 1;
	return fp_privilege_effective(&mask) == 0 && mask == six() ? 0 : 2;
}

static void test_dropped(void **state)
{
	assert_int_equal(in_child(check_dropped), 0);
}

static void test_admin_kept(void **state)
{
	assert_int_equal(in_child(check_admin_kept), 0);
}

static void test_stays_root(void **state)
{
	assert_int_equal(in_child(check_stays_root), 0);
}

static void test_user(void **state)
{
	struct fp_privilege privilege = { 0 };

	assert_int_equal(fp_privilege_user("", &privilege), 0);
	assert_false(privilege.change_user);
	assert_int_equal(fp_privilege_user("no-such-user", &privilege), -ENOENT);
	assert_int_equal(fp_privilege_user("nobody", &privilege), 0);
	assert_true(privilege.change_user);
	assert_int_equal(privilege.uid, NOBODY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_admin_kept),
		cmocka_unit_test(test_stays_root),
		cmocka_unit_test(test_user),
	};
	uint64_t mask = 0;

	fp_privilege_effective(&mask);
	if (geteuid() != 0 || (mask & six()) != six() || !fp_privilege_can_change_user()) {
		fprintf(stderr, "skipped: needs root with the six capabilities and CAP_SETUID\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
