// SPDX-License-Identifier: Apache-2.0
// The HTTP endpoint under clients that take their time.
#include "agent/agentmetrics.h"
#include "agent/observe.h"

#include "common/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define PATIENCE_MS 10000
#define SLOW_COUNT  40

static struct fp_metrics metrics;
static struct fp_observe *observe;

static int set_up(void **state)
{
	struct fp_observe_config config = { .listen = "127.0.0.1:0",
					    .metrics = &metrics,
					    .loop_stale_ns = 3600 * FP_NS_PER_S,
					    .sampler_pid = getpid() };
	int fd FP_AUTOCLOSE = -1;

	fp_agent_metrics_init();
	assert_int_equal(fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &metrics, &fd), 0);
	fp_metric_set(&metrics, FP_M_LOOP_TICK, fp_boottime_ns());
	assert_int_equal(fp_observe_start(&config, &observe), 0);
	return 0;
}

static int tear_down(void **state)
{
	fp_observe_freep(&observe);
	fp_metrics_unmap(&metrics);
	return 0;
}

static int dial(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(fp_observe_port(observe)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

// The first bytes of the answer; "" when the other side hung up; NULL when nothing comes.
static const char *heard(int fd, int patience_ms)
{
	static char text[1024];
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (poll(&wait, 1, patience_ms) != 1)
		return NULL;
	n = recv(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void assert_healthy(void)
{
	int fd FP_AUTOCLOSE = dial("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
	const char *text = heard(fd, PATIENCE_MS);

	assert_non_null(text);
	assert_non_null(strstr(text, "HTTP/1.1 200"));
}

static void slow_clients_keep_nobody_out(void **state)
{
	int fds[SLOW_COUNT];

	for (size_t i = 0; i < SLOW_COUNT; i++)
		fds[i] = dial("GET /healthz HT");
	assert_healthy();
	assert_string_equal(heard(fds[0], PATIENCE_MS), ""); // the oldest had to go
	for (size_t i = 0; i < SLOW_COUNT; i++)
		close(fds[i]);
	assert_healthy();
}

static void one_that_drips_bytes_ages(void **state)
{
	int fd FP_AUTOCLOSE = dial("GET /healthz HTTP/1.1\r\n");

	for (int i = 0; i < 6; i++) {
		sleep(1);
		assert_int_equal(send(fd, "A: b\r\n", 6, MSG_NOSIGNAL), 6);
	}
	assert_null(heard(fd, 0)); // alone it is in nobody's way
	assert_healthy();
	assert_string_equal(heard(fd, PATIENCE_MS), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slow_clients_keep_nobody_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_drips_bytes_ages, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
