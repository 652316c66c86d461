// SPDX-License-Identifier: Apache-2.0
#include "hotplug.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "cpus.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KERNEL_GROUP 1	 // of NETLINK_KOBJECT_UEVENT; udev speaks to another
#define HEAD_BYTES   128 // of a message: its first string is all we read
#define MESSAGES_MAX (4 * FP_CPUS_MAX)

static const char offline_cpu[] = "offline@/devices/system/cpu/cpu";

// A host sleeps for longer; two readings of clocks are closer to each other, and where they are
// not, events are opened anew without need.
#define SLEEP_MIN_NS (FP_NS_PER_S / 10)

struct fp_hotplug {
	int fd;		    // -1: no uevents here
	uint64_t asleep_ns; // at the last look
	uint64_t suspends;  // likewise
	bool all_left;	    // messages were lost, or the host slept
	bool any_left;
	bool left[FP_CPUS_MAX];
};

// The kernel queues for us only what begins as an offline message does: a storm of other
// devices' messages between two looks neither fills the queue nor costs memory.
static int filter_messages(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x6f66666c, 0, 1), // "offl"
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_socket(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	int fd FP_AUTOCLOSE =
	    socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || filter_messages(fd) || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	return fp_take_fd(&fd);
}

// How long this host has been suspended since it was started.
static uint64_t asleep_ns(void)
{
	uint64_t awake_ns = fp_monotonic_ns();

	return fp_boottime_ns() - awake_ns;
}

// How often it was, or tried to be: one that ends at once takes CPUs off all the same, and need not
// show in the clocks. Where the kernel does not count them, they are all there is.
static uint64_t suspends(void)
{
	static const char *const counts[] = { "/sys/power/suspend_stats/success",
					      "/sys/power/suspend_stats/fail" };
	uint64_t sum = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(counts); i++) {
		struct fp_buf text FP_AUTOBUF = {};

		if (fp_file_read(counts[i], 64, &text) == 0 && fp_buf_byte(&text, 0) == 0)
			sum += strtoull((const char *)text.data, NULL, 10);
	}
	return sum;
}

int fp_hotplug_open(struct fp_hotplug **ret)
{
	struct fp_hotplug *hotplug = calloc(1, sizeof(*hotplug));

	if (!hotplug)
		return -ENOMEM;
	hotplug->fd = open_socket();
	hotplug->asleep_ns = asleep_ns();
	hotplug->suspends = suspends();
	*ret = hotplug;
	return 0;
}

void fp_hotplug_free(struct fp_hotplug *hotplug)
{
	if (!hotplug)
		return;
	fp_close_fd(&hotplug->fd);
	free(hotplug);
}

bool fp_hotplug_parse(const char *message, size_t size, uint32_t *ret_cpu)
{
	size_t at = sizeof(offline_cpu) - 1;
	uint32_t cpu = 0;

	if (size <= at || memcmp(message, offline_cpu, at) != 0 || message[at] == '\0')
		return false;
	for (; at < size && message[at] != '\0'; at++) {
		if (message[at] < '0' || message[at] > '9')
			return false;
		cpu = cpu * 10 + (uint32_t)(message[at] - '0');
		if (cpu >= FP_CPUS_MAX)
			return false;
	}
	if (at == size) // cut off: the number may go on
		return false;
	*ret_cpu = cpu;
	return true;
}

// False when there is nothing more to take.
static bool take_message(struct fp_hotplug *hotplug)
{
	struct sockaddr_nl sender = { 0 };
	char head[HEAD_BYTES];
	struct iovec part = { .iov_base = head, .iov_len = sizeof(head) };
	struct msghdr message = { .msg_name = &sender,
				  .msg_namelen = sizeof(sender),
				  .msg_iov = &part,
				  .msg_iovlen = 1 };
	ssize_t size = recvmsg(hotplug->fd, &message, 0);
	uint32_t cpu;

	if (size < 0) {
		hotplug->all_left = hotplug->all_left || errno == ENOBUFS;
		return errno == ENOBUFS || errno == EINTR;
	}
	// Anybody may send to the socket itself; the kernel's port is 0.
	if (sender.nl_pid == 0 && fp_hotplug_parse(head, (size_t)size, &cpu))
		hotplug->any_left = hotplug->left[cpu] = true;
	return true;
}

void fp_hotplug_look(struct fp_hotplug *hotplug)
{
	uint64_t asleep_before_ns = hotplug->asleep_ns, suspends_before = hotplug->suspends;

	if (hotplug->any_left)
		memset(hotplug->left, 0, sizeof(hotplug->left));
	hotplug->any_left = false;
	hotplug->asleep_ns = asleep_ns();
	hotplug->suspends = suspends();
	hotplug->all_left = hotplug->asleep_ns > asleep_before_ns + SLEEP_MIN_NS ||
			    hotplug->suspends != suspends_before;
	// Bounded: who floods the socket does not hold us up.
	for (int i = 0; hotplug->fd >= 0 && i < MESSAGES_MAX && take_message(hotplug); i++)
		;
}

bool fp_hotplug_left(const struct fp_hotplug *hotplug, uint32_t cpu)
{
	return hotplug->all_left || (cpu < FP_CPUS_MAX && hotplug->left[cpu]);
}
