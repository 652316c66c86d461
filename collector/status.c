// SPDX-License-Identifier: Apache-2.0
// The collector about itself, and the page.
#include "handlers.h"

#include "ui/assets.h"

#include <string.h>

static void set_gauge(struct fp_collector *collector, enum fp_collector_metric metric,
		      uint64_t value)
{
	fp_metric_set(&collector->metrics, metric, value);
}

// Gauges are read when they are asked for; nothing keeps them current in between.
static int refresh_gauges(struct fp_collector *collector)
{
	struct fp_symbol_counts builds = fp_symbol_service_counts(collector->symbols);
	struct fp_store_stats stats;
	int r = fp_store_stats(collector->store, &stats);

	if (r < 0)
		return r;
	set_gauge(collector, FP_METRIC_STORE_BYTES, stats.bytes);
	set_gauge(collector, FP_METRIC_STORE_MAX_BYTES, collector->config.max_store_bytes);
	set_gauge(collector, FP_METRIC_STORE_BATCHES, stats.totals.batches);
	set_gauge(collector, FP_METRIC_STORE_IDS, stats.totals.ids);
	set_gauge(collector, FP_METRIC_STORE_SERIES, stats.totals.series);
	set_gauge(collector, FP_METRIC_STORE_SERIES_REFUSED, stats.series_refused);
	set_gauge(collector, FP_METRIC_STORE_HOSTS, stats.totals.hosts);
	set_gauge(collector, FP_METRIC_STORE_OLDEST, stats.totals.oldest_ns / 1000000000);
	set_gauge(collector, FP_METRIC_WAL_SYNCS, stats.syncs);
	set_gauge(collector, FP_METRIC_BUILDS_FOUND, builds.found);
	set_gauge(collector, FP_METRIC_BUILDS_MISSING, builds.missing);
	set_gauge(collector, FP_METRIC_SYMBOL_BYTES, builds.bytes);
	set_gauge(collector, FP_METRIC_SYMBOL_MAX_BYTES, collector->config.max_symbols_bytes);
	return 0;
}

int fp_handle_metrics(struct fp_request *request, struct fp_response *response)
{
	int r = refresh_gauges(request->collector);

	if (r == 0)
		r = fp_metrics_render(&request->collector->metrics, &response->body);
	if (r == 0)
		r = fp_metrics_render_process(0, &response->body);
	response->content_type = "text/plain; version=0.0.4; charset=utf-8";
	return r;
}

int fp_handle_health(struct fp_request *request, struct fp_response *response)
{
	return fp_buf_str(&response->body, "{\"status\":\"ok\",\"version\":\"" FP_VERSION "\"}\n");
}

int fp_handle_ready(struct fp_request *request, struct fp_response *response)
{
	int error = __atomic_load_n(&request->collector->last_append_error, __ATOMIC_RELAXED);

	if (error < 0)
		return fp_response_error(response, MHD_HTTP_SERVICE_UNAVAILABLE, "not_ready",
					 "the last batch could not be stored: %s",
					 strerror(-error));
	return fp_buf_str(&response->body, "{\"status\":\"ready\"}\n");
}

#define PAGE_SECURITY                                                                              \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "            \
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static int show_asset(const char *name, struct fp_response *response)
{
	for (size_t i = 0; i < fp_ui_assets_count; i++) {
		const struct fp_ui_asset *asset = &fp_ui_assets[i];

		if (strcmp(asset->name, name) != 0)
			continue;
		response->content_type = asset->content_type;
		response->security = PAGE_SECURITY;
		response->cacheable = true;
		return fp_buf_append(&response->body, asset->bytes, asset->size);
	}
	return fp_response_error(response, MHD_HTTP_NOT_FOUND, "not_found",
				 "the page has no such part");
}

int fp_handle_page(struct fp_request *request, struct fp_response *response)
{
	return show_asset("index.html", response);
}

int fp_handle_asset(struct fp_request *request, struct fp_response *response)
{
	return show_asset(request->tail, response);
}
