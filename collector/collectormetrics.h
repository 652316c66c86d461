// SPDX-License-Identifier: Apache-2.0
//
// collectormetrics: the collector's counters and gauges, one row each; docs/collector.md lists them
// from the same table (common/metrics.h).
#pragma once

#include "common/metrics.h"

// X(identifier, name behind fleetprof_collector_, type, unit, labels, help)
#define FP_COLLECTOR_METRICS(X)                                                                    \
	X(BUILD_INFO, "build_info", GAUGE, TEXT_INFO, "version=\"" FP_VERSION "\"",                \
	  "Version of the collector.")                                                             \
	X(BATCHES_STORED, "batches_total", COUNTER, PLAIN, "result=\"stored\"",                    \
	  "Batches received, by what became of them.")                                             \
	X(BATCHES_DUPLICATE, "batches_total", COUNTER, PLAIN, "result=\"duplicate\"",              \
	  "Batches received, by what became of them.")                                             \
	X(BATCHES_CONFLICT, "batches_total", COUNTER, PLAIN, "result=\"conflict\"",                \
	  "Batches received, by what became of them.")                                             \
	X(BATCHES_MALFORMED, "batches_total", COUNTER, PLAIN, "result=\"malformed\"",              \
	  "Batches received, by what became of them.")                                             \
	X(BATCHES_TOO_LARGE, "batches_total", COUNTER, PLAIN, "result=\"too_large\"",              \
	  "Batches received, by what became of them.")                                             \
	X(BATCHES_FAILED, "batches_total", COUNTER, PLAIN, "result=\"failed\"",                    \
	  "Batches received, by what became of them.")                                             \
	X(RECEIVED_BYTES, "received_bytes_total", COUNTER, PLAIN, NULL,                            \
	  "Compressed bytes of stored batches.")                                                   \
	X(SAMPLES_CPU, "samples_total", COUNTER, PLAIN, "type=\"cpu\"",                            \
	  "Samples in stored batches; types other than cpu count intervals.")                      \
	X(SAMPLES_OFF_CPU, "samples_total", COUNTER, PLAIN, "type=\"off_cpu\"",                    \
	  "Samples in stored batches; types other than cpu count intervals.")                      \
	X(SAMPLES_RUN_QUEUE, "samples_total", COUNTER, PLAIN, "type=\"run_queue\"",                \
	  "Samples in stored batches; types other than cpu count intervals.")                      \
	X(SAMPLES_WAKER, "samples_total", COUNTER, PLAIN, "type=\"waker\"",                        \
	  "Samples in stored batches; types other than cpu count intervals.")                      \
	X(LAST_BATCH, "last_batch_timestamp_seconds", GAUGE, PLAIN, NULL,                          \
	  "When the last batch was stored.")                                                       \
	X(REQUESTS_REFUSED_METHOD, "requests_refused_total", COUNTER, PLAIN, "reason=\"method\"",  \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_PATH, "requests_refused_total", COUNTER, PLAIN, "reason=\"path\"",      \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_SIZE, "requests_refused_total", COUNTER, PLAIN, "reason=\"size\"",      \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_TOKEN, "requests_refused_total", COUNTER, PLAIN, "reason=\"token\"",    \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_ORIGIN, "requests_refused_total", COUNTER, PLAIN, "reason=\"origin\"",  \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_MEMORY, "requests_refused_total", COUNTER, PLAIN, "reason=\"memory\"",  \
	  "Requests refused before anything was done.")                                            \
	X(REQUESTS_REFUSED_SLOW, "requests_refused_total", COUNTER, PLAIN, "reason=\"slow\"",      \
	  "Requests refused before anything was done.")                                            \
	X(STORE_BYTES, "store_bytes", GAUGE, PLAIN, NULL, "Bytes of stored batches.")              \
	X(STORE_MAX_BYTES, "store_max_bytes", GAUGE, PLAIN, NULL,                                  \
	  "Bound on the bytes of stored batches.")                                                 \
	X(STORE_BATCHES, "store_batches", GAUGE, PLAIN, NULL, "Stored batches.")                   \
	X(STORE_IDS, "store_batch_ids", GAUGE, PLAIN, NULL,                                        \
	  "Batch ids remembered, also of batches that have left.")                                 \
	X(STORE_SERIES, "store_series", GAUGE, PLAIN, NULL,                                        \
	  "Distinct label sets known for autocompletion.")                                         \
	X(STORE_SERIES_REFUSED, "store_series_refused_total", COUNTER, PLAIN, NULL,                \
	  "Label sets beyond the bound: stored and found, but not autocompleted.")                 \
	X(STORE_HOSTS, "store_hosts", GAUGE, PLAIN, NULL, "Hosts seen in the time kept.")          \
	X(STORE_OLDEST, "store_oldest_timestamp_seconds", GAUGE, PLAIN, NULL,                      \
	  "Start of the oldest window that is stored.")                                            \
	X(STORE_EXPIRED, "store_expired_batches_total", COUNTER, PLAIN, NULL,                      \
	  "Batches that left by age or by the bound on bytes.")                                    \
	X(STORE_EXPIRED_BYTES, "store_expired_bytes_total", COUNTER, PLAIN, NULL,                  \
	  "Bytes that left by age or by the bound on bytes.")                                      \
	X(WAL_SYNCS, "wal_syncs_total", COUNTER, PLAIN, NULL,                                      \
	  "Syncs of the write-ahead log; several batches may share one.")                          \
	X(RECOVERED, "recovered_batches_total", COUNTER, PLAIN, "result=\"derived\"",              \
	  "Records of the log read again at the last start.")                                      \
	X(RECOVERED_REPEATED, "recovered_batches_total", COUNTER, PLAIN, "result=\"repeated\"",    \
	  "Records of the log read again at the last start.")                                      \
	X(RECOVERED_REFUSED, "recovered_batches_total", COUNTER, PLAIN, "result=\"refused\"",      \
	  "Records of the log read again at the last start.")                                      \
	X(TORN_BYTES, "recovered_torn_bytes_total", COUNTER, PLAIN, NULL,                          \
	  "Bytes cut from the end of the log at the last start; never acknowledged.")              \
	X(DAMAGED_BYTES, "recovered_damaged_bytes_total", COUNTER, PLAIN, NULL,                    \
	  "Unreadable bytes met inside the log at the last start.")                                \
	X(QUERIES_OK, "queries_total", COUNTER, PLAIN, "result=\"ok\"", "Queries, by result.")     \
	X(QUERIES_BAD, "queries_total", COUNTER, PLAIN, "result=\"malformed\"",                    \
	  "Queries, by result.")                                                                   \
	X(QUERIES_LIMIT, "queries_total", COUNTER, PLAIN, "result=\"over_limit\"",                 \
	  "Queries, by result.")                                                                   \
	X(QUERIES_FAILED, "queries_total", COUNTER, PLAIN, "result=\"failed\"",                    \
	  "Queries, by result.")                                                                   \
	X(QUERY_SECONDS, "query_seconds_total", COUNTER, NANOSECONDS, NULL,                        \
	  "Time spent on queries.")                                                                \
	X(QUERY_ROWS, "query_rows_total", COUNTER, PLAIN, NULL, "Sample rows read by queries.")    \
	X(DAMAGED_BATCHES, "query_damaged_batches_total", COUNTER, PLAIN, NULL,                    \
	  "Batches that a query could not read back.")                                             \
	X(BUILDS_FOUND, "builds", GAUGE, PLAIN, "symbols=\"found\"",                               \
	  "Builds met by queries, by whether their functions have names.")                         \
	X(BUILDS_MISSING, "builds", GAUGE, PLAIN, "symbols=\"missing\"",                           \
	  "Builds met by queries, by whether their functions have names.")                         \
	X(SYMBOL_BYTES, "symbol_upload_bytes", GAUGE, PLAIN, NULL,                                 \
	  "Disk space of uploaded symbol tables.")                                                 \
	X(SYMBOL_MAX_BYTES, "symbol_upload_max_bytes", GAUGE, PLAIN, NULL,                         \
	  "Bound on the disk space of uploaded symbol tables.")                                    \
	X(SYMBOL_UPLOADS, "symbol_uploads_total", COUNTER, PLAIN, "result=\"stored\"",             \
	  "Symbol tables received.")                                                               \
	X(SYMBOL_UPLOADS_REFUSED, "symbol_uploads_total", COUNTER, PLAIN, "result=\"refused\"",    \
	  "Symbol tables received.")                                                               \
	X(SYMBOLS_WANTED, "symbol_requests_total", COUNTER, PLAIN, NULL,                           \
	  "Builds that agents were asked to send the function names of.")

#define FP_COLLECTOR_METRIC_ENUM(id, name, type, unit, labels, help) FP_METRIC_##id,
enum fp_collector_metric {
	FP_COLLECTOR_METRICS(FP_COLLECTOR_METRIC_ENUM) FP_COLLECTOR_METRIC_COUNT
};

extern const struct fp_metric fp_collector_metrics[FP_COLLECTOR_METRIC_COUNT];
