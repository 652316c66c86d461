// SPDX-License-Identifier: Apache-2.0
#include "notify.h"

#include "cleanup.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int fp_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	FP_AUTOCLOSE int fd = -1;
	socklen_t address_size;
	size_t length;

	if (!path || !path[0])
		return 0;
	length = strlen(path);
	// sd_notify(3): a path, or an abstract name written with a leading '@'.
	if ((path[0] != '/' && path[0] != '@') || length < 2)
		return -EAFNOSUPPORT;
	if (length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);

	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		   address_size) < 0)
		return -errno;
	return 0;
}

uint64_t fp_notify_watchdog_ns(void)
{
	const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long usec;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	if (pid && strtoll(pid, NULL, 10) != (long long)getpid())
		return 0; // meant for another process of the service
	errno = 0;
	usec = strtoull(text, &end, 10);
	if (errno || *end || usec > UINT64_MAX / 1000)
		return 0;
	return usec * 1000 / 2;
}
