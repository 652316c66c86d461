// SPDX-License-Identifier: Apache-2.0
#include "agent/control_access.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define ALICE 1000
#define BOB   1001

static const struct fp_peer alice = { .uid = ALICE, .gid = ALICE };
static const struct fp_peer trusted = { .uid = BOB, .gid = BOB, .trusted = true };

static struct fp_process_facts process_of_alice(void)
{
	return (struct fp_process_facts){ .tgid = 7,
					  .uids = { ALICE, ALICE, ALICE },
					  .gids = { ALICE, ALICE, ALICE },
					  .owner = ALICE };
}

static struct fp_process_facts process;

static void nothing(void) {}
static void of_bob(void)
{
	process.uids[0] = process.uids[1] = process.uids[2] = process.owner = BOB;
}
static void of_root(void)
{
	process.uids[0] = process.uids[1] = process.uids[2] = process.owner = 0;
}
static void set_uid_root(void)
{
	process.uids[1] = process.uids[2] = process.owner = 0;
}
static void saved_uid_root(void) // it could become root again
{
	process.uids[2] = 0;
}
static void other_group(void)
{
	process.gids[1] = 42;
}
static void undumpable(void)
{
	process.owner = 0;
}
static void with_capabilities(void)
{
	process.capabilities = 1;
}
static void kernel_thread(void)
{
	of_root();
	process.kernel_thread = true;
}
static void dead(void)
{
	process.dead = true;
}

static const struct {
	const char *sentence;
	void (*change)(void);
	enum fp_access of_alice, of_trusted;
} table[] = {
	{ "one's own process is granted", nothing, FP_ACCESS_GRANTED, FP_ACCESS_GRANTED },
	{ "another user's is not", of_bob, FP_ACCESS_OTHER_USER, FP_ACCESS_GRANTED },
	{ "root's is not", of_root, FP_ACCESS_OTHER_USER, FP_ACCESS_GRANTED },
	{ "a set-uid program is not", set_uid_root, FP_ACCESS_GUARDED, FP_ACCESS_GRANTED },
	{ "one that kept a saved uid is not", saved_uid_root, FP_ACCESS_GUARDED,
	  FP_ACCESS_GRANTED },
	{ "one in another group is not", other_group, FP_ACCESS_GUARDED, FP_ACCESS_GRANTED },
	{ "an undumpable one is not", undumpable, FP_ACCESS_GUARDED, FP_ACCESS_GRANTED },
	{ "one with capabilities is not", with_capabilities, FP_ACCESS_GUARDED, FP_ACCESS_GRANTED },
	{ "a kernel thread is nobody's", kernel_thread, FP_ACCESS_KERNEL_THREAD,
	  FP_ACCESS_KERNEL_THREAD },
	{ "a zombie has nothing to give", dead, FP_ACCESS_DEAD, FP_ACCESS_DEAD },
};

static void test_decide(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(table); i++) {
		print_message("  %s\n", table[i].sentence);
		process = process_of_alice();
		table[i].change();
		assert_int_equal(fp_access_decide(&alice, &process), table[i].of_alice);
		assert_int_equal(fp_access_decide(&trusted, &process), table[i].of_trusted);
	}
}

static void test_status(void **state)
{
	struct fp_process_facts facts = { 0 };

	assert_int_equal(fp_process_facts_parse_status(
			     "Name:\tx\\nUid:\t0\t0\t0\t0\nUmask:\t0022\nTgid:\t31\nPid:\t32\n"
			     "Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nCapPrm:\t0000000000000009\n",
			     &facts),
			 0);
	assert_int_equal(facts.tgid, 31);
	assert_int_equal(facts.uids[0], 1);
	assert_int_equal(facts.uids[2], 3);
	assert_int_equal(facts.gids[1], 6);
	assert_int_equal(facts.capabilities, 9);
	assert_int_equal(fp_process_facts_parse_status("Tgid:\t31\nUid:\t1\t2\n", &facts),
			 -EBADMSG);
	assert_int_equal(fp_process_facts_parse_status("", &facts), -EBADMSG);
}

static const struct {
	const char *sentence, *text;
	int result;
	const char *comm;
	bool kernel_thread, dead;
	uint64_t start_time;
} stats[] = {
	{ "a usual process", "7 (cat) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 6 7 8\n",
	  0, "cat", false, false, 12345 },
	{ "a name may hold brackets and blanks",
	  "7 (a) R 1 (b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 6\n", 0, "a) R 1 (b",
	  false, false, 99 },
	{ "a kernel thread has its flag",
	  "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0\n", 0, "kthreadd", true,
	  false, 3 },
	{ "a zombie is dead", "7 (x) Z 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5 6\n", 0, "x",
	  false, true, 5 },
	{ "a first thread that ended before the others is not",
	  "7 (x) Z 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 5 6\n", 0, "x", false, false, 5 },
	{ "a cut line is refused", "7 (cat) R 1 7 7 0 -1 41943", -EBADMSG, NULL, false, false, 0 },
	{ "a line without a name is refused", "7 cat R 1 7", -EBADMSG, NULL, false, false, 0 },
	{ "brackets the wrong way round are refused", "7 )cat( R 1 7", -EBADMSG, NULL, false, false,
	  0 },
};

static void test_stat(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(stats); i++) {
		struct fp_process_facts facts = { 0 };

		print_message("  %s\n", stats[i].sentence);
		assert_int_equal(fp_process_facts_parse_stat(stats[i].text, &facts),
				 stats[i].result);
		if (stats[i].result)
			continue;
		assert_string_equal(facts.comm, stats[i].comm);
		assert_int_equal(facts.kernel_thread, stats[i].kernel_thread);
		assert_int_equal(facts.dead, stats[i].dead);
		assert_int_equal(facts.start_time, stats[i].start_time);
	}
}

static void test_own_process(void **state)
{
	struct fp_process_facts facts;

	assert_int_equal(fp_process_facts_read((uint32_t)getpid(), &facts), 0);
	assert_int_equal(facts.tgid, getpid());
	assert_int_equal(facts.uids[1], geteuid());
	assert_int_equal(facts.gids[1], getegid());
	assert_false(facts.kernel_thread);
	assert_false(facts.dead);
}

static void test_ended_process(void **state)
{
	struct fp_process_facts facts;
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(fp_process_facts_read((uint32_t)pid, &facts), 0);
	assert_true(facts.dead);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(fp_process_facts_read((uint32_t)pid, &facts), -ESRCH);
}

// What the kernel shows of a process that has made itself undumpable.
static void test_undumpable(void **state)
{
	struct fp_process_facts facts;
	struct fp_peer peer = { .uid = 65534, .gid = 65534 };
	int ready[2], go[2];
	char byte = 0;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		_exit(setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
		      prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ||
		      write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1 ||
		      prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) < 0 ||
		      write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(fp_process_facts_read((uint32_t)pid, &facts), 0);
	assert_int_equal(fp_access_decide(&peer, &facts), FP_ACCESS_GUARDED);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(fp_process_facts_read((uint32_t)pid, &facts), 0);
	assert_int_equal(fp_access_decide(&peer, &facts), FP_ACCESS_GRANTED);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decide),	      cmocka_unit_test(test_status),
		cmocka_unit_test(test_stat),	      cmocka_unit_test(test_own_process),
		cmocka_unit_test(test_ended_process), cmocka_unit_test(test_undumpable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
