// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include "common/clock.h"
#include "labels.h"
#include "preflight_kernel.h"
#include "unwind.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define KIB 1024ULL
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)
#define S   FP_NS_PER_S

static const char *const hooks[] = {
	"auto", "irq_work", "sched_exit_tp", "fexit", "way_out", NULL
};
static const char *const walks[] = { "auto", "frame_pointer", "helper", NULL };
static const char *const levels[] = { "error", "warning", "info", "debug", NULL };

#define ROW(part, name, kind, text, low, high, reload, sentence)                                   \
	{                                                                                          \
		.section = #part, .key = #name, .type = FP_SETTING_##kind,                         \
		.offset = offsetof(struct fp_agent_config, part##_##name), .default_text = text,   \
		.min = low, .max = high, .reloadable = reload, .help = sentence                    \
	}
// The field carries the unit that the key leaves to the value.
#define TIME(part, name, text, low, high, reload, sentence)                                        \
	{                                                                                          \
		.section = #part, .key = #name, .type = FP_SETTING_DURATION,                       \
		.offset = offsetof(struct fp_agent_config, part##_##name##_ns),                    \
		.default_text = text, .min = low, .max = high, .reloadable = reload,               \
		.help = sentence                                                                   \
	}
#define PICK(part, name, text, list, reload, sentence)                                             \
	{                                                                                          \
		.section = #part, .key = #name, .type = FP_SETTING_CHOICE,                         \
		.offset = offsetof(struct fp_agent_config, part##_##name), .default_text = text,   \
		.choices = list, .reloadable = reload, .help = sentence                            \
	}

static const struct fp_setting rows[] = {
	ROW(cpu, enabled, BOOL, "yes", 0, 0, true, "Take CPU samples."),
	ROW(cpu, hz, U32, "19", 1, 10000, true,
	    "Samples per second and CPU; a number that is no multiple of 10 does not beat with "
	    "timers of the programs it looks at."),
	ROW(off_cpu, enabled, BOOL, "yes", 0, 0, true, "Measure time that threads spend blocked."),
	PICK(off_cpu, hook, "auto", hooks, true,
	     "Where the stack of a blocked thread is taken; auto takes the first the kernel has."),
	ROW(off_cpu, walk_budget, U32, "250", 10, 1000000, true,
	    "Stacks of blocked threads walked per second on this host, about; which intervals are "
	    "kept is chosen so that totals stay unbiased, see overhead.md."),
	TIME(off_cpu, quantum, "0s", 0, 3600 * S, true,
	     "Intervals of at least this are all kept, shorter ones in proportion; 0s adapts it to "
	     "off_cpu.walk_budget."),
	ROW(off_cpu, run_queue, BOOL, "no", 0, 0, true,
	    "Measure time that threads are ready but not running too, apart from blocked time."),
	ROW(off_cpu, wakers, BOOL, "no", 0, 0, true,
	    "Show who woke blocked threads, within a second budget of off_cpu.walk_budget."),
	ROW(off_cpu, kernel_threads, BOOL, "no", 0, 0, true, "Measure blocked kernel threads too."),
	ROW(limits, stacks, U32, "0", 0, 1U << 22, true,
	    "Different stacks per source that one drain interval can hold; 0 chooses by the "
	    "number of CPUs."),
	ROW(limits, ring_size, SIZE, "0B", 0, 256 * MIB, true,
	    "Ring buffer for new stacks, per source, a power of two of at least 4KiB; 0B chooses "
	    "by the number of CPUs."),
	ROW(limits, window_memory, SIZE, "12MiB", 1 * MIB, 1024 * MIB, true,
	    "A window that holds more than this is closed and spooled early, so that a host with "
	    "very many distinct stacks costs no more memory."),
	ROW(limits, process_memory, SIZE, "16MiB", 1 * MIB, 4096 * MIB, true,
	    "Memory for what is known of processes and their mappings; past it those that ended, "
	    "then those seen longest ago are forgotten, counted, and read again when needed."),
	ROW(limits, max_user_frames, U32, "127", 1, FP_MAX_USER_FRAMES, true,
	    "Frames of a user stack that are walked and kept at most, innermost first."),
	PICK(limits, walk, "auto", walks, true,
	     "Who walks user stacks: our frame-pointer walk or the kernel's helper; auto takes the "
	     "helper only on kernels of agent.kernel_no_user_read."),
	ROW(unwind, tables, BOOL, "yes", 0, 0, true,
	    "Walk code without frame pointers by tables made of its call frame information, see "
	    "unwinding.md."),
	ROW(unwind, memory, SIZE, "64MiB", FP_UNWIND_MEMORY_MIN, FP_UNWIND_MEMORY_MAX, true,
	    "Memory for unwind tables and what belongs to them; past it those not met in stacks "
	    "for longest make room."),
	TIME(window, length, "60s", S, 3600 * S, true,
	     "Length of the windows that profiles cover; one batch is spooled for each."),
	ROW(window, jitter_percent, U32, "10", 0, 50, false,
	    "The first window is longer or shorter by up to this share of its length, fixed per "
	    "host, so that a fleet does not ship in step."),
	TIME(window, drain_interval, "5s", S / 10, 300 * S, true,
	     "How often the kernel's maps are switched and emptied."),
	ROW(collector, url, STRING, "", 0, 0, true,
	    "Where batches are sent, http:// or https://; empty keeps them in the spool."),
	ROW(collector, token_file, STRING, "", 0, 0, true,
	    "File with the bearer token, readable by agent.user; empty sends none."),
	ROW(collector, ca_file, STRING, "", 0, 0, true,
	    "PEM file of the authorities that may sign the collector's certificate; empty takes "
	    "the system's."),
	TIME(collector, retry_max, "300s", S, 3600 * S, true,
	     "Longest pause between two tries to send."),
	ROW(spool, directory, STRING, "/var/lib/fleetprof/spool", 0, 0, false,
	    "Directory in which batches wait for the collector."),
	ROW(spool, max_size, SIZE, "512MiB", MIB, 1024 * GIB, false,
	    "Bytes the spool may hold; the oldest batch makes room."),
	TIME(spool, max_age, "26h", 60 * S, 30 * 24 * 3600 * S, false,
	     "Age at which a batch is dropped."),
	ROW(spool, min_free_percent, U32, "5", 0, 50, false,
	    "Share of the file system that is left free."),
	ROW(spool, min_free, SIZE, "1GiB", 0, 1024 * GIB, false,
	    "Bytes of the file system that are left free, at most half of it."),
	ROW(labels, static, PAIRS, "", 0, 0, true,
	    "Labels that every sample of this host carries, `name=value, name=value`."),
	ROW(labels, relabel, LINES, "", 0, 0, true,
	    "Rule that keeps or drops samples or rewrites a label, see labels.md; one a line, the "
	    "key repeated for each."),
	ROW(labels, log_directory, STRING, "/var/log", 0, 0, true,
	    "Where the kubelet's containers/ and pods/ directories are; their names give "
	    "namespace, pod and container. Empty for none."),
	ROW(symbols, jit_names, BOOL, "yes", 0, 0, true,
	    "Name JITed functions from the perf maps that runtimes write."),
	ROW(symbols, upload, BOOL, "yes", 0, 0, true,
	    "Send a build's function names to the collector when it asks for them."),
	ROW(symbols, deny_file_systems, STRING,
	    "fuse, fuseblk, autofs, nfs, nfs4, cifs, smb3, 9p, ceph, afs, lustre, gfs2, ocfs2", 0,
	    0, true, "File systems that may never answer: no file on them is opened."),
	TIME(symbols, request_deadline, "2s", S / 10, 60 * S, true,
	     "How long opening or reading one file may take before whoever does it is ended and "
	     "the file given up."),
	ROW(symbols, perf_map_max_size, SIZE, "64MiB", 1 * MIB, 1024 * MIB, true,
	    "Perf maps larger than this are refused."),
	ROW(agent, user, STRING, "fleetprof", 0, 0, false,
	    "User the agent becomes once its programs run; empty stays root, with the same six "
	    "capabilities."),
	ROW(agent, hostname, STRING, "", 0, 0, false,
	    "Name of this host in profiles; empty asks the kernel."),
	ROW(agent, machine_id_file, STRING, "/etc/machine-id", 0, 0, false,
	    "File with the host's identity; without it a random one is kept in the state "
	    "directory."),
	ROW(agent, state_directory, STRING, "/var/lib/fleetprof", 0, 0, false,
	    "Directory of what the agent must remember."),
	ROW(agent, lock_file, STRING, "/run/fleetprof/agent.lock", 0, 0, false,
	    "File locked while an agent runs, so that a host is never sampled twice."),
	ROW(agent, control_socket, STRING, "/run/fleetprof/agent.sock", 0, 0, false,
	    "Unix socket on which agentctl is answered; empty for none."),
	ROW(agent, control_group, STRING, "fleetprof", 0, 0, false,
	    "Members of this group may ask for a snapshot of any process; empty for root alone."),
	ROW(agent, listen, STRING, "127.0.0.1:7172", 0, 0, true,
	    "Address of /metrics, /healthz and /readyz; empty for none."),
	PICK(agent, log_level, "info", levels, true, "Least important messages that are logged."),
	ROW(agent, allow_unsafe_kernel, BOOL, "no", 0, 0, false,
	    "Run on a kernel of kernel_deny all the same."),
	ROW(agent, kernel_deny, STRING, "4.19", 0, 0, false,
	    "Kernel versions the agent refuses, `version` or `first-last` separated by commas; a "
	    "version with fewer numbers stands for all that begin with them."),
	ROW(agent, kernel_warn, STRING, "6.16-6.17.7", 0, 0, false,
	    "Kernel versions with known trouble in sampling, to be warned of."),
	ROW(agent, kernel_no_user_read, STRING, "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", 0, 0,
	    false,
	    "Kernel versions on which reading user memory in a sample may freeze the host, so that "
	    "the kernel's helper walks the stacks."),
};

const struct fp_settings_table fp_agent_settings = {
	.rows = rows,
	.count = FP_ARRAY_SIZE(rows),
	.struct_size = sizeof(struct fp_agent_config),
};

void fp_agent_config_free(struct fp_agent_config *config)
{
	fp_settings_free(&fp_agent_settings, config);
}

struct check {
	const struct fp_agent_config *config;
	const struct fp_setting_origin *origins;
	struct fp_buf *error;
};

static size_t row_of(const char *section, const char *key)
{
	size_t i = 0;

	while (strcmp(rows[i].section, section) != 0 || strcmp(rows[i].key, key) != 0)
		i++;
	return i;
}

// Names the place that the value came from as well.
static int refuse(const struct check *check, const char *section, const char *key,
		  const char *cause)
{
	fp_buf_clear(check->error);
	fp_buf_printf(check->error, "%s: %s.%s: %s", check->origins[row_of(section, key)].text,
		      section, key, cause);
	return -EINVAL;
}

void fp_agent_config_rule_origin(const struct fp_setting_origin *origins, uint32_t rule,
				 struct fp_setting_origin *ret)
{
	fp_setting_origin_line(&origins[row_of("labels", "relabel")], rule - 1, ret);
}

static bool is_ring_size(uint64_t bytes)
{
	return bytes == 0 || (bytes >= 4 * KIB && (bytes & (bytes - 1)) == 0);
}

static bool is_url(const char *url)
{
	return url[0] == '\0' || strncmp(url, "http://", 7) == 0 ||
	       strncmp(url, "https://", 8) == 0;
}

static int check_paths(const struct check *check)
{
	const struct {
		const char *section, *key, *path;
	} paths[] = {
		{ "spool", "directory", check->config->spool_directory },
		{ "agent", "state_directory", check->config->agent_state_directory },
		{ "agent", "lock_file", check->config->agent_lock_file },
	};
	const char *logs = check->config->labels_log_directory;

	for (size_t i = 0; i < FP_ARRAY_SIZE(paths); i++)
		if (paths[i].path[0] != '/')
			return refuse(check, paths[i].section, paths[i].key,
				      "must be an absolute path");
	if (logs[0] && logs[0] != '/')
		return refuse(check, "labels", "log_directory",
			      "must be an absolute path, or empty");
	return 0;
}

static int check_rules(const struct check *check)
{
	FP_AUTOBUF struct fp_buf cause = { 0 };
	struct fp_setting_origin origin;
	uint32_t rule = 0;

	if (fp_relabel_check(check->config->labels_relabel, &rule, &cause) == 0)
		return check_paths(check);
	if (!cause.len || rule == 0)
		return refuse(check, "labels", "relabel", "cannot be read");
	fp_agent_config_rule_origin(check->origins, rule, &origin);
	fp_buf_clear(check->error);
	fp_buf_printf(check->error, "%s: labels.relabel: %s", origin.text, (char *)cause.data);
	return -EINVAL;
}

static int check_lists(const struct check *check)
{
	const struct {
		const char *key, *list;
	} lists[] = {
		{ "kernel_deny", check->config->agent_kernel_deny },
		{ "kernel_warn", check->config->agent_kernel_warn },
		{ "kernel_no_user_read", check->config->agent_kernel_no_user_read },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(lists); i++)
		if (fp_kernel_list_check(lists[i].list) < 0)
			return refuse(check, "agent", lists[i].key,
				      "must be a list of kernel versions, e.g. 4.19, 6.1.0-6.1.35");
	return check_rules(check);
}

// What no single row can say.
static int check_together(const struct check *check)
{
	const struct fp_agent_config *config = check->config;

	if (!config->cpu_enabled && !config->off_cpu_enabled)
		return refuse(check, "off_cpu", "enabled",
			      "neither CPU nor off-CPU profiles are enabled; enable one");
	if (!is_ring_size(config->limits_ring_size))
		return refuse(check, "limits", "ring_size",
			      "must be a power of two of at least 4KiB, for example 1MiB");
	if (config->window_drain_interval_ns > config->window_length_ns)
		return refuse(check, "window", "drain_interval",
			      "must not be longer than window.length");
	if (!is_url(config->collector_url))
		return refuse(check, "collector", "url",
			      "must begin with http:// or https://, or be empty");
	return check_lists(check);
}

static int read_flags(const struct fp_agent_config_source *source, struct fp_agent_config *config,
		      struct fp_setting_origin *origins, struct fp_buf *error)
{
	for (size_t i = 0; i < source->flags_count; i++) {
		int r = fp_settings_apply_flag(&fp_agent_settings, config, origins,
					       source->flags[i], error);

		if (r == -ENOENT) {
			fp_buf_clear(error);
			fp_buf_printf(error, "unknown option '%s', see --help", source->flags[i]);
			return -EINVAL;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_sources(const struct fp_agent_config_source *source, struct fp_agent_config *config,
			struct fp_setting_origin *origins, struct fp_buf *error)
{
	int r = fp_settings_defaults(&fp_agent_settings, config, origins);

	if (r < 0)
		return r;
	if (source->path && (source->path_required || access(source->path, F_OK) == 0)) {
		r = fp_settings_read_file(&fp_agent_settings, config, origins, source->path, error);
		if (r < 0)
			return r;
	}
	r = fp_settings_read_environment(&fp_agent_settings, config, origins, error);
	if (r < 0)
		return r;
	r = read_flags(source, config, origins, error);
	if (r < 0)
		return r;
	return check_together(&(struct check){ config, origins, error });
}

int fp_agent_config_load(const struct fp_agent_config_source *source, struct fp_agent_config *ret,
			 struct fp_setting_origin *origins, struct fp_buf *error)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_setting_origin *own FP_AUTOFREE = calloc(FP_ARRAY_SIZE(rows), sizeof(*own));
	int r = own ? read_sources(source, &config, origins ? origins : own, error) : -ENOMEM;

	if (r < 0) {
		if (error->len == 0)
			fp_buf_printf(error, "cannot read the configuration: %s", strerror(-r));
		return r;
	}
	*ret = config;
	config = (struct fp_agent_config){ 0 };
	return 0;
}

static size_t row_size(const struct fp_setting *row)
{
	switch (row->type) {
	case FP_SETTING_BOOL:
		return sizeof(bool);
	case FP_SETTING_U32:
	case FP_SETTING_CHOICE:
		return sizeof(uint32_t);
	case FP_SETTING_SIZE:
	case FP_SETTING_DURATION:
		return sizeof(uint64_t);
	case FP_SETTING_STRING:
	case FP_SETTING_PAIRS:
	case FP_SETTING_LINES:
		break;
	}
	return sizeof(char *);
}

bool fp_agent_config_differs(const struct fp_setting *row, const struct fp_agent_config *one,
			     const struct fp_agent_config *other)
{
	const char *a = (const char *)one + row->offset, *b = (const char *)other + row->offset;

	if (fp_setting_is_text(row))
		return strcmp(*(char *const *)a, *(char *const *)b) != 0;
	return memcmp(a, b, row_size(row)) != 0;
}

void fp_agent_config_exchange(const struct fp_setting *row, struct fp_agent_config *one,
			      struct fp_agent_config *other)
{
	char *a = (char *)one + row->offset, *b = (char *)other + row->offset;
	char kept[sizeof(uint64_t)];
	size_t size = row_size(row);

	memcpy(kept, a, size);
	memcpy(a, b, size);
	memcpy(b, kept, size);
}

void fp_agent_config_sampler(const struct fp_agent_config *config, bool walk_by_helper,
			     struct fp_sampler_config *ret)
{
	*ret = (struct fp_sampler_config){
		.cpu_hz = config->cpu_enabled ? config->cpu_hz : 0,
		.off_cpu = config->off_cpu_enabled,
		.hook = config->off_cpu_hook,
		.walk_budget = config->off_cpu_walk_budget,
		.quantum_ns = config->off_cpu_quantum_ns,
		.run_queue = config->off_cpu_run_queue,
		.waker = config->off_cpu_wakers,
		.kernel_threads_off_cpu = config->off_cpu_kernel_threads,
		.count_entries = config->limits_stacks,
		.ring_bytes = (uint32_t)config->limits_ring_size,
		.max_user_frames = config->limits_max_user_frames,
		.use_helper_walk = config->limits_walk == FP_WALK_HELPER ||
				   (config->limits_walk == FP_WALK_AUTO && walk_by_helper),
	};
}
