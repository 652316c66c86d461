// SPDX-License-Identifier: Apache-2.0
//
// control_bench: what the control socket's test runs on: a loop with a deadline, a control
// socket in a directory of its own, and clients that ask and listen. Included by
// control_test.c alone, after cmocka and the agent's headers.
#pragma once

static int open_snapshot(const struct fp_session_config *config, struct fp_session **ret,
			 struct fp_refusal *refusal, void *context)
{
	return fp_session_open(config, ret, refusal);
}
static int stamp(struct fp_profile *profile, void *context)
{
	profile->host_id[0] = 0x5a;
	return 0;
}
static int status(bool trusted, struct fp_buf *json, void *context)
{
	return fp_buf_printf(json, "{\"type\":\"status\",\"trusted\":%s}",
			     trusted ? "true" : "false");
}

static struct fp_loop *loop;
static struct fp_control *control;
static struct fp_loop_source *deadline;
static char directory[] = "/tmp/fp-control-XXXXXX";
static char path[64];

static int on_deadline(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_loop_stop(loop);
	return 0;
}

// Lets the agent's side work for a while.
static void turn(unsigned int ms)
{
	assert_int_equal(fp_loop_set_timer(deadline, ms * FP_NS_PER_MS, 0), 0);
	assert_int_equal(fp_loop_run(loop), 0);
}

static int set_up(void **state)
{
	const struct fp_control_handlers handlers = { .open_snapshot = open_snapshot,
						      .stamp = stamp,
						      .status = status };
	const struct fp_control_config config = { .path = path };

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(fp_loop_new(&loop), 0);
	assert_int_equal(fp_loop_add_timer(loop, FP_NS_PER_S, 0, on_deadline, NULL, &deadline), 0);
	assert_int_equal(fp_control_open(loop, &config, &handlers, &control), 0);
	return 0;
}

static int tear_down(void **state)
{
	fp_control_freep(&control);
	fp_loop_freep(&loop);
	assert_int_equal(fake.opened, fake.freed);
	assert_int_equal(access(path, F_OK), -1);
	return 0;
}

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int ask(const char *line)
{
	int fd = dial();

	assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	return fd;
}

// What has come, NUL-terminated; "" when nothing. *ret_closed: the agent has hung up.
static char *heard(int fd, bool *ret_closed)
{
	static char text[65536];
	size_t size = 0;
	ssize_t n;

	while ((n = recv(fd, text + size, sizeof(text) - 1 - size, MSG_DONTWAIT)) > 0)
		size += (size_t)n;
	text[size] = '\0';
	*ret_closed = n == 0 || (n < 0 && errno == ECONNRESET);
	return text;
}

static void expect(int fd, const char *part, bool closed)
{
	bool is_closed;
	const char *text = heard(fd, &is_closed);

	if (!strstr(text, part))
		fail_msg("'%s' is not in the answer '%s'", part, text);
	assert_int_equal(is_closed, closed);
}

static char *snapshot_line(int pid, int duration_ms)
{
	static char line[160];

	snprintf(line, sizeof(line), "{\"verb\":\"snapshot\",\"pid\":%d,\"duration_ms\":%d}\n", pid,
		 duration_ms);
	return line;
}
