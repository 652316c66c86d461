// SPDX-License-Identifier: Apache-2.0
//
// cgroup_word: the shape of one word of a control group's path. Private to cgroup_path.c.
// A word is a pointer and a size, not terminated. Threads: no state.
#pragma once

#include "cgroup_path.h"

struct fp_cgroup_word {
	const char *text;
	size_t size;
};

bool fp_cgroup_word_is(struct fp_cgroup_word word, const char *text);
bool fp_cgroup_word_begins(struct fp_cgroup_word word, const char *text);
// True, and word without it, when it ends so.
bool fp_cgroup_word_cut_end(struct fp_cgroup_word *word, const char *text);
bool fp_cgroup_word_hex(struct fp_cgroup_word word, size_t digits);

// `<prefix><64 hex>`, as runtimes name their containers' groups; the prefix with its '-', '_'
// or ':' taken off, or empty.
bool fp_cgroup_word_id(struct fp_cgroup_word word, struct fp_cgroup_word *ret_prefix,
		       struct fp_cgroup_word *ret_id);
// `<32 hex>-<number>`, as ECS on Fargate does.
bool fp_cgroup_word_ecs(struct fp_cgroup_word word);
// `[…-]pod<uid>`: the uid with dashes, whatever stands in their place (systemd: '_').
bool fp_cgroup_word_pod(struct fp_cgroup_word word, char ret_uid[37]);
bool fp_cgroup_word_uuid(struct fp_cgroup_word word);
// A unit that may hold processes, or a slice.
bool fp_cgroup_word_unit(struct fp_cgroup_word word);
bool fp_cgroup_word_slice(struct fp_cgroup_word word);
// A name of an LXC container or machine: what they accept, without bytes that need escaping.
bool fp_cgroup_word_name(struct fp_cgroup_word word);
// Undoes systemd's \xNN. False when it does not fit or is not a name then.
bool fp_cgroup_word_unescape(struct fp_cgroup_word word, char ret[FP_CONTAINER_ID_MAX]);
