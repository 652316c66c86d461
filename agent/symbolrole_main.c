// SPDX-License-Identifier: Apache-2.0
#include "symbolrole.h"

#include "common/log.h"
#include "symbolrole_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define FD_SOCKET  (STDERR_FILENO + 1)
#define EXIT_SETUP 1
#define EXIT_SERVE 2

// The longest answer must fit, and an empty queue be waited for.
static int prepare_socket(int fd)
{
	int size = 2 * (int)FP_ROLE_PAYLOAD_MAX, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return -errno;
	// Best effort: the kernel cuts it to its own bound, whose default is large enough.
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

int fp_symbol_role_main(void)
{
	int error = prepare_socket(FD_SOCKET);

	if (!error)
		error = fp_symbol_role_confine(FD_SOCKET);
	if (error) {
		fp_error("the symbols role cannot confine itself (%s), ending it",
			 strerror(-error));
		return EXIT_SETUP;
	}
	error = fp_symbol_role_serve(FD_SOCKET);
	// What the C library does at an exit is not among the system calls that are left.
	_exit(error ? EXIT_SERVE : 0);
}
