// SPDX-License-Identifier: Apache-2.0
#include "labels_pods.h"

#include "common/clock.h"
#include "common/intern.h"
#include "labels_pods_entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX	    4096u  // of one directory; a node has a few hundred at most
#define ENTRIES_COUNTED	    65536u // behind those, to say how many were left out
#define REFRESH_INTERVAL_NS FP_NS_PER_S
// A directory may change again within the granularity of its time stamp.
#define SETTLED_NS (2 * FP_NS_PER_S)

struct id_key {
	char text[64]; // zeroes behind a shorter one
};

struct names {
	uint32_t namespace, pod, container; // 0: ""
};

struct directory {
	const char *name;
	int (*read)(struct fp_pods *pods, int fd, const char *entry);
	struct timespec changed; // when it was read last
	bool settled;		 // it had not changed for a while then
};

struct fp_pods {
	char *path;
	struct directory directories[2];
	struct fp_intern strings;
	struct fp_hashmap containers; // id_key → names
	struct fp_hashmap pods;	      // id_key → names
	struct fp_hashmap named;      // {namespace, pod} with a container in containers/ → u8
	uint64_t due_ns, generation;
	uint64_t unread;
};

struct pod_key {
	uint32_t namespace, pod;
};

static int read_link_name(struct fp_pods *pods, int fd, const char *entry);
static int read_pod_name(struct fp_pods *pods, int fd, const char *entry);

static void forget(struct fp_pods *pods)
{
	fp_hashmap_free(&pods->containers);
	fp_hashmap_free(&pods->pods);
	fp_hashmap_free(&pods->named);
	fp_intern_free(&pods->strings);
	pods->containers = FP_HASHMAP_INIT(struct id_key, struct names);
	pods->pods = FP_HASHMAP_INIT(struct id_key, struct names);
	pods->named = FP_HASHMAP_INIT(struct pod_key, uint8_t);
}

int fp_pods_new(const char *log_directory, struct fp_pods **ret)
{
	struct fp_pods *pods FP_CLEANUP(fp_pods_freep) = calloc(1, sizeof(*pods));
	int r;

	if (!pods)
		return -ENOMEM;
	forget(pods);
	pods->path = strdup(log_directory);
	r = pods->path ? fp_intern_init(&pods->strings) : -ENOMEM;
	if (r < 0)
		return r;
	pods->directories[0] = (struct directory){ .name = "containers", .read = read_link_name };
	pods->directories[1] = (struct directory){ .name = "pods", .read = read_pod_name };
	*ret = fp_take_ptr(pods);
	return 0;
}

void fp_pods_free(struct fp_pods *pods)
{
	if (!pods)
		return;
	forget(pods);
	free(pods->path);
	free(pods);
}

static int intern(struct fp_pods *pods, const char *text, uint32_t *ret_id)
{
	return fp_intern_add(&pods->strings, text, strlen(text), ret_id);
}

static int intern_entry(struct fp_pods *pods, const struct fp_pod_entry *entry, struct names *ret)
{
	int r = intern(pods, entry->namespace, &ret->namespace);

	if (r == 0)
		r = intern(pods, entry->pod, &ret->pod);
	if (r == 0)
		r = intern(pods, entry->container, &ret->container);
	return r;
}

static struct id_key key_of(const char *id)
{
	struct id_key key = { "" };

	memcpy(key.text, id, strnlen(id, sizeof(key.text)));
	return key;
}

static int put(struct fp_hashmap *map, const char *id, const struct names *names)
{
	struct id_key key = key_of(id);
	struct names *value = fp_hashmap_put(map, &key, NULL);

	if (!value)
		return -ENOMEM;
	*value = *names;
	return 0;
}

static int read_link_name(struct fp_pods *pods, int fd, const char *entry)
{
	struct fp_pod_entry parts;
	struct names names;
	struct pod_key key;
	int r;

	if (!fp_pod_link_parse(entry, &parts))
		return 0;
	r = intern_entry(pods, &parts, &names);
	if (r == 0)
		r = put(&pods->containers, parts.id, &names);
	if (r < 0)
		return r;
	key = (struct pod_key){ names.namespace, names.pod };
	return fp_hashmap_put(&pods->named, &key, NULL) ? 0 : -ENOMEM;
}

// The name of the only directory in the pod's, "" when there are more or none.
static void only_container(int fd, const char *pod, char ret_name[64])
{
	int pod_fd = openat(fd, pod, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = pod_fd < 0 ? NULL : fdopendir(pod_fd);
	const struct dirent *entry;
	uint32_t count = 0;

	if (!stream) {
		fp_close_fd(&pod_fd);
		return;
	}
	while (count < 2 && (entry = readdir(stream))) {
		if (entry->d_name[0] == '.' || !fp_pod_word(entry->d_name, 63))
			continue;
		memcpy(ret_name, entry->d_name, strlen(entry->d_name) + 1); // at most 64
		count++;
	}
	if (count != 1)
		ret_name[0] = '\0';
	closedir(stream);
}

static int read_pod_name(struct fp_pods *pods, int fd, const char *entry)
{
	struct fp_pod_entry parts;
	struct names names;
	int r;

	if (!fp_pod_directory_parse(entry, &parts))
		return 0;
	only_container(fd, entry, parts.container);
	r = intern_entry(pods, &parts, &names);
	return r < 0 ? r : put(&pods->pods, parts.id, &names);
}

static int open_directory(const struct fp_pods *pods, const struct directory *directory)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%s", pods->path, directory->name) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Owns fd.
static int read_directory(struct fp_pods *pods, struct directory *directory, int fd)
{
	DIR *stream = fdopendir(fd);
	const struct dirent *entry;
	uint32_t count = 0;
	int r = 0;

	if (!stream) {
		fp_close_fd(&fd);
		return -ENOMEM;
	}
	while (r == 0 && count < ENTRIES_MAX + ENTRIES_COUNTED && (entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		if (count++ < ENTRIES_MAX)
			r = directory->read(pods, fd, entry->d_name);
		else
			pods->unread++;
	}
	closedir(stream);
	return r;
}

static int64_t age_ns(const struct timespec *changed)
{
	return (int64_t)fp_realtime_ns() -
	       ((int64_t)changed->tv_sec * (int64_t)FP_NS_PER_S + changed->tv_nsec);
}

static bool is_changed(const struct fp_pods *pods, struct directory *directory)
{
	FP_AUTOCLOSE int fd = open_directory(pods, directory);
	struct stat now = { 0 };
	bool changed;

	if (fd >= 0)
		fstat(fd, &now); // without one: all zeroes, and as settled as can be
	changed = !directory->settled || now.st_mtim.tv_sec != directory->changed.tv_sec ||
		  now.st_mtim.tv_nsec != directory->changed.tv_nsec;
	directory->changed = now.st_mtim;
	directory->settled = age_ns(&now.st_mtim) > (int64_t)SETTLED_NS;
	return changed;
}

static int read_all(struct fp_pods *pods)
{
	int r;

	forget(pods);
	r = fp_intern_init(&pods->strings);
	for (size_t i = 0; i < FP_ARRAY_SIZE(pods->directories) && r == 0; i++) {
		int fd = open_directory(pods, &pods->directories[i]);

		if (fd >= 0)
			r = read_directory(pods, &pods->directories[i], fd);
	}
	return r;
}

int fp_pods_refresh(struct fp_pods *pods, uint64_t monotonic_ns, uint64_t *ret_generation)
{
	bool changed = false;

	if (monotonic_ns >= pods->due_ns) {
		pods->due_ns = monotonic_ns + REFRESH_INTERVAL_NS;
		for (size_t i = 0; i < FP_ARRAY_SIZE(pods->directories); i++)
			changed |= is_changed(pods, &pods->directories[i]);
	}
	if (changed) {
		int r = read_all(pods);

		if (r < 0)
			return r;
		pods->generation++;
	}
	*ret_generation = pods->generation;
	return 0;
}

struct fp_pod_names fp_pods_find(const struct fp_pods *pods, const char *container_id,
				 const char *pod_uid)
{
	struct id_key container = key_of(container_id), pod = key_of(pod_uid);
	const struct names *names =
	    container_id[0] ? fp_hashmap_get(&pods->containers, &container) : NULL;
	bool by_pod = !names && pod_uid[0];
	uint32_t name;

	if (by_pod)
		names = fp_hashmap_get(&pods->pods, &pod);
	if (!names)
		return (struct fp_pod_names){ "", "", "" };
	name = names->container;
	// Of a pod whose containers are named, one that is not named is the pod's own sandbox.
	if (by_pod &&
	    (!container_id[0] ||
	     fp_hashmap_get(&pods->named, &(struct pod_key){ names->namespace, names->pod })))
		name = 0;
	return (struct fp_pod_names){ fp_intern_get(&pods->strings, names->namespace),
				      fp_intern_get(&pods->strings, names->pod),
				      fp_intern_get(&pods->strings, name) };
}

uint64_t fp_pods_unread(const struct fp_pods *pods)
{
	return pods->unread;
}

size_t fp_pods_bytes(const struct fp_pods *pods)
{
	return sizeof(*pods) + fp_hashmap_bytes(&pods->containers) + fp_hashmap_bytes(&pods->pods) +
	       fp_hashmap_bytes(&pods->named) + pods->strings.bytes;
}
