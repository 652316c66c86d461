// SPDX-License-Identifier: Apache-2.0
#include "ship_pass.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE_MAX_TAKEN ((size_t)1 << 20)

// One order for both sides.
static void list_strings(struct fp_ship_config *config, const char **ret[FP_SHIP_PASS_STRINGS])
{
	const char **strings[FP_SHIP_PASS_STRINGS] = {
		&config->collector_url, &config->spool_directory, &config->user,
		&config->listen,	&config->token_file,	  &config->ca_file,
	};

	memcpy(ret, strings, sizeof(strings));
}

static int write_all(int fd, const struct fp_buf *bytes)
{
	for (size_t done = 0; done < bytes->len;) {
		ssize_t n = write(fd, bytes->data + done, bytes->len - done);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

int fp_ship_pass_write(const struct fp_ship_config *config, pid_t parent, int *ret_fd)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOCLOSE int fd = memfd_create("fleetprof-ship", MFD_CLOEXEC);
	struct fp_ship_config copy = *config;
	const char **strings[FP_SHIP_PASS_STRINGS];
	struct fp_ship_pass head = {
		.parent = parent,
		.log_level = config->log_level,
		.limits = config->limits,
		.retry_max_ns = config->retry_max_ns,
		.loop_stale_ns = config->loop_stale_ns,
	};
	int error;

	if (fd < 0)
		return -errno;
	fp_buf_append(&text, &head, sizeof(head));
	list_strings(&copy, strings);
	for (size_t i = 0; i < FP_SHIP_PASS_STRINGS; i++) {
		const char *string = *strings[i] ? *strings[i] : "";

		fp_buf_append(&text, string, strlen(string) + 1);
	}
	if (text.error)
		return text.error;
	head.size = text.len;
	memcpy(text.data, &head, sizeof(head));
	error = write_all(fd, &text);
	if (!error)
		*ret_fd = fp_take_fd(&fd);
	return error;
}

static int read_all(int fd, struct fp_buf *text)
{
	char bytes[4096];
	ssize_t n;

	// From its start, wherever the writer's offset stands: the descriptor is shared.
	while ((n = pread(fd, bytes, sizeof(bytes), (off_t)text->len)) > 0)
		if (text->len > SIZE_MAX_TAKEN || fp_buf_append(text, bytes, (size_t)n) < 0)
			return -EBADMSG;
	return n < 0 ? -errno : 0;
}

int fp_ship_pass_read(int fd, struct fp_buf *text, struct fp_ship_config *ret_config,
		      pid_t *ret_parent)
{
	struct fp_ship_config config = { 0 };
	const char **strings[FP_SHIP_PASS_STRINGS];
	struct fp_ship_pass head;
	size_t at = sizeof(head);
	int error = read_all(fd, text);

	if (error)
		return error;
	if (text->len <= sizeof(head) || text->data[text->len - 1] != '\0')
		return -EBADMSG;
	memcpy(&head, text->data, sizeof(head));
	if (head.size != text->len)
		return -EBADMSG;
	list_strings(&config, strings);
	for (size_t i = 0; i < FP_SHIP_PASS_STRINGS; i++) {
		if (at >= text->len)
			return -EBADMSG;
		*strings[i] = (const char *)text->data + at;
		at += strlen(*strings[i]) + 1;
	}
	config.log_level = (enum fp_log_level)head.log_level;
	config.limits = head.limits;
	config.retry_max_ns = head.retry_max_ns;
	config.loop_stale_ns = head.loop_stale_ns;
	*ret_config = config;
	*ret_parent = (pid_t)head.parent;
	return 0;
}
