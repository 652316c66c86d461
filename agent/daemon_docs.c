// SPDX-License-Identifier: Apache-2.0
#include "daemon_docs.h"

#include "agentmetrics.h"
#include "config.h"
#include "proto/profile.h"

#include <errno.h>
#include <string.h>

const char fp_daemon_docs_names[] = "settings, metrics, outcomes";

static int print_settings(struct fp_buf *text)
{
	fp_buf_str(text, "# Settings of the agent\n\n"
			 "`/etc/fleetprof/agent.conf`, then `/etc/fleetprof/agent.conf.d/*.conf`, "
			 "then the environment\n(`FLEETPROF_<SECTION>_<KEY>`), then flags "
			 "(`--section-key=value`); the last one wins.\n\n");
	return fp_settings_markdown(&fp_agent_settings, text);
}

static int print_metrics(struct fp_buf *text)
{
	fp_agent_metrics_init();
	fp_buf_str(text, "# Metrics of the agent\n\n"
			 "Served as `/metrics` on `agent.listen`.\n\n");
	return fp_metrics_markdown(fp_agent_metrics, FP_M_COUNT, text);
}

struct text_row {
	const char *class, *label, *text;
};

static const struct text_row outcomes[] = {
#define OUTCOME(id, class, label, text) { #class, label, text },
	FP_OUTCOMES(OUTCOME)
};
static const struct text_row walk_ends[] = {
#define WALK_END(id, label, text) { "", label, text },
	FP_WALK_ENDS(WALK_END)
};
static const struct text_row spool_drops[] = {
#define SPOOL_DROP(id, label, text) { "", label, text },
	FP_SPOOL_DROPS(SPOOL_DROP)
};
static const struct text_row evictions[] = {
#define EVICTION(id, label, text) { "", label, text },
	FP_PROCESS_EVICTIONS(EVICTION)
};
static const struct text_row qualities[] = {
#define QUALITY(id, label, text) { "", label, text },
	FP_QUALITY_COUNTERS(QUALITY)
};

static const char *class_text(const char *class)
{
	if (strcmp(class, "KEPT") == 0)
		return "kept";
	return strcmp(class, "FILTERED") == 0 ? "filtered" : "dropped";
}

static void print_rows(const struct text_row *rows, size_t count, const char *column,
		       struct fp_buf *text)
{
	fp_buf_printf(text, "| %s | Meaning |\n|---|---|\n", column);
	for (size_t i = 0; i < count; i++)
		fp_buf_printf(text, "| `%s` | %s |\n", rows[i].label, rows[i].text);
}

static int print_outcomes(struct fp_buf *text)
{
	fp_buf_str(text, "# What becomes of a sample\n\n"
			 "## Runs of the kernel programs\n\n"
			 "Every run ends in exactly one outcome, so for each program and window\n"
			 "`runs = kept + filtered + dropped`.\n\n"
			 "| Outcome | Class | Meaning |\n|---|---|---|\n");
	for (size_t i = 0; i < FP_ARRAY_SIZE(outcomes); i++)
		fp_buf_printf(text, "| `%s` | %s | %s |\n", outcomes[i].label,
			      class_text(outcomes[i].class), outcomes[i].text);
	fp_buf_str(text, "\n## How the walk of a user stack ended\n\n");
	print_rows(walk_ends, FP_ARRAY_SIZE(walk_ends), "End", text);
	fp_buf_str(text,
		   "\n## Samples dropped by a relabel rule\n\n"
		   "Counted per source and window as `relabel.dropped` in the quality record:\n"
		   "`aggregated = samples + relabel.dropped`.\n");
	fp_buf_str(text, "\n## What the process table let go of to stay within its bounds\n\n");
	print_rows(evictions, FP_ARRAY_SIZE(evictions), "What", text);
	fp_buf_str(text, "\n## Batches dropped after they were taken\n\n"
			 "`taken = shipped + queued + dropped`.\n\n");
	print_rows(spool_drops, FP_ARRAY_SIZE(spool_drops), "Reason", text);
	fp_buf_str(text, "\n## Counters of a profile's quality record\n\n");
	print_rows(qualities, FP_ARRAY_SIZE(qualities), "Counter", text);
	return text->error;
}

static const struct page {
	const char *name;
	int (*print)(struct fp_buf *text);
} pages[] = {
	{ "settings", print_settings },
	{ "metrics", print_metrics },
	{ "outcomes", print_outcomes },
};

int fp_daemon_docs_print(const char *name, struct fp_buf *ret_text)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(pages); i++) {
		if (strcmp(pages[i].name, name) != 0)
			continue;
		fp_buf_printf(
		    ret_text,
		    "<!-- Printed by `fleetprof-agent --print-docs=%s`; do not edit. -->\n", name);
		return pages[i].print(ret_text);
	}
	return -ENOENT;
}
