// SPDX-License-Identifier: Apache-2.0
//
// metrics: one table row per metric (name, type, help, label, unit of storage) and one
// slot of shared memory per row, so that the privileged process counts and an
// unprivileged one serves /metrics. Slots are uint64_t, updated with relaxed atomics;
// nanosecond slots are printed as seconds.
// Source of the text format: Prometheus exposition format 0.0.4.
#pragma once

#include "buf.h"

enum fp_metric_type { FP_METRIC_COUNTER, FP_METRIC_GAUGE };
enum fp_metric_unit { FP_METRIC_PLAIN, FP_METRIC_NANOSECONDS, FP_METRIC_TEXT_INFO };

struct fp_metric {
	const char *name; // full Prometheus name; rows of one name stand together
	enum fp_metric_type type;
	enum fp_metric_unit unit;
	const char *labels; // `reason="map_full"` or NULL; already escaped
	const char *help;   // one sentence
};

struct fp_metrics {
	const struct fp_metric *rows;
	size_t count;
	uint64_t *slots; // count slots; MAP_SHARED memory or private
};

static inline void fp_metric_add(struct fp_metrics *metrics, size_t row, uint64_t n)
{
	__atomic_fetch_add(&metrics->slots[row], n, __ATOMIC_RELAXED);
}

static inline void fp_metric_set(struct fp_metrics *metrics, size_t row, uint64_t value)
{
	__atomic_store_n(&metrics->slots[row], value, __ATOMIC_RELAXED);
}

static inline uint64_t fp_metric_get(const struct fp_metrics *metrics, size_t row)
{
	return __atomic_load_n(&metrics->slots[row], __ATOMIC_RELAXED);
}

// Slots in a memfd (close-on-exec off), to be mapped by another process with the same
// table through fp_metrics_map. Returns 0 and the descriptor, or -errno.
int fp_metrics_share(const struct fp_metric *rows, size_t count, struct fp_metrics *ret_metrics,
		     int *ret_fd);
int fp_metrics_map(const struct fp_metric *rows, size_t count, int fd,
		   struct fp_metrics *ret_metrics);
void fp_metrics_unmap(struct fp_metrics *metrics);
// Appends HELP/TYPE lines and samples of all rows.
int fp_metrics_render(const struct fp_metrics *metrics, struct fp_buf *text);
// Appends process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds and
// process_start_time_seconds of `pid` (0: this process).
int fp_metrics_render_process(int pid, struct fp_buf *text);
// The Markdown table for docs/.
int fp_metrics_markdown(const struct fp_metric *rows, size_t count, struct fp_buf *text);
