// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include "http.h"
#include "options.h"

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/notify.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define MAINTAIN_NS	   (10 * FP_NS_PER_S)
#define DECODES_AT_ONCE	   4
#define TOKEN_BYTES_MAX	   4096
#define TOKEN_LENGTH_LEAST 8

struct service {
	struct fp_collector collector;
	struct fp_http_server *server;
	struct fp_loop *loop;
};

static int on_stop_signal(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct service *service = context;

	fp_info("stopping on signal %d", fp_loop_signal(source));
	fp_loop_stop(service->loop);
	return 0;
}

static int on_reload_signal(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_info("every setting of the collector takes effect at a restart; nothing is reloaded");
	return 0;
}

static int on_watchdog(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_notify("WATCHDOG=1");
	return 0;
}

static int on_reap(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct service *service = context;

	fp_http_reap(service->server);
	return 0;
}

// A failure (a full disk, say) is reported and tried again; the collector goes on serving.
static int on_maintain(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct service *service = context;
	struct fp_collector *collector = &service->collector;
	struct fp_store_expiry expiry;
	int r = fp_store_maintain(collector->store, fp_realtime_ns(), &expiry);

	if (r < 0) {
		fp_warn("cannot apply retention: %s; trying again in 10 s", strerror(-r));
		return 0;
	}
	fp_collector_count(collector, STORE_EXPIRED, expiry.batches);
	fp_collector_count(collector, STORE_EXPIRED_BYTES, expiry.bytes);
	if (expiry.segments)
		fp_info("retention removed %llu batches, %llu bytes",
			(unsigned long long)expiry.batches, (unsigned long long)expiry.bytes);
	return 0;
}

static int read_token(struct fp_collector *collector)
{
	const char *path = collector->config.token_file;
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r;

	if (!*path) {
		collector->token = strdup("");
		return collector->token ? 0 : -ENOMEM;
	}
	r = fp_file_read(path, TOKEN_BYTES_MAX, &text);
	if (r < 0)
		return fp_error_r(r, "ingest.token_file: cannot read '%s': %s", path, strerror(-r));
	while (text.len && strchr("\r\n \t", text.data[text.len - 1]))
		text.len--;
	if (text.len < TOKEN_LENGTH_LEAST || memchr(text.data, 0, text.len))
		return fp_error_r(-EINVAL,
				  "ingest.token_file: '%s' holds no token of %d characters", path,
				  TOKEN_LENGTH_LEAST);
	fp_buf_byte(&text, 0);
	collector->token = fp_buf_take(&text);
	return collector->token ? 0 : -ENOMEM;
}

static void report_recovery(struct fp_collector *collector,
			    const struct fp_store_recovery *recovery)
{
	fp_collector_count(collector, RECOVERED, recovery->derived);
	fp_collector_count(collector, RECOVERED_REPEATED, recovery->repeated);
	fp_collector_count(collector, RECOVERED_REFUSED, recovery->refused);
	fp_collector_count(collector, TORN_BYTES, recovery->torn_bytes);
	fp_collector_count(collector, DAMAGED_BYTES, recovery->damaged_bytes);
	if (recovery->derived || recovery->torn_bytes)
		fp_info("the log held %llu batches the manifest lacked; they are entered; %llu "
			"bytes of a batch that was never acknowledged are cut off",
			(unsigned long long)recovery->derived,
			(unsigned long long)recovery->torn_bytes);
	if (recovery->damaged_bytes || recovery->refused)
		fp_warn("the log has %llu unreadable bytes and %llu records that do not decode; "
			"they are left out",
			(unsigned long long)recovery->damaged_bytes,
			(unsigned long long)recovery->refused);
}

static int open_store(struct fp_collector *collector)
{
	const struct fp_collector_config *config = &collector->config;
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_options options = {
		.directory = config->directory,
		.max_bytes = config->max_store_bytes,
		.retention_ns = config->retention_ns,
		.dedup_keep_ns = config->dedup_keep_ns,
		.max_series = config->max_series,
	};
	struct fp_store_recovery recovery;
	int r = fp_store_open(&options, &collector->store, &recovery, &error);

	if (r < 0)
		return fp_error_r(r, "%s", error.len ? (char *)error.data : strerror(-r));
	report_recovery(collector, &recovery);
	return 0;
}

static int open_symbols(struct fp_collector *collector)
{
	const struct fp_collector_config *config = &collector->config;
	struct fp_symbol_service_options options = {
		.directory = config->directory,
		.debug_dirs = config->debug_dirs,
		.use_local_files = config->use_local_files,
		.request = config->request_symbols,
		.cache_bytes = config->symbol_cache_bytes,
		.max_table_bytes = config->max_symbol_bytes,
		.max_bytes = config->max_symbols_bytes,
	};
	int r = fp_symbol_service_open(&options, &collector->symbols);

	if (r < 0)
		return fp_error_r(r, "cannot open '%s/symbols': %s", config->directory,
				  strerror(-r));
	return 0;
}

static int open_parts(struct fp_collector *collector)
{
	int r;

	collector->metrics =
	    (struct fp_metrics){ .rows = fp_collector_metrics, .count = FP_COLLECTOR_METRIC_COUNT };
	collector->metrics.slots = calloc(FP_COLLECTOR_METRIC_COUNT, sizeof(uint64_t));
	if (!collector->metrics.slots)
		return -ENOMEM;
	sem_init(&collector->query_turns, 0, collector->config.query_concurrency);
	sem_init(&collector->decode_turns, 0, DECODES_AT_ONCE);
	collector->started_ns = fp_realtime_ns();
	r = read_token(collector);
	if (r == 0)
		r = open_store(collector);
	if (r == 0)
		r = open_symbols(collector);
	return r;
}

// Signals come first: threads made later inherit the mask, so that the loop gets them.
static int prepare_loop(struct service *service)
{
	int r = fp_loop_new(&service->loop);

	if (r == 0)
		r = fp_loop_add_signal(service->loop, SIGTERM, on_stop_signal, service);
	if (r == 0)
		r = fp_loop_add_signal(service->loop, SIGINT, on_stop_signal, service);
	if (r == 0)
		r = fp_loop_add_signal(service->loop, SIGHUP, on_reload_signal, service);
	return r;
}

static int add_timers(struct service *service)
{
	uint64_t watchdog_ns = fp_notify_watchdog_ns();
	struct fp_loop_source *source;
	int r = fp_loop_add_timer(service->loop, FP_NS_PER_S, MAINTAIN_NS, on_maintain, service,
				  &source);

	if (r == 0)
		r = fp_loop_add_timer(service->loop, FP_NS_PER_S, FP_NS_PER_S, on_reap, service,
				      &source);
	if (r == 0 && watchdog_ns)
		r = fp_loop_add_timer(service->loop, watchdog_ns, watchdog_ns, on_watchdog, service,
				      &source);
	return r;
}

static int serve(struct service *service)
{
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_collector *collector = &service->collector;
	int r = prepare_loop(service);

	if (r == 0)
		r = open_parts(collector);
	if (r < 0)
		return r;
	r = fp_http_start(collector, &service->server, &error);
	if (r < 0)
		return fp_error_r(r, "%s", error.len ? (char *)error.data : strerror(-r));
	r = add_timers(service);
	if (r < 0)
		return r;
	fp_info("version " FP_VERSION ", listening on http://%s/, data in '%s'",
		collector->config.listen, collector->config.directory);
	fp_notify("READY=1\nSTATUS=serving");
	r = fp_loop_run(service->loop);
	fp_notify("STOPPING=1");
	return r;
}

static void close_service(struct service *service)
{
	struct fp_collector *collector = &service->collector;

	fp_http_stop(service->server);
	fp_store_close(collector->store);
	fp_symbol_service_close(collector->symbols);
	fp_loop_free(service->loop);
	free(collector->metrics.slots);
	free(collector->token);
}

static void apply_log_level(const struct fp_collector_config *config)
{
	static const enum fp_log_level levels[] = { FP_LOG_ERROR, FP_LOG_WARNING, FP_LOG_INFO,
						    FP_LOG_DEBUG };

	fp_log_set_level(levels[config->log_level]);
}

int fp_collector_main(int argc, char **argv)
{
	FP_CLEANUP(fp_collector_options_free) struct fp_collector_options options = { 0 };
	FP_CLEANUP(close_service) struct service service = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	int r;

	fp_log_set_name("fleetprof-collector");
	r = fp_collector_options_read(argc, argv, &options, &error);
	if (r < 0) {
		fp_error("%s", error.len ? (char *)error.data : strerror(-r));
		return r == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
	}
	if (options.action != FP_ACTION_SERVE)
		return fp_collector_options_print(&options) < 0 ? EXIT_FAILED : EXIT_OK;
	apply_log_level(&options.config);
	signal(SIGPIPE, SIG_IGN);
	service.collector.config = options.config; // strings stay owned by options
	r = serve(&service);
	if (r < 0) {
		fp_error("stopped: %s", strerror(-r));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}
