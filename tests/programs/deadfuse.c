// SPDX-License-Identifier: Apache-2.0
//
// deadfuse MOUNTPOINT FILE [FILE…]: a file system whose files are FILE…, by their base names,
// and that stops answering. It prints `ready` once it is mounted; a line on its standard input
// makes it forget the first page of every file (where ELF headers and notes are) and from then on
// it takes every request and answers none, which leaves whoever asks in a sleep that not even
// SIGKILL ends. When it ends itself the kernel fails all that waits.
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX     8
#define REQUEST_BYTES (1u << 18)
#define FIRST_FILE    2 // node ids; 1 is the root
#define PAGE_BYTES    4096

struct served {
	const char *name;
	int fd;
	uint64_t size;
};

static struct served files[FILES_MAX];
static int file_count;
static int device = -1;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void reply(uint64_t unique, int error, const void *data, size_t size)
{
	struct fuse_out_header header = { .unique = unique, .error = -error };
	struct iovec parts[] = { { &header, sizeof(header) }, { (void *)(uintptr_t)data, size } };

	if (error)
		size = 0;
	header.len = (uint32_t)(sizeof(header) + size);
	// ENOENT: who asked has been interrupted meanwhile.
	if (writev(device, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		die("writev");
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr attr = { .ino = node, .nlink = 1, .blksize = PAGE_BYTES };

	if (node < FIRST_FILE) {
		attr.mode = S_IFDIR | 0755;
		return attr;
	}
	attr.mode = S_IFREG | 0755;
	attr.size = files[node - FIRST_FILE].size;
	attr.blocks = (attr.size + 511) / 512;
	return attr;
}

static void answer_init(const struct fuse_in_header *in)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = 31,
				     .max_readahead = 1u << 17,
				     .max_background = 16,
				     .congestion_threshold = 12,
				     .max_write = PAGE_BYTES };

	reply(in->unique, 0, &out, sizeof(out));
}

static void answer_lookup(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = { 0 };

	for (int i = 0; i < file_count; i++) {
		if (strcmp(files[i].name, name) != 0)
			continue;
		out.nodeid = FIRST_FILE + (uint64_t)i;
		out.attr = attributes(out.nodeid);
		reply(in->unique, 0, &out, sizeof(out));
		return;
	}
	reply(in->unique, ENOENT, NULL, 0);
}

static void answer_getattr(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr = attributes(in->nodeid) };

	reply(in->unique, 0, &out, sizeof(out));
}

static void answer_open(const struct fuse_in_header *in)
{
	struct fuse_open_out out = { .fh = in->nodeid, .open_flags = FOPEN_KEEP_CACHE };

	reply(in->unique, 0, &out, sizeof(out));
}

static void answer_read(const struct fuse_in_header *in, const struct fuse_read_in *read_in)
{
	static char data[REQUEST_BYTES];
	size_t size = read_in->size < sizeof(data) ? read_in->size : sizeof(data);
	ssize_t n = pread(files[in->nodeid - FIRST_FILE].fd, data, size, (off_t)read_in->offset);

	reply(in->unique, n < 0 ? EIO : 0, data, n < 0 ? 0 : (size_t)n);
}

static void answer(const struct fuse_in_header *in)
{
	const void *body = in + 1;

	switch (in->opcode) {
	case FUSE_INIT:
		answer_init(in);
		break;
	case FUSE_LOOKUP:
		answer_lookup(in, body);
		break;
	case FUSE_GETATTR:
		answer_getattr(in);
		break;
	case FUSE_OPEN:
		answer_open(in);
		break;
	case FUSE_READ:
		answer_read(in, body);
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		reply(in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		reply(in->unique, ENOSYS, NULL, 0);
	}
}

// In a process of its own: the kernel waits here for reads that only this server can answer.
static pid_t forget_first_pages(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (child > 0)
		return child;

	for (int i = 0; i < file_count; i++) {
		struct fuse_notify_inval_inode_out out = { .ino = FIRST_FILE + (uint64_t)i,
							   .len = PAGE_BYTES };
		struct fuse_out_header header = { .len = sizeof(header) + sizeof(out),
						  .error = FUSE_NOTIFY_INVAL_INODE };
		struct iovec parts[] = { { &header, sizeof(header) }, { &out, sizeof(out) } };

		// ENOENT: the kernel does not know the file, so it has no page of it.
		if (writev(device, parts, 2) < 0 && errno != ENOENT)
			die("forget");
	}
	exit(0);
}

static void mount_here(const char *where)
{
	char options[128];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (device < 0)
		die("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 device);
	if (mount("deadfuse", where, "fuse.deadfuse", MS_NOSUID | MS_NODEV, options) < 0)
		die("mount");
}

// Takes the next request, if any, and answers it unless dead. False: the input has something.
static bool serve(bool dead, int timeout_ms)
{
	static char buffer[REQUEST_BYTES] __attribute__((aligned(8)));
	struct pollfd polled[] = { { .fd = device, .events = POLLIN },
				   { .fd = STDIN_FILENO, .events = POLLIN } };
	ssize_t n;

	if (poll(polled, 2, timeout_ms) < 0 && errno != EINTR)
		die("poll");
	if (polled[0].revents) {
		n = read(device, buffer, sizeof(buffer));
		if (n < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			die("read");
		if (n > 0 && !dead)
			answer((const struct fuse_in_header *)buffer);
	}
	return polled[1].revents == 0;
}

// Until a line comes. False: the input has ended.
static bool serve_until_told(bool dead)
{
	char line[16];

	while (serve(dead, -1))
		;
	return read(STDIN_FILENO, line, sizeof(line)) > 0;
}

static void become_dead(void)
{
	pid_t child = forget_first_pages();

	while (waitpid(child, NULL, WNOHANG) == 0)
		serve(false, 20);
	printf("dead\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc - 2 > FILES_MAX) {
		fprintf(stderr, "usage: deadfuse MOUNTPOINT FILE [FILE…]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		const char *slash = strrchr(argv[i], '/');
		struct stat status;
		int fd = open(argv[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0 || fstat(fd, &status) < 0)
			die(argv[i]);
		files[file_count++] =
		    (struct served){ slash ? slash + 1 : argv[i], fd, (uint64_t)status.st_size };
	}
	mount_here(argv[1]);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (serve_until_told(false)) {
		become_dead();
		while (serve_until_told(true))
			;
	}
	umount2(argv[1], MNT_DETACH);
	return 0;
}
