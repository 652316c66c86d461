// SPDX-License-Identifier: Apache-2.0
//
// cgrouppath_fuzz: any bytes as /proc/PID/cgroup, and each as a name in the kubelet's log
// directory. What comes out is terminated and of the shape that labels promise.
#include "fuzz.h"

#include "agent/cgroup_path.h"
#include "agent/labels_pods.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const char *text, size_t room)
{
	size_t size = strnlen(text, room);

	if (size == room)
		abort();
	for (size_t i = 0; i < size; i++)
		if (text[i] < '!' || text[i] > '~' || text[i] == '/')
			abort();
}

static void check_name(const char *name)
{
	struct fp_pod_entry entry;

	if (!fp_pod_link_parse(name, &entry) && !fp_pod_directory_parse(name, &entry))
		return;
	check_text(entry.namespace, sizeof(entry.namespace));
	check_text(entry.pod, sizeof(entry.pod));
	check_text(entry.container, sizeof(entry.container));
	check_text(entry.id, sizeof(entry.id));
}

static void check_facts(const struct fp_cgroup_facts *facts)
{
	check_text(facts->container_id, sizeof(facts->container_id));
	check_text(facts->pod_container_id, sizeof(facts->pod_container_id));
	check_text(facts->runtime, sizeof(facts->runtime));
	check_text(facts->pod_uid, sizeof(facts->pod_uid));
	check_text(facts->unit, sizeof(facts->unit));
	check_text(facts->slice, sizeof(facts->slice));
}

// A path that root made nothing of names no pod, and no container but by claim.
static void check_path(const char *path, size_t size)
{
	struct fp_cgroup_facts facts;

	fp_cgroup_path_parse(path, size, size / 2, &facts);
	check_facts(&facts);
	fp_cgroup_path_parse(path, size, 0, &facts);
	check_facts(&facts);
	if (facts.pod_uid[0] || facts.pod_container_id[0] || facts.has_name ||
	    facts.is_claimed != (facts.container_id[0] != '\0'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fp_cgroup_facts facts;
	char *name = strndup((const char *)data, size);

	if (memchr(data, '\0', size)) { // the kernel's text holds none
		free(name);
		return 0;
	}
	fp_cgroup_text_parse((const char *)data, size, &facts);
	check_facts(&facts);
	check_path((const char *)data, size);
	check_name(name);
	free(name);
	return 0;
}
