// SPDX-License-Identifier: Apache-2.0
//
// config: what the collector can be told. One table drives the file, the environment, the
// flags, --dump-config and docs/collector.md (see common/settings.h).
// Output: struct fp_collector_config, trusted and range-checked.
// Ownership: the struct owns its strings; fp_settings_free with fp_collector_settings.
#pragma once

#include "common/settings.h"

#define FP_COLLECTOR_CONFIG_PATH "/etc/fleetprof/collector.conf"

struct fp_collector_config {
	char *listen; // address:port
	uint32_t max_connections;
	uint64_t request_timeout_ns;
	char *directory;
	uint64_t max_store_bytes;
	uint64_t retention_ns;
	uint64_t dedup_keep_ns;
	uint32_t max_series;
	uint64_t max_batch_bytes;
	uint64_t max_inflight_bytes;
	char *token_file;
	uint64_t query_max_ns;
	uint32_t query_max_rows;
	uint64_t query_max_memory_bytes;
	uint32_t query_concurrency;
	char *debug_dirs; // colon-separated
	bool use_local_files;
	bool request_symbols;
	uint64_t symbol_cache_bytes;
	uint64_t max_symbol_bytes;
	uint64_t max_symbols_bytes; // of all uploads
	uint32_t log_level;	    // index into error, warning, info, debug
};

extern const struct fp_settings_table fp_collector_settings;
