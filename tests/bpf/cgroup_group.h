// SPDX-License-Identifier: Apache-2.0
//
// cgroup_group: a real control group that is named as a container's, in the hierarchy that the
// agent would choose on this host, and what the labeler says of records from it.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/cgroup.h"
#include "agent/cgroup_open.h"
#include "agent/labels.h"

#define ID "1f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3d7e0c4f8a2b6d1e5c9f3a7b0d4e8c12"

static struct fp_cgroup_choice choice;
static char parent_path[PATH_MAX + 64], group_path[PATH_MAX + 160];

// A group docker-test-PID/docker-ID.scope in the hierarchy; false: this host forbids it.
static inline bool make_group(const char *mount)
{
	snprintf(parent_path, sizeof(parent_path), "%s/fleetprof-test-%d", mount, getpid());
	snprintf(group_path, sizeof(group_path), "%s/docker-" ID ".scope", parent_path);
	return mkdir(parent_path, 0755) == 0 && mkdir(group_path, 0755) == 0;
}

static inline void remove_group(void)
{
	if (!group_path[0])
		return;
	rmdir(group_path);
	rmdir(parent_path);
}

static inline char *label_of(struct fp_labeler *labeler, const struct fp_stack_record *record,
			     uint32_t parent, const char *name)
{
	struct fp_labeler_process process = { .tgid = record->tgid,
					      .parent_tgid = parent,
					      .start_ns = record->start_ns,
					      .executable = "member" };
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	char *value = NULL;
	uint32_t index;
	bool dropped;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_labeler_describe(labeler, record, &process, profile, &index, &dropped),
			 0);
	assert_false(dropped);
	for (uint32_t i = 0; i < profile->labels[index].count; i++) {
		const struct fp_label *label =
		    &profile->label_pool[profile->labels[index].first + i];

		if (strcmp(fp_profile_str(profile, label->name), name) == 0)
			value = strdup(fp_profile_str(profile, label->value));
	}
	return value ? value : strdup("");
}

static inline void expect_container(struct fp_labeler *labeler,
				    const struct fp_stack_record *record, uint32_t parent,
				    const char *expected)
{
	char *value = label_of(labeler, record, parent, "container_id");

	assert_string_equal(value, expected);
	free(value);
}

static inline struct fp_labeler *labeler_new(void)
{
	struct fp_labeler_options options = { .cgroup_subsystem = choice.subsystem };
	struct fp_labeler *labeler;

	assert_int_equal(fp_labeler_new(&options, &labeler), 0);
	return labeler;
}

// False, and says so, when this host forbids it.
static inline bool can_make_groups(void)
{
	bool writable;

	fp_cgroup_choose(&choice);
	writable = choice.mount[0] && make_group(choice.mount);
	remove_group();
	if (!writable)
		puts("skipped: no control group can be made here");
	return writable;
}
