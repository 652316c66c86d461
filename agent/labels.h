// SPDX-License-Identifier: Apache-2.0
//
// labels: who a sample belongs to, in the words people filter by. From the record's cgroup (or,
// where the kernel's id says nothing, /proc/PID/cgroup, or what the parent had at the fork):
// container_id, systemd_unit, systemd_slice, pod_uid; from the kubelet's log-directory names:
// namespace, pod, container; and executable, thread, state, service_name, static labels. Last, the
// relabel rules of the configuration change or drop them. docs/labels.md has the table.
// Stage: resolve. Trust: cgroup paths and log names come from container runtimes and whoever can
// create cgroups: text, checked by shape, never used to open anything.
// Ownership: the labeler owns its caches. Threads: one owner.
#pragma once

#include "bpf/abi.h"
#include "proto/profile.h"

struct fp_labeler;

struct fp_labeler_options {
	const char *static_labels; // `name=value, …`
	const char *relabel;	   // rules, docs/labels.md; checked by fp_relabel_check
	const char *log_directory; // "/var/log": its containers/ and pods/ name Kubernetes pods
	uint32_t cgroup_subsystem; // what record->cgroup_id is of, fp_sampler_cgroup_subsystem
	const char *hostname;	   // ends the names of static pods; NULL: what the kernel says
};

int fp_labeler_new(const struct fp_labeler_options *options, struct fp_labeler **ret);
void fp_labeler_free(struct fp_labeler *labeler);
static inline void fp_labeler_freep(struct fp_labeler **labeler)
{
	fp_labeler_free(*labeler);
	*labeler = NULL;
}

struct fp_labeler_process { // whom the record was taken in
	uint32_t tgid, parent_tgid;
	uint64_t start_ns;
	const char *executable; // base name
};
// Looks up at once what is gone later: to be called when a record arrives, so that what runs
// in a container of a second is not without one at the drain. Optional, and cheap.
void fp_labeler_see(struct fp_labeler *labeler, const struct fp_stack_record *record);
// The label set of the record. *ret_dropped: a rule says that the sample is not wanted; the
// caller counts it as filtered by `relabel`.
int fp_labeler_describe(struct fp_labeler *labeler, const struct fp_stack_record *record,
			const struct fp_labeler_process *process, struct fp_profile *profile,
			uint32_t *ret_labels, bool *ret_dropped);
uint64_t fp_labeler_bytes(const struct fp_labeler *labeler); // memory held

struct fp_labeler_stats {	     // running sums, for metrics
	uint64_t bytes;		     // as fp_labeler_bytes
	uint64_t cgroups_found;	     // control groups whose id was looked up
	uint64_t cgroups_gone;	     // that were gone by then, or out of sight
	uint64_t processes_read;     // /proc/PID/cgroup read instead
	uint64_t inherited;	     // processes that got what their parent had
	uint64_t unknown;	     // processes of which nothing could be told
	uint64_t relabel_overruns;   // values that were too much for a rule
	uint64_t log_entries_unread; // of the log directory, see fp_pods_unread
};
void fp_labeler_stats(const struct fp_labeler *labeler, struct fp_labeler_stats *ret);

// -EINVAL and a sentence in error naming the rule when the text is not a list of rules; *ret_rule
// is then its number, from 1.
int fp_relabel_check(const char *rules, uint32_t *ret_rule, struct fp_buf *error);

// A label that samples may have without static labels and rules.
bool fp_label_is_ours(const char *name);
// Tells of rules that look like a mistake, one sentence each, without a newline. rules: as accepted
// by fp_relabel_check, else -EINVAL.
typedef void (*fp_relabel_doubt_fn)(uint32_t rule, const char *sentence, void *context);
int fp_relabel_doubt(const char *rules, const char *static_labels, fp_relabel_doubt_fn tell,
		     void *context);
