// SPDX-License-Identifier: Apache-2.0
#include "symbolrole_confine.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "symbolrole_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_SANITIZER 1
#endif
#endif
#ifndef WITH_SANITIZER
#define WITH_SANITIZER 0
#endif

// The table of the largest programs (1.5 M functions) takes 0.9 GiB while it is made.
#define ADDRESS_SPACE_MAX ((rlim_t)1536 << 20)
#define FILE_SIZE_MAX	  ((rlim_t)65 << 20) // the memfd of a table
#define DESCRIPTORS_MAX	  ((rlim_t)FP_ROLE_MAPS_MAX + 16)
// Attribution waits for the role, but no more than the sampled programs do for us.
#define NICE 5

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

static const int plain_calls[] = {
	SCMP_SYS(pread64),	SCMP_SYS(read),		 SCMP_SYS(write),
	SCMP_SYS(close),	SCMP_SYS(fstat),	 SCMP_SYS(brk),
	SCMP_SYS(munmap),	SCMP_SYS(mremap),	 SCMP_SYS(madvise),
	SCMP_SYS(exit_group),	SCMP_SYS(exit),		 SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sysinfo),   // the C library's qsort asks for the size of memory
	SCMP_SYS(getrandom), // and its allocator for the seed of its checks
#if WITH_SANITIZER
	SCMP_SYS(sigaltstack),	SCMP_SYS(gettid),	 SCMP_SYS(getpid),
	SCMP_SYS(futex),	SCMP_SYS(sched_yield),	 SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction), SCMP_SYS(clock_gettime), SCMP_SYS(getrlimit),
	SCMP_SYS(prlimit64),
#endif
};

// Calls that one argument makes harmless: (argument & mask) == value.
struct bounded_call {
	int call;
	unsigned int argument;
	scmp_datum_t mask, value;
};

#define WHOLE UINT32_MAX // of an int; what is above it the kernel ignores

static int add_bounded_calls(scmp_filter_ctx filter, int socket_fd)
{
	const struct bounded_call calls[] = {
		{ SCMP_SYS(recvmsg), 0, WHOLE, (scmp_datum_t)socket_fd },
		{ SCMP_SYS(sendmsg), 0, WHOLE, (scmp_datum_t)socket_fd },
		{ SCMP_SYS(mmap), 2, PROT_EXEC, 0 },
		{ SCMP_SYS(mprotect), 2, PROT_EXEC, 0 },
		{ SCMP_SYS(fcntl), 1, WHOLE, F_GETFD }, // libelf: is it open?
		// How the C library spells fstat. With a path it shows a file's attributes, nothing
		// of its content.
		{ SCMP_SYS(newfstatat), 3, WHOLE, AT_EMPTY_PATH },
	};
	int error = 0;

	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(calls); i++) {
		const struct scmp_arg_cmp condition = { calls[i].argument, SCMP_CMP_MASKED_EQ,
							calls[i].mask, calls[i].value };

		error =
		    seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, calls[i].call, 1, &condition);
	}
	return error;
}

static int allow_system_calls(int socket_fd)
{
	FP_CLEANUP(release_filter)
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int error = filter ? 0 : -ENOMEM;

	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(plain_calls); i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, plain_calls[i], 0);
	if (!error)
		error = add_bounded_calls(filter, socket_fd);
	return error ? error : seccomp_load(filter);
}

static int lower_limit(__rlimit_resource_t resource, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max < value)
		value = limit.rlim_max;
	limit = (struct rlimit){ value, value };
	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

static int lower_limits(void)
{
	int error = lower_limit(RLIMIT_CORE, 0);

	if (!error)
		error = lower_limit(RLIMIT_FSIZE, FILE_SIZE_MAX);
	if (!error)
		error = lower_limit(RLIMIT_NOFILE, DESCRIPTORS_MAX);
	if (!error && !WITH_SANITIZER) // whose shadow memory alone is terabytes
		error = lower_limit(RLIMIT_AS, ADDRESS_SPACE_MAX);
	return error;
}

static void free_caps(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
}

static int clear_capabilities(void)
{
	FP_CLEANUP(free_caps) cap_t none = cap_init();

	if (!none)
		return -ENOMEM;
	if (cap_reset_ambient() < 0 && errno != EINVAL) // EINVAL: kernel without ambient set
		return -errno;
	return cap_set_proc(none) < 0 ? -errno : 0;
}

// When memory runs out the role goes before the sampler. Not everywhere may this be said.
static void go_first(void)
{
	FP_AUTOCLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		fp_write_all(fd, "1000", strlen("1000"));
}

static int set_process(void)
{
	signal(SIGXFSZ, SIG_IGN); // writing past RLIMIT_FSIZE is an error, not an end
	setpriority(PRIO_PROCESS, 0, NICE);
	prctl(PR_SET_NAME, "fleetprof-syms", 0L, 0L, 0L);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 || // nobody of the same user traces it
	    prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0)
		return -errno;
	return 0;
}

static int close_descriptors(int socket_fd)
{
	if (socket_fd != STDERR_FILENO + 1)
		return -EINVAL;
	fp_close_fd(&(int){ STDIN_FILENO });
	fp_close_fd(&(int){ STDOUT_FILENO });
	return close_range((unsigned int)socket_fd + 1, ~0U, 0) < 0 ? -errno : 0;
}

int fp_symbol_role_confine(int socket_fd)
{
	int error;

	go_first();
	error = close_descriptors(socket_fd);
	if (!error)
		error = clear_capabilities();
	if (!error)
		error = set_process();
	if (!error)
		error = lower_limits();
	return error ? error : allow_system_calls(socket_fd);
}
