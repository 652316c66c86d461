// SPDX-License-Identifier: Apache-2.0
#include "collectormetrics.h"

#define ROW(id, metric_name, metric_type, metric_unit, metric_labels, metric_help)                 \
	[FP_METRIC_##id] = { .name = "fleetprof_collector_" metric_name,                           \
			     .type = FP_METRIC_##metric_type,                                      \
			     .unit = FP_METRIC_##metric_unit,                                      \
			     .labels = metric_labels,                                              \
			     .help = metric_help },

const struct fp_metric fp_collector_metrics[FP_COLLECTOR_METRIC_COUNT] = { FP_COLLECTOR_METRICS(
    ROW) };
