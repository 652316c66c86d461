// SPDX-License-Identifier: Apache-2.0
//
// config: the agent's settings. One struct, one table (fp_agent_settings) that drives the
// file parser, the environment, the command line, --dump-config and docs/agent-settings.md.
// Precedence: flags > environment > conf.d > file > default (common/settings.h).
// Input: /etc/fleetprof/agent.conf and its conf.d, trusted (root's), but strict: what is
// wrong is named by file, line and key.
// Ownership: the struct owns its strings; fp_agent_config_free. Threads: no state.
#pragma once

#include "common/settings.h"
#include "sampler.h"

#define FP_AGENT_DEFAULT_CONFIG "/etc/fleetprof/agent.conf"

enum fp_walk_choice { // how user stacks are walked; the setting `limits.walk`
	FP_WALK_AUTO,
	FP_WALK_FRAME_POINTER,
	FP_WALK_HELPER,
};

struct fp_agent_config {
	bool cpu_enabled;
	uint32_t cpu_hz;

	bool off_cpu_enabled;
	uint32_t off_cpu_hook; // enum fp_offcpu_hook
	uint32_t off_cpu_walk_budget;
	uint64_t off_cpu_quantum_ns;
	bool off_cpu_run_queue;
	bool off_cpu_wakers;
	bool off_cpu_kernel_threads;

	uint32_t limits_stacks;
	uint64_t limits_ring_size;
	uint64_t limits_process_memory;
	uint32_t limits_max_user_frames;
	uint64_t limits_window_memory;
	uint32_t limits_walk; // enum fp_walk_choice

	bool unwind_tables;
	uint64_t unwind_memory;

	uint64_t window_length_ns;
	uint32_t window_jitter_percent;
	uint64_t window_drain_interval_ns;

	char *collector_url;
	char *collector_token_file;
	char *collector_ca_file;
	uint64_t collector_retry_max_ns;

	char *spool_directory;
	uint64_t spool_max_size;
	uint64_t spool_max_age_ns;
	uint32_t spool_min_free_percent;
	uint64_t spool_min_free;

	char *labels_static;
	char *labels_relabel;
	char *labels_log_directory;

	bool symbols_jit_names;
	bool symbols_upload;
	char *symbols_deny_file_systems;
	uint64_t symbols_request_deadline_ns;
	uint64_t symbols_perf_map_max_size;

	char *agent_user;
	char *agent_hostname;
	char *agent_machine_id_file;
	char *agent_state_directory;
	char *agent_lock_file;
	char *agent_control_socket;
	char *agent_control_group;
	char *agent_listen;
	uint32_t agent_log_level; // index into error, warning, info, debug
	bool agent_allow_unsafe_kernel;
	char *agent_kernel_deny;
	char *agent_kernel_warn;
	char *agent_kernel_no_user_read;
};

extern const struct fp_settings_table fp_agent_settings;

// Where the values come from besides the environment.
struct fp_agent_config_source {
	const char *path;   // configuration file
	bool path_required; // false: a file that does not exist is no error
	char *const *flags; // `--section-key=value` arguments
	size_t flags_count;
};

// Reads all sources and checks the values against each other. origins: one entry per row of
// fp_agent_settings, or NULL. On error -errno and one line in error; *ret is then untouched.
int fp_agent_config_load(const struct fp_agent_config_source *source, struct fp_agent_config *ret,
			 struct fp_setting_origin *origins, struct fp_buf *error);
void fp_agent_config_free(struct fp_agent_config *config);
#define FP_AUTOCONFIG FP_CLEANUP(fp_agent_config_free)

// Where the rule of labels.relabel stands, counted from 1.
void fp_agent_config_rule_origin(const struct fp_setting_origin *origins, uint32_t rule,
				 struct fp_setting_origin *ret);

// True when the row's value differs between the two.
bool fp_agent_config_differs(const struct fp_setting *row, const struct fp_agent_config *one,
			     const struct fp_agent_config *other);
// Exchanges the row's value between the two.
void fp_agent_config_exchange(const struct fp_setting *row, struct fp_agent_config *one,
			      struct fp_agent_config *other);

// Fills the sampler's part. walk_by_helper: what `limits.walk = auto` means on this kernel.
void fp_agent_config_sampler(const struct fp_agent_config *config, bool walk_by_helper,
			     struct fp_sampler_config *ret);
