// SPDX-License-Identifier: Apache-2.0
#include "cgroup_path.h"

#include "cgroup_word.h"
#include "common/cleanup.h"

#include <string.h>

struct parsing {
	struct fp_cgroup_facts *facts;
	struct fp_cgroup_word before; // the word in front
	bool in_pod;		      // the word in front was the pod
	const char *runtime;	      // whose groups these are, by a word in front, or ""
	bool believed;		      // root made this word's group
};

static void copy_word(char *to, size_t room, struct fp_cgroup_word word)
{
	if (word.size >= room)
		return;
	memcpy(to, word.text, word.size);
	to[word.size] = '\0';
}

// What is known of a container that a user's own group names: an id of a runtime that users run
// themselves, unless root says otherwise further up. The runtime's name says that it is a claim.
static void claim_container(struct parsing *parsing, struct fp_cgroup_word id, const char *runtime)
{
	struct fp_cgroup_facts *facts = parsing->facts;
	bool is_rootless = !strcmp(runtime, "podman") || !strcmp(runtime, "docker");

	if (!is_rootless || facts->pod_uid[0] || (facts->container_id[0] && !facts->is_claimed))
		return;
	copy_word(facts->container_id, sizeof(facts->container_id), id);
	snprintf(facts->runtime, sizeof(facts->runtime), "%s-rootless", runtime);
	facts->is_claimed = true;
}

static void set_container(struct parsing *parsing, struct fp_cgroup_word id, const char *runtime,
			  bool has_name)
{
	struct fp_cgroup_facts *facts = parsing->facts;

	if (!parsing->believed) {
		claim_container(parsing, id, has_name ? "" : runtime);
		return;
	}
	copy_word(facts->container_id, sizeof(facts->container_id), id);
	snprintf(facts->runtime, sizeof(facts->runtime), "%s", runtime);
	facts->has_name = has_name;
	if (parsing->in_pod)
		copy_word(facts->pod_container_id, sizeof(facts->pod_container_id), id);
}

static const struct {
	const char *word, *runtime;
} runtimes[] = {
	// prefixes of the id
	{ "docker", "docker" },
	{ "cri-containerd", "containerd" },
	{ "containerd", "containerd" },
	{ "nerdctl", "containerd" },
	{ "crio", "cri-o" },
	{ "libpod", "podman" },
	{ "libpod-payload", "podman" },
	// groups around a bare id
	{ "k8s.io", "containerd" },
	{ "default", "containerd" }, // containerd's namespace unless one is named
	{ "moby", "docker" },
	{ "actions_job", "docker" }, // GitHub's runner gives docker this parent
	{ "ecs", "ecs" },
};

static const char *runtime_of(struct fp_cgroup_word word)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(runtimes); i++)
		if (fp_cgroup_word_is(word, runtimes[i].word))
			return runtimes[i].runtime;
	return "";
}

// conmon, the parent that podman and cri-o give each container, has a group like a container's.
static bool is_monitor(struct fp_cgroup_word prefix)
{
	return fp_cgroup_word_is(prefix, "conmon") || fp_cgroup_word_cut_end(&prefix, "-conmon");
}

// docker-<id>.scope, crio-<id>, libpod-payload-<id>, <id> alone, kata_<id>
static bool take_id(struct parsing *parsing, struct fp_cgroup_word word)
{
	struct fp_cgroup_word prefix, id;

	fp_cgroup_word_cut_end(&word, ".scope");
	if (!fp_cgroup_word_id(word, &prefix, &id))
		return false;
	if (is_monitor(prefix))
		return true;
	// podman's pods are groups with bare ids around those of their containers
	if (prefix.size == 0 && fp_cgroup_word_is(parsing->before, "libpod_parent"))
		return true;
	set_container(parsing, id, prefix.size ? runtime_of(prefix) : parsing->runtime, false);
	return true;
}

static bool take_pod(struct parsing *parsing, struct fp_cgroup_word word)
{
	fp_cgroup_word_cut_end(&word, ".slice");
	if (!parsing->believed || !fp_cgroup_word_pod(word, parsing->facts->pod_uid))
		return false;
	parsing->facts->pod_container_id[0] = '\0';
	return true;
}

// lxc.payload.NAME and lxc.payload/NAME of LXC 3 and 4, lxc/NAME before them
static bool take_lxc(struct parsing *parsing, struct fp_cgroup_word word)
{
	static const char payload[] = "lxc.payload.";

	if (fp_cgroup_word_begins(word, payload)) {
		word.text += sizeof(payload) - 1;
		word.size -= sizeof(payload) - 1;
	} else if (!fp_cgroup_word_is(parsing->before, "lxc") &&
		   !fp_cgroup_word_is(parsing->before, "lxc.payload")) {
		return false;
	}
	if (!fp_cgroup_word_name(word))
		return false;
	set_container(parsing, word, "lxc", true);
	return true;
}

// machine-NAME.scope and systemd-nspawn@NAME.service. Machines of libvirt's qemu are no
// containers: what they hold is one program of the host.
static bool take_machine(struct parsing *parsing, struct fp_cgroup_word word)
{
	static const char *const forms[][2] = { { "machine-", ".scope" },
						{ "systemd-nspawn@", ".service" } };
	char name[FP_CONTAINER_ID_MAX];

	for (size_t i = 0; i < FP_ARRAY_SIZE(forms); i++) {
		struct fp_cgroup_word base = word;
		size_t skip = strlen(forms[i][0]);

		if (!fp_cgroup_word_begins(base, forms[i][0]) ||
		    !fp_cgroup_word_cut_end(&base, forms[i][1]) || base.size <= skip)
			continue;
		base.text += skip;
		base.size -= skip;
		if (!fp_cgroup_word_unescape(base, name) || !strncmp(name, "qemu-", 5))
			return false;
		base = (struct fp_cgroup_word){ name, strlen(name) };
		set_container(parsing, base, strncmp(name, "lxc-", 4) ? "nspawn" : "lxc", true);
		return true;
	}
	return false;
}

static bool take_other_runtime(struct parsing *parsing, struct fp_cgroup_word word)
{
	if (fp_cgroup_word_ecs(word)) {
		set_container(parsing, word, "ecs", false);
		return true;
	}
	if (fp_cgroup_word_is(parsing->before, "garden") && fp_cgroup_word_uuid(word)) {
		set_container(parsing, word, "garden", false);
		return true;
	}
	// BuildKit's ids are 25 letters and digits.
	if (fp_cgroup_word_is(parsing->before, "buildkit") && word.size == 25 &&
	    fp_cgroup_word_name(word)) {
		set_container(parsing, word, "buildkit", false);
		return true;
	}
	return false;
}

static bool take_unit(struct parsing *parsing, struct fp_cgroup_word word)
{
	struct fp_cgroup_facts *facts = parsing->facts;

	// systemd puts '_' before names that would look like the kernel's own files.
	if (word.size > 1 && word.text[0] == '_') {
		word.text++;
		word.size--;
	}
	if (fp_cgroup_word_slice(word)) {
		if (!memmem(word.text, word.size, "libpod_pod_", 11))
			copy_word(facts->slice, sizeof(facts->slice), word);
		return true;
	}
	if (!fp_cgroup_word_unit(word))
		return false;
	// A manager's own group says less than the unit that runs the manager.
	if (!fp_cgroup_word_is(word, "init.scope") || !facts->unit[0])
		copy_word(facts->unit, sizeof(facts->unit), word);
	return true;
}

// What runc made of `slice:prefix:id` under the cgroupfs driver: one word with the colons.
static bool take_colons(struct parsing *parsing, struct fp_cgroup_word word)
{
	const char *first = memchr(word.text, ':', word.size);
	struct fp_cgroup_word slice, rest, prefix, id;

	if (!first)
		return false;
	slice = (struct fp_cgroup_word){ word.text, (size_t)(first - word.text) };
	rest = (struct fp_cgroup_word){ first + 1, word.size - slice.size - 1 };
	if (!fp_cgroup_word_id(rest, &prefix, &id) || id.text[-1] != ':')
		return false;
	parsing->in_pod = take_pod(parsing, slice);
	if (!parsing->in_pod)
		take_unit(parsing, slice);
	set_container(parsing, id, runtime_of(prefix), false);
	return true;
}

// The word beside the payload in an nspawn unit is nspawn itself.
static bool take_supervisor(struct parsing *parsing, struct fp_cgroup_word word)
{
	if (!parsing->believed || !fp_cgroup_word_is(word, "supervisor") ||
	    strcmp(parsing->facts->runtime, "nspawn") != 0)
		return false;
	parsing->facts->container_id[0] = parsing->facts->runtime[0] = '\0';
	parsing->facts->has_name = false;
	return true;
}

static void take_word(struct parsing *parsing, struct fp_cgroup_word word)
{
	static bool (*const kinds[])(struct parsing *, struct fp_cgroup_word) = {
		take_colons,	    take_id,	     take_lxc,	take_machine,
		take_other_runtime, take_supervisor, take_unit,
	};
	bool is_pod = take_pod(parsing, word);
	const char *runtime = runtime_of(word);

	for (size_t i = 0; i < FP_ARRAY_SIZE(kinds) && !is_pod; i++)
		if (kinds[i](parsing, word))
			break;
	if (runtime[0] || is_pod)
		parsing->runtime = runtime; // of a pod's containers the group does not tell
	parsing->in_pod = is_pod;
	parsing->before = word;
}

static size_t without_deleted(const char *path, size_t size)
{
	static const char suffix[] = " (deleted)";
	size_t length = sizeof(suffix) - 1;

	return size >= length && !memcmp(path + size - length, suffix, length) ? size - length
									       : size;
}

void fp_cgroup_path_parse(const char *path, size_t size, size_t believed,
			  struct fp_cgroup_facts *ret)
{
	struct fp_cgroup_facts facts = { 0 };
	struct parsing parsing = { .facts = &facts, .before = { "", 0 }, .runtime = "" };
	size_t at = 0;

	size = without_deleted(path, size);
	while (at < size) {
		const char *slash = memchr(path + at, '/', size - at);
		size_t length = slash ? (size_t)(slash - path) - at : size - at;
		struct fp_cgroup_word word = { path + at, length };

		// ".." leads out of the reader's own namespace: what follows is whole again
		parsing.believed = at + length <= believed;
		if (length > 0 && !fp_cgroup_word_is(word, ".."))
			take_word(&parsing, word);
		at += length + 1;
	}
	*ret = facts;
}

// Without owners: all of it but what stands below the manager of a user's units, who may make
// groups there as they like.
static size_t believed_of(const char *path, size_t size)
{
	size_t at = 0;

	while (at < size) {
		const char *slash = memchr(path + at, '/', size - at);
		size_t end = slash ? (size_t)(slash - path) : size;
		struct fp_cgroup_word word = { path + at, end - at };

		if (fp_cgroup_word_begins(word, "user@") &&
		    !fp_cgroup_word_is(word, "user@0.service") &&
		    fp_cgroup_word_cut_end(&word, ".service"))
			return end;
		at = end + 1;
	}
	return size;
}

static int worth(const struct fp_cgroup_facts *facts)
{
	return (facts->container_id[0] ? 8 : 0) + (facts->pod_uid[0] ? 4 : 0) +
	       (facts->unit[0] ? 2 : 0) + (facts->slice[0] ? 1 : 0);
}

void fp_cgroup_text_parse(const char *text, size_t size, struct fp_cgroup_facts *ret)
{
	struct fp_cgroup_facts best = { 0 };

	for (size_t at = 0; at < size;) {
		const char *newline = memchr(text + at, '\n', size - at);
		size_t end = newline ? (size_t)(newline - text) : size;
		const char *colon = memchr(text + at, ':', end - at);
		struct fp_cgroup_facts facts;

		if (colon) // hierarchy:controllers:path; the path may hold colons, the others not
			colon = memchr(colon + 1, ':', (size_t)(text + end - colon - 1));
		if (colon) {
			size_t length = (size_t)(text + end - ++colon);

			fp_cgroup_path_parse(colon, length, believed_of(colon, length), &facts);
			if (worth(&facts) > worth(&best))
				best = facts;
		}
		at = end + 1;
	}
	*ret = best;
}
