// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "agent/cgroup.h"
#include "agent/cgroup_path.h"
#include "cgroup_paths.h"

#include <string.h>

static void check(const struct cgroup_case *c, const struct fp_cgroup_facts *facts)
{
	assert_string_equal(facts->container_id, c->container_id);
	assert_string_equal(facts->runtime, c->runtime);
	assert_string_equal(facts->pod_uid, c->pod_uid);
	assert_string_equal(facts->unit, c->unit);
	assert_string_equal(facts->slice, c->slice);
	assert_string_equal(facts->pod_container_id, c->pod_uid[0] ? c->container_id : "");
	assert_int_equal(facts->has_name,
			 !strcmp(c->runtime, "lxc") || !strcmp(c->runtime, "nspawn"));
}

static void test_corpus(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cgroup_cases); i++) {
		struct fp_cgroup_facts facts;

		print_message("  %s\n", cgroup_cases[i].sentence);
		fp_cgroup_text_parse(cgroup_cases[i].text, strlen(cgroup_cases[i].text), &facts);
		check(&cgroup_cases[i], &facts);
	}
}

// Every beginning of every line: nothing is read behind the end, which the sanitizers see.
static void test_cut(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cgroup_cases); i++) {
		size_t size = strlen(cgroup_cases[i].text);

		for (size_t cut = 0; cut < size; cut++) {
			FP_AUTOFREE char *text = malloc(cut ? cut : 1);
			struct fp_cgroup_facts facts;

			memcpy(text, cgroup_cases[i].text, cut);
			fp_cgroup_text_parse(text, cut, &facts);
			assert_in_range(strlen(facts.container_id), 0, FP_CONTAINER_ID_MAX - 1);
			assert_in_range(strlen(facts.unit), 0, FP_UNIT_NAME_MAX - 1);
		}
	}
}

// docker inside a pod: the inner container is whose the process is, the outer one whose the pod is
static void test_nested_in_pod(void **state)
{
	static const char path[] = QOS U_ ".slice/cri-containerd-" A ".scope/docker/" B;
	struct fp_cgroup_facts facts;

	fp_cgroup_path_parse(path, strlen(path), strlen(path), &facts);
	assert_string_equal(facts.container_id, B);
	assert_string_equal(facts.runtime, "docker");
	assert_string_equal(facts.pod_container_id, A);
	assert_string_equal(facts.pod_uid, U);
}

#define USER "/user.slice/user-1000.slice/user@1000.service"

// believed: the part that root made.
static const struct {
	const char *sentence, *believed, *rest;
	const char *container_id, *runtime, *pod_uid, *unit;
	bool is_claimed;
} owned[] = {
	{ "a container that a delegated group holds is not a pod's", USER,
	  "/app.slice/cri-containerd-" A ".scope", "", "", "", "user@1000.service", false },
	{ "nor is one in a pod that a delegated group holds", USER,
	  "/kubepods.slice/kubepods-pod" U_ ".slice/cri-containerd-" A ".scope", "", "", "",
	  "user@1000.service", false },
	{ "nor one in a pod spelled the other way", USER, "/kubepods/pod" U "/" A, "", "", "",
	  "user@1000.service", false },
	{ "nor one with colons", USER, "/kubepods-pod" U_ ".slice:crio:" A, "", "", "",
	  "user@1000.service", false },
	{ "nor an LXC container", USER, "/lxc.payload.shop", "", "", "", "user@1000.service",
	  false },
	{ "nor a machine", USER, "/machine-shop.scope", "", "", "", "user@1000.service", false },
	{ "nor a garden", USER, "/garden/" U, "", "", "", "user@1000.service", false },
	{ "rootless podman's id is a claim", USER, "/user.slice/libpod-" A ".scope/container", A,
	  "podman-rootless", "", "user@1000.service", true },
	{ "rootless docker's too", "/system.slice/ci.service", "/docker-" A ".scope", A,
	  "docker-rootless", "", "ci.service", true },
	{ "of claims in claims the innermost", USER, "/libpod-" A ".scope/docker/" B, B,
	  "docker-rootless", "", "user@1000.service", true },
	{ "a claim below a container of root's changes nothing", "/system.slice/docker-" A ".scope",
	  "/docker/" B, A, "docker", "", "", false },
	{ "nor does one below a pod's", "/kubepods/pod" U "/" A, "/docker/" B, A, "", U, "",
	  false },
	{ "nor does the name of nspawn's supervisor", "/machine.slice/systemd-nspawn@a.service",
	  "/supervisor", "a", "nspawn", "", "", false },
	{ "half a word is not believed", "/system.slice/cri-containerd-", A ".scope", "", "", "",
	  "", false },
	{ "all of it is believed", "/system.slice/docker-" A ".scope", "", A, "docker", "", "",
	  false },
	{ "none of it is", "", "/kubepods/pod" U "/" A, "", "", "", "", false },
};

static void test_owned(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(owned); i++) {
		struct fp_cgroup_facts facts;
		char path[600];

		print_message("  %s\n", owned[i].sentence);
		snprintf(path, sizeof(path), "%s%s", owned[i].believed, owned[i].rest);
		fp_cgroup_path_parse(path, strlen(path), strlen(owned[i].believed), &facts);
		assert_string_equal(facts.container_id, owned[i].container_id);
		assert_string_equal(facts.runtime, owned[i].runtime);
		assert_string_equal(facts.pod_uid, owned[i].pod_uid);
		assert_string_equal(facts.unit, owned[i].unit);
		assert_int_equal(facts.is_claimed, owned[i].is_claimed);
		if (facts.is_claimed)
			assert_string_equal(facts.pod_container_id, "");
	}
}

static void test_long_names(void **state)
{
	char path[600] = "/system.slice/";
	struct fp_cgroup_facts facts;

	memset(path + 14, 'u', 500);
	strcpy(path + 514, ".service");
	fp_cgroup_path_parse(path, strlen(path), strlen(path), &facts);
	assert_string_equal(facts.unit, "");
	assert_string_equal(facts.slice, "system.slice");
}

#define MEMORY "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
#define PIDS   "31 25 0:27 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids\n"
#define CPU                                                                                        \
	"32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 master:2 - cgroup cgroup "            \
	"rw,cpu,cpuacct\n"
#define SYSTEMD "29 25 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
#define UNIFIED "28 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
#define PURE	"28 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
#define OTHER	"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,memory\n"

static const struct {
	const char *sentence, *mountinfo;
	bool lends;
	const char *controller; // NULL: v2
	const char *mount;
} choices[] = {
	{ "v2 alone", OTHER PURE, true, NULL, "/sys/fs/cgroup" },
	{ "v2 alone that lends nothing", OTHER PURE, false, NULL, "/sys/fs/cgroup" },
	{ "hybrid: the controller that runtimes use", UNIFIED SYSTEMD PIDS CPU MEMORY, false,
	  "memory", "/sys/fs/cgroup/memory" },
	{ "v1: systemd's own hierarchy is none of a controller", SYSTEMD CPU PIDS, false, "pids",
	  "/sys/fs/cgroup/pids" },
	{ "v1: two controllers on one mount", SYSTEMD CPU, false, "cpu",
	  "/sys/fs/cgroup/cpu,cpuacct" },
	{ "v2 with the controllers, and leftovers of v1", UNIFIED SYSTEMD CPU, true, NULL,
	  "/sys/fs/cgroup/unified" },
	{ "systemd's hierarchy alone tells nothing to BPF", SYSTEMD, false, NULL, "" },
	{ "no hierarchy at all", OTHER, false, NULL, "" },
	{ "the whole hierarchy rather than a container's part of it",
	  "40 2 0:23 /docker/x /run/part rw - cgroup2 cgroup rw\n" PURE, true, NULL,
	  "/sys/fs/cgroup" },
	{ "a part rather than none", "40 2 0:23 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
	  true, NULL, "/sys/fs/cgroup" },
	{ "in a namespace, the host's mount rather than one's own",
	  PURE "40 2 0:23 /../../.. /host/cgroup ro - cgroup2 cgroup2 rw\n"
	       "41 2 0:23 /../.. /host/pods ro - cgroup2 cgroup2 rw\n",
	  true, NULL, "/host/cgroup" },
	{ "a mount point with a space", "40 2 0:23 / /srv/a\\040b ro - cgroup2 cgroup rw\n", true,
	  NULL, "/srv/a b" },
	{ "lines cut short", "40 2 0:23 / /srv/a\n40\n\n - cgroup2\n", true, NULL, "" },
};

static void test_choice(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(choices); i++) {
		struct fp_cgroup_choice choice;
		const char *controller;

		print_message("  %s\n", choices[i].sentence);
		fp_cgroup_choose_from(choices[i].mountinfo, choices[i].lends, &choice);
		controller = fp_cgroup_controller(choice.subsystem);
		assert_string_equal(controller ? controller : "v2",
				    choices[i].controller ? choices[i].controller : "v2");
		assert_string_equal(choice.mount, choices[i].mount);
	}
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("every spelling of the corpus is understood", test_corpus),
		FP_CASE("a text cut anywhere is read within its bounds", test_cut),
		FP_CASE("of containers in a pod's container both are known", test_nested_in_pod),
		FP_CASE("containers and pods are those of groups that root made", test_owned),
		FP_CASE("a name longer than any unit's is none", test_long_names),
		FP_CASE("the hierarchy that tells most is chosen", test_choice),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
