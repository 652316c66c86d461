// SPDX-License-Identifier: Apache-2.0
//
// SIGHUP: the whole configuration is read and checked anew; an error keeps what is in force.
// What has changed decides what is done; what needs a restart is named and left as it was.
#include "daemon_state.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/notify.h"

#include <errno.h>
#include <string.h>

struct changes {
	bool sampling, shipping, timing, names;
	unsigned int count;
};

static bool is_sampling(const struct fp_setting *row)
{
	return strcmp(row->section, "cpu") == 0 || strcmp(row->section, "off_cpu") == 0 ||
	       strcmp(row->section, "limits") == 0 || strcmp(row->section, "labels") == 0 ||
	       strcmp(row->section, "unwind") == 0;
}

static void note(const struct fp_setting *row, struct changes *changes)
{
	changes->count++;
	if (is_sampling(row))
		changes->sampling = true;
	else if (strcmp(row->section, "symbols") == 0)
		changes->names = true;
	else if (strcmp(row->section, "window") == 0)
		changes->timing = true;
	else if (strcmp(row->section, "collector") == 0 || strcmp(row->key, "listen") == 0)
		changes->shipping = true;
}

// Leaves in `config` the values to be in force: new where a reload may change them.
static struct changes compare(const struct fp_daemon *daemon, struct fp_agent_config *config)
{
	struct fp_agent_config old = daemon->config; // borrowed
	struct changes changes = { 0 };

	for (size_t i = 0; i < fp_agent_settings.count; i++) {
		const struct fp_setting *row = &fp_agent_settings.rows[i];

		if (!fp_agent_config_differs(row, &old, config))
			continue;
		if (row->reloadable)
			note(row, &changes);
		else
			fp_warn("'%s.%s' has changed: restart the agent to apply it", row->section,
				row->key);
	}
	return changes;
}

static void exchange(struct fp_daemon *daemon, struct fp_agent_config *config, bool sampling)
{
	for (size_t i = 0; i < fp_agent_settings.count; i++) {
		const struct fp_setting *row = &fp_agent_settings.rows[i];

		if (row->reloadable && is_sampling(row) == sampling)
			fp_agent_config_exchange(row, &daemon->config, config);
	}
}

static int apply(struct fp_daemon *daemon, struct fp_agent_config *config)
{
	struct changes changes = compare(daemon, config);
	int r = 0;

	exchange(daemon, config, false);
	exchange(daemon, config, true);
	if (changes.sampling)
		r = fp_daemon_session_reopen(daemon);
	if (r < 0)
		exchange(daemon, config, true); // the old session goes on with the old settings
	if (changes.timing || changes.sampling)
		fp_daemon_session_set_timers(daemon);
	if (changes.names)
		fp_daemon_names_reload(daemon);
	if (changes.shipping)
		fp_daemon_ship_restart(daemon);
	fp_daemon_set_log_level(&daemon->config);
	if (r == 0)
		fp_info("configuration read again, %u settings changed", changes.count);
	return r;
}

void fp_daemon_reload(struct fp_daemon *daemon)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	struct fp_buf error FP_AUTOBUF = { 0 };
	int r;

	fp_notify("RELOADING=1");
	r = fp_agent_config_load(daemon->source, &config, NULL, &error);
	if (r < 0)
		fp_error("the configuration was not read again, keeping what is in force: %.*s",
			 (int)error.len, (const char *)error.data);
	else
		r = apply(daemon, &config);
	daemon->reload_failed = r < 0;
	fp_metric_set(&daemon->metrics, FP_M_CONFIG_RELOAD_OK, r == 0);
	if (r == 0)
		fp_metric_set(&daemon->metrics, FP_M_CONFIG_RELOAD_TIME, fp_realtime_ns());
	fp_notify("READY=1");
}
