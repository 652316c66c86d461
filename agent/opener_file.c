// SPDX-License-Identifier: Apache-2.0
//
// A mapped file. /proc/TGID/map_files leads to the very file, deleted or replaced or on a mount
// that nobody sees any more. When its process has gone the name is tried, below the parent's
// root (the same container, mostly) and below our own, and only the expected inode is taken.
#include "opener_open.h"

#include "opener_mounts.h"
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VIEWS 3

struct view {	    // of the file systems: a process's, or our own
	int procfd; // held, so that a pid used again cannot be taken for it; -1: there is none
	uint64_t namespace; // as a place; 0: ours
	struct fp_buf mounts;
};

struct search {
	const struct fp_opener_question *question;
	struct fp_opener_request request; // a copy, whose blanks have been filled in
	struct view views[VIEWS];	  // the process, its parent, we
	enum fp_opener_refusal refusal;	  // of one of the ways
};

static void search_free(struct search *search)
{
	for (size_t i = 0; i < VIEWS; i++) {
		fp_close_fd(&search->views[i].procfd);
		fp_buf_free(&search->views[i].mounts);
	}
}

static void search_init(struct search *search, const struct fp_opener_question *question)
{
	const struct fp_opener_request *request = question->request;

	*search = (struct search){ .question = question, .request = *request };
	search->views[0].procfd = fp_procfs_open(request->tgid);
	search->views[1].procfd = request->parent_tgid ? fp_procfs_open(request->parent_tgid) : -1;
	search->views[2].procfd = fp_procfs_open((uint32_t)getpid());
	for (size_t i = 0; i < VIEWS; i++)
		if (search->views[i].procfd >= 0)
			search->views[i].namespace = fp_opener_namespace(search->views[i].procfd);
}

static int view_mounts(struct search *search, struct view *view, struct fp_opener_answer *answer)
{
	int r;

	if (view->procfd < 0)
		return 0;
	if (fp_opener_enter(search->question, view->namespace) < 0) {
		search->refusal = FP_OPENER_HUNG;
		return 0;
	}
	r = fp_opener_mounts(view->procfd, &view->mounts);
	if (r == -E2BIG)
		answer->device = view->namespace;
	return r;
}

// That of our own root may be too long: then nothing is looked for there.
static int search_mounts(struct search *search, struct fp_opener_answer *answer)
{
	for (size_t i = 0; i < VIEWS; i++) {
		int r = view_mounts(search, &search->views[i], answer);

		if (r < 0 && !(r == -E2BIG && i == VIEWS - 1))
			return r;
	}
	fp_opener_enter(search->question, 0);
	return 0;
}

// Memory that is a file without a mount: memfd, shared memory of the kernel.
static bool is_kernel_memory(uint64_t device)
{
	static uint64_t own;

	if (!own) {
		int fd FP_AUTOCLOSE = memfd_create("fleetprof", MFD_CLOEXEC);
		struct fp_opener_facts facts;

		if (fd >= 0 && fp_opener_facts(fd, &facts) == 0)
			own = facts.device;
	}
	return own && device == own;
}

// Overlays have devices that only the mount table of their container knows. A device without a
// block device behind it that no table knows may be a FUSE mount that was detached.
static bool is_denied_device(const struct search *search, uint64_t device)
{
	struct fp_mount mount;

	for (size_t i = 0; i < VIEWS; i++)
		if (search->views[i].mounts.len &&
		    fp_mount_of_device((const char *)search->views[i].mounts.data, device, &mount))
			return fp_mount_is_denied(&mount, search->question->deny);
	return device >> 32 == 0 && !is_kernel_memory(device);
}

// By name alone: of a program that no process runs any more only its path and its build are
// known, and who reads it compares the build.
static bool is_any(const struct fp_opener_request *request)
{
	return request->start == 0 && request->end == 0 && request->inode == 0 &&
	       request->device == 0;
}

// The device that the kernel shows for a mapping is the file system's; stat(2) shows another
// one for subvolumes (btrfs) and overlays.
static bool is_expected(const struct view *view, const struct fp_opener_request *request,
			const struct fp_opener_facts *facts)
{
	static const struct {
		const char *type;
		size_t size;
	} overlay = { "overlay", 7 };
	struct fp_mount mount;

	if (is_any(request))
		return true;
	if (request->inode == 0 || facts->inode != request->inode)
		return false;
	if (facts->device == request->device)
		return true;
	return view->mounts.len &&
	       fp_mount_of_id((const char *)view->mounts.data, facts->mount_id, &mount) &&
	       (mount.device == request->device ||
		(mount.type_size == overlay.size &&
		 memcmp(mount.type, overlay.type, overlay.size) == 0));
}

static int take_numbers(const struct fp_procfs_map *map, void *context)
{
	struct fp_opener_request *request = context;

	if (map->start < request->start)
		return 0;
	if (map->start != request->start || map->end != request->end)
		return 2;
	request->device = (uint64_t)map->major << 32 | map->minor;
	request->inode = map->inode;
	return 1;
}

// Where the kernel has told the build-ID it has not told which file it is; the mapping says it.
static void fill_in(struct search *search)
{
	struct fp_opener_request *request = &search->request;

	if (request->inode == 0 && request->end && search->views[0].procfd >= 0)
		fp_procfs_maps(search->views[0].procfd, "maps", take_numbers, request);
}

static int compare_mapping(const struct fp_procfs_map *map, void *context)
{
	const struct fp_opener_request *request = context;

	if (map->start < request->start)
		return 0;
	return map->start == request->start && map->inode == request->inode &&
		       ((uint64_t)map->major << 32 | map->minor) == request->device
		   ? 1
		   : 2;
}

// Where the file's own numbers differ from the mapping's (overlays again), the mapping is asked
// whether it is still the one that was meant.
static bool is_still_mapped(int dirfd, const struct fp_opener_request *request)
{
	struct fp_opener_request copy = *request;

	return fp_procfs_maps(dirfd, "maps", compare_mapping, &copy) == 1;
}

// The kernel says what is mapped there: no file system is asked, and no place entered.
static int hold_by_mapping(const struct search *search, struct fp_opener_held *held)
{
	const struct fp_opener_request *request = &search->request;
	int procfd = search->views[0].procfd;
	int fd FP_AUTOCLOSE = -1;
	char name[64];
	int r;

	if (request->inode == 0 || procfd < 0)
		return -ENOENT;
	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, request->start,
		 request->end);
	fd = openat(procfd, name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fp_opener_facts(fd, &held->facts);
	if (r < 0)
		return r;
	if (!is_expected(&search->views[0], request, &held->facts) &&
	    !is_still_mapped(procfd, request))
		return -ESTALE;
	held->place = request->device;
	held->fd = fp_take_fd(&fd);
	return 0;
}

// Whether the name may be followed in the view; if so its place has been entered.
static bool may_follow(struct search *search, const struct view *view)
{
	const struct fp_opener_question *question = search->question;
	const char *text = (const char *)view->mounts.data;
	struct fp_mount mount;

	if (!view->mounts.len || !fp_mount_of_path(text, question->name, &mount))
		return false;
	if (fp_mount_path_is_denied(text, question->name, question->deny))
		search->refusal = FP_OPENER_DENIED;
	else if (fp_opener_enter(question, view->namespace ? view->namespace : mount.device) < 0)
		search->refusal = FP_OPENER_HUNG;
	else
		return true;
	return false;
}

static int hold_by_name(struct search *search, const struct view *view, struct fp_opener_held *held)
{
	int rootfd FP_AUTOCLOSE = -1, fd FP_AUTOCLOSE = -1;
	int r;

	if (!may_follow(search, view))
		return -ENOENT;
	rootfd = fp_opener_root(view->procfd);
	if (rootfd < 0)
		return rootfd;
	fd = fp_opener_below(rootfd, search->question->name);
	if (fd < 0)
		return fd;
	r = fp_opener_facts(fd, &held->facts);
	if (r < 0)
		return r;
	if (!held->facts.regular || !is_expected(view, &search->request, &held->facts))
		return -ENOENT;
	held->place = held->facts.device;
	held->fd = fp_take_fd(&fd);
	return 0;
}

static int hold(struct search *search, struct fp_opener_held *held)
{
	int r = hold_by_mapping(search, held);

	for (size_t i = 0; r < 0 && i < VIEWS; i++)
		if (search->question->name[0] == '/')
			r = hold_by_name(search, &search->views[i], held);
	return r;
}

static void held_close(struct fp_opener_held *held)
{
	fp_close_fd(&held->fd);
}

static int not_held(const struct search *search, struct fp_opener_answer *answer)
{
	if (search->refusal != FP_OPENER_NOT_REFUSED)
		return fp_opener_refuse(answer, search->refusal);
	answer->error = -ENOENT;
	return -1;
}

int fp_opener_open_file(const struct fp_opener_question *question, struct fp_opener_answer *answer)
{
	struct search search FP_CLEANUP(search_free);
	struct fp_opener_held held FP_CLEANUP(held_close) = { .fd = -1 };

	search_init(&search, question);
	answer->error = search_mounts(&search, answer);
	if (answer->error == -E2BIG)
		return fp_opener_refuse(answer, FP_OPENER_MOUNTS);
	if (answer->error < 0)
		return -1;
	fill_in(&search);
	if (search.request.inode && is_denied_device(&search, search.request.device))
		return fp_opener_refuse(answer, search.refusal ? search.refusal : FP_OPENER_DENIED);
	if (hold(&search, &held) < 0)
		return not_held(&search, answer);
	if (!held.facts.regular)
		return fp_opener_refuse(answer, FP_OPENER_TYPE);
	if (question->request->root_only && (held.facts.uid != 0 || held.facts.others_write))
		return fp_opener_refuse(answer, FP_OPENER_OWNER);
	return fp_opener_deliver(question, &held, answer);
}
