// SPDX-License-Identifier: Apache-2.0
#include "labels_service.h"

#include "cgroup_word.h"

#include <string.h>

// What Kubernetes makes random names of (k8s.io/apimachinery/pkg/util/rand): no vowels, so that
// no words come out, and nothing that looks like another. Few real names end like that.
static const char random_letters[] = "bcdfghjklmnpqrstvwxz2456789";
static const char digits[] = "0123456789";

// The size without a last word of least..most of these letters, or 0.
static size_t without_word(const char *name, size_t size, const char *letters, size_t least,
			   size_t most)
{
	size_t length = 0;

	while (length < size && strchr(letters, name[size - length - 1]))
		length++;
	if (length < least || length > most || length + 2 > size || name[size - length - 1] != '-')
		return 0;
	return size - length - 1;
}

size_t fp_service_of_pod(const char *pod, const char *host)
{
	size_t size = strlen(pod), host_size = strlen(host), shorter, ordinal;

	if (host_size > 0 && size > host_size + 1 && !strcmp(pod + size - host_size, host) &&
	    pod[size - host_size - 1] == '-')
		return size - host_size - 1;
	shorter = without_word(pod, size, random_letters, 5, 5);
	if (shorter > 0) {
		// Deployment: the hash of the ReplicaSet; CronJob: minutes or seconds of its run.
		size_t hash = without_word(pod, shorter, random_letters, 6, 10);
		size_t run = without_word(pod, shorter, digits, 8, 10);

		return run ? run : hash ? hash : shorter;
	}
	ordinal = without_word(pod, size, digits, 1, 5);
	return ordinal ? ordinal : size;
}

static bool is_for_one_command(const char *unit, size_t size)
{
	struct fp_cgroup_word word = { unit, size }, id = { unit, 64 };
	size_t run;

	if (size >= 64 && fp_cgroup_word_hex(id, 64))
		return true; // podman's health checks
	if (!fp_cgroup_word_begins(word, "run-"))
		return false;
	run = 4 + strspn(unit + 4, "rup");
	return run + strspn(unit + run, "0123456789abcdef") == size; // systemd-run
}

// snap.NAME.APP-<uuid>.scope
static size_t snap_size(struct fp_cgroup_word word)
{
	struct fp_cgroup_word id;

	if (!fp_cgroup_word_begins(word, "snap.") || !fp_cgroup_word_cut_end(&word, ".scope") ||
	    word.size < 5 + 1 + 37)
		return 0;
	id = (struct fp_cgroup_word){ word.text + word.size - 36, 36 };
	return id.text[-1] == '-' && fp_cgroup_word_uuid(id) ? word.size - 37 : 0;
}

size_t fp_service_of_unit(const char *unit)
{
	struct fp_cgroup_word word = { unit, strlen(unit) };

	if (!fp_cgroup_word_cut_end(&word, ".service"))
		return snap_size(word);
	if (fp_cgroup_word_begins(word, "user@") || is_for_one_command(unit, word.size))
		return 0;
	return word.size;
}
