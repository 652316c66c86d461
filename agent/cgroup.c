// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include "common/file.h"

#include <errno.h>
#include <string.h>

enum { MOUNTINFO_MAX_BYTES = 4 << 20, CONTROLLERS_MAX_BYTES = 4096 };

// In the order of preference: all runtimes put containers into the first ones, and systemd
// accounts memory and tasks of every unit by default.
static const char *const controllers[] = {
	NULL, // FP_CGROUP_V2
	"memory",  "pids",   "cpu",	   "cpuacct", "devices",
	"freezer", "cpuset", "perf_event", "net_cls", "hugetlb",
};

const char *fp_cgroup_controller(uint32_t subsystem)
{
	return subsystem < FP_ARRAY_SIZE(controllers) ? controllers[subsystem] : NULL;
}

struct mount_line { // a line of mountinfo, its words not terminated
	const char *root, *point, *type, *options;
	size_t root_size, point_size, type_size, options_size;
};

static const char *next_word(const char *text, const char *end, size_t *ret_size)
{
	while (text < end && *text == ' ')
		text++;
	*ret_size = 0;
	while (text + *ret_size < end && text[*ret_size] != ' ')
		(*ret_size)++;
	return text;
}

// proc(5): id parent major:minor root point options [optional…] - type source super-options
static bool parse_line(const char *line, const char *end, struct mount_line *ret)
{
	const char *word = line;
	size_t size = 0;

	for (int i = 0; i < 5; i++) {
		word = next_word(word + size, end, &size);
		if (i == 3) {
			ret->root = word;
			ret->root_size = size;
		}
	}
	ret->point = word;
	ret->point_size = size;
	do {
		word = next_word(word + size, end, &size);
	} while (size > 0 && !(size == 1 && *word == '-'));
	ret->type = next_word(word + size, end, &ret->type_size);
	word = next_word(ret->type + ret->type_size, end, &size);
	ret->options = next_word(word + size, end, &ret->options_size);
	return ret->options_size > 0;
}

static bool has_option(const struct mount_line *mount, const char *option)
{
	const char *at = mount->options, *end = at + mount->options_size;
	size_t wanted = strlen(option);

	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t size = (size_t)((comma ? comma : end) - at);

		if (size == wanted && memcmp(at, option, size) == 0)
			return true;
		at += size + 1;
	}
	return false;
}

static bool is_hierarchy(const struct mount_line *mount, uint32_t subsystem)
{
	const char *type = subsystem ? "cgroup" : "cgroup2";

	return mount->type_size == strlen(type) &&
	       memcmp(mount->type, type, mount->type_size) == 0 &&
	       (!subsystem || has_option(mount, controllers[subsystem]));
}

// Spaces and the like in mountinfo are octal: \040.
static void unescape(const char *text, size_t size, char ret[PATH_MAX])
{
	size_t length = 0;

	for (size_t i = 0; i < size && length < PATH_MAX - 1; i++) {
		char byte = text[i];

		if (byte == '\\' && i + 3 < size) {
			byte = (char)((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 |
				      (text[i + 3] - '0'));
			i += 3;
		}
		ret[length++] = byte;
	}
	ret[length] = '\0';
}

// How much of the hierarchy a mount with this root shows. In a control-group namespace "/" is
// the namespace's own part, and what is above it reads /..: a host's mount that was handed into
// a container. Otherwise "/" is the whole, and containers have parts with names.
static uint32_t breadth(const struct mount_line *mount)
{
	uint32_t up = 0;
	size_t at = 0;

	if (mount->root_size == 1)
		return 2;
	while (at + 3 <= mount->root_size && memcmp(mount->root + at, "/..", 3) == 0) {
		at += 3;
		up++;
	}
	return at == mount->root_size ? 2 + up : 1;
}

static bool find_mount(const char *mountinfo, uint32_t subsystem, char ret_mount[PATH_MAX])
{
	uint32_t best = 0;

	for (const char *line = mountinfo; *line;) {
		const char *end = line + strcspn(line, "\n");
		struct mount_line mount = { 0 };

		if (parse_line(line, end, &mount) && is_hierarchy(&mount, subsystem) &&
		    breadth(&mount) > best) {
			best = breadth(&mount);
			unescape(mount.point, mount.point_size, ret_mount);
		}
		line = end + (*end == '\n');
	}
	return best > 0;
}

void fp_cgroup_choose_from(const char *mountinfo, bool v2_has_controllers,
			   struct fp_cgroup_choice *ret)
{
	struct fp_cgroup_choice choice = { .subsystem = FP_CGROUP_V2 };
	bool has_v2 = find_mount(mountinfo, FP_CGROUP_V2, choice.mount);

	for (uint32_t i = 1; i < FP_ARRAY_SIZE(controllers) && !(has_v2 && v2_has_controllers);
	     i++) {
		if (find_mount(mountinfo, i, choice.mount)) {
			choice.subsystem = i;
			break;
		}
	}
	*ret = choice;
}

static int read_mountinfo(struct fp_buf *text)
{
	int r = fp_file_read("/proc/self/mountinfo", MOUNTINFO_MAX_BYTES, text);

	return r == 0 ? fp_buf_byte(text, '\0') : r;
}

static bool lends_controllers(const char *mount)
{
	FP_AUTOBUF struct fp_buf path = { 0 }, list = { 0 };

	if (fp_buf_printf(&path, "%s/cgroup.controllers", mount) < 0 ||
	    fp_file_read((char *)path.data, CONTROLLERS_MAX_BYTES, &list) < 0 ||
	    fp_buf_byte(&list, '\0') < 0)
		return false;
	return strstr((char *)list.data, "memory") || strstr((char *)list.data, "pids");
}

void fp_cgroup_choose(struct fp_cgroup_choice *ret)
{
	FP_AUTOBUF struct fp_buf mountinfo = { 0 };
	struct fp_cgroup_choice choice = { .subsystem = FP_CGROUP_V2 };
	bool lent = false;

	if (read_mountinfo(&mountinfo) == 0) {
		if (find_mount((char *)mountinfo.data, FP_CGROUP_V2, choice.mount))
			lent = lends_controllers(choice.mount);
		fp_cgroup_choose_from((char *)mountinfo.data, lent, &choice);
	}
	*ret = choice;
}

int fp_cgroup_mount(uint32_t subsystem, char ret_mount[PATH_MAX])
{
	FP_AUTOBUF struct fp_buf mountinfo = { 0 };
	int r;

	if (subsystem >= FP_ARRAY_SIZE(controllers))
		return -ENOENT;
	r = read_mountinfo(&mountinfo);
	if (r < 0)
		return r;
	return find_mount((char *)mountinfo.data, subsystem, ret_mount) ? 0 : -ENOENT;
}
