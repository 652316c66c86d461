// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"
#include "../scratch.h"

#include "common/cleanup.h"
#include "common/notify.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, name, strlen(name));
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
			 0);
	return fd;
}

static void assert_notified(const char *name)
{
	FP_AUTOCLOSE int fd = listen_at(name);
	char got[64] = "";

	setenv("NOTIFY_SOCKET", name, 1);
	assert_int_equal(fp_notify("READY=1\nSTATUS=up"), 0);
	assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), 17);
	assert_string_equal(got, "READY=1\nSTATUS=up");
}

static void test_sockets(void **state)
{
	char name[108];

	snprintf(name, sizeof(name), "%s/notify", scratch_directory());
	assert_notified(name);
	snprintf(name, sizeof(name), "@fleetprof-test-%d", getpid());
	assert_notified(name);
}

static void test_absent(void **state)
{
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(fp_notify("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(fp_notify("READY=1"), 0);
}

static void test_unusable(void **state)
{
	char name[200];

	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	assert_int_equal(fp_notify("READY=1"), -ENOENT);
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(fp_notify("READY=1"), -EAFNOSUPPORT);
	memset(name, '/', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	setenv("NOTIFY_SOCKET", name, 1);
	assert_int_equal(fp_notify("READY=1"), -ENAMETOOLONG);
}

static void test_watchdog(void **state)
{
	static const struct {
		const char *usec;
		uint64_t ns;
	} cases[] = {
		{ "30000000", 15000000000 },
		{ "1", 500 },
		{ "", 0 },
		{ "x", 0 },
		{ "5x", 0 },
		{ "-5", 0 },
		{ "99999999999999999999", 0 },
	};
	char pid[16];

	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	assert_int_equal(fp_notify_watchdog_ns(), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		setenv("WATCHDOG_USEC", cases[i].usec, 1);
		assert_int_equal(fp_notify_watchdog_ns(), cases[i].ns);
	}
	setenv("WATCHDOG_USEC", "1000", 1);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(fp_notify_watchdog_ns(), 500000);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(fp_notify_watchdog_ns(), 0);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("the state reaches a path and an abstract socket", test_sockets),
		FP_CASE("without a service manager notifying succeeds", test_absent),
		FP_CASE("an unusable socket name is an error", test_unusable),
		FP_CASE("the watchdog is due at half its interval, if meant for us", test_watchdog),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
