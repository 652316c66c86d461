// SPDX-License-Identifier: Apache-2.0
#include "ship_deliver.h"
#include "ship_wanted.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>

int fp_ship_open(const struct fp_ship_config *config, struct fp_metrics *metrics,
		 struct fp_ship *ship)
{
	struct fp_ship_client_config client = {
		.base_url = config->collector_url,
		.token_file = config->token_file ? config->token_file : "",
		.ca_file = config->ca_file ? config->ca_file : "",
		.should_stop = ship->should_stop,
		.context = ship->stop_context,
	};
	int error;

	ship->config = config;
	ship->metrics = metrics;
	ship->batches.backoff.max_ns = ship->tables.backoff.max_ns = config->retry_max_ns;
	fp_ship_symbols_init(&ship->symbols);
	error = fp_spool_attach(config->spool_directory, &config->limits, &ship->spool);
	return error ? error : fp_ship_client_new(&client, &ship->client);
}

void fp_ship_close(struct fp_ship *ship)
{
	fp_spool_freep(&ship->spool);
	fp_ship_client_freep(&ship->client);
	fp_ship_symbols_free(&ship->symbols);
}

static uint64_t random_u64(void)
{
	uint64_t random = 0;

	// Without randomness the delay is the shortest: harmless for one host.
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = 0;
	return random;
}

static void count_failure(struct fp_ship *ship, long status)
{
	enum fp_agent_metric row = FP_M_SHIP_HTTP_OTHER;

	if (!status)
		row = FP_M_SHIP_NETWORK_ERRORS;
	else if (status >= 400 && status < 500)
		row = FP_M_SHIP_HTTP_4XX;
	else if (status >= 500 && status < 600)
		row = FP_M_SHIP_HTTP_5XX;
	fp_metric_add(ship->metrics, row, 1);
}

static void wait_for(struct fp_ship *ship, struct fp_ship_line *line, enum fp_ship_action action,
		     uint64_t retry_after_ns)
{
	uint64_t delay = fp_ship_backoff_ns(&line->backoff, action, retry_after_ns, random_u64());

	line->due_ns = fp_boottime_ns() + delay;
	fp_metric_add(ship->metrics, FP_M_SHIP_RETRIES, 1);
	if (line == &ship->batches)
		fp_metric_set(ship->metrics, FP_M_SHIP_BACKOFF, delay);
}

// What the collector said it did. A 2xx without a word of ours is somebody else's page (a
// proxy, a captive portal): the batch is not stored, whatever the status says.
enum verdict { VERDICT_NONE, VERDICT_STORED, VERDICT_DUPLICATE };

static void free_json(json_t **json)
{
	json_decref(*json);
}

static enum verdict read_verdict(const struct fp_buf *body)
{
	FP_CLEANUP(free_json)
	json_t *json = json_loadb((const char *)body->data, body->len, 0, NULL);
	const char *status = json_string_value(json_object_get(json, "status"));

	if (status && strcmp(status, "stored") == 0)
		return VERDICT_STORED;
	if (status && strcmp(status, "duplicate") == 0)
		return VERDICT_DUPLICATE;
	return VERDICT_NONE;
}

// The collector has judged a batch, so the way to it is open.
static void end_outage(struct fp_ship *ship)
{
	if (ship->batches.backoff.failures) {
		fp_info("collector '%s' answers again", ship->config->collector_url);
		// It may be another one than before the outage, or have lost its files.
		fp_ship_symbols_forget(&ship->symbols);
		ship->tables.due_ns = 0;
	}
	ship->batches.backoff.failures = 0;
	ship->batches.due_ns = 0;
	fp_metric_set(ship->metrics, FP_M_SHIP_BACKOFF, 0);
}

static enum fp_agent_metric note_wish(struct fp_ship *ship, const char *id)
{
	switch (fp_spool_want_symbols(ship->spool, id)) {
	case 0:
		return FP_M_SHIP_WANTED_NOTED;
	case -EEXIST:
		return FP_M_SHIP_WANTED_KNOWN;
	default: // too many, or the disk is full: the collector asks again
		return FP_M_SHIP_WANTED_FULL;
	}
}

// What the collector would like to have symbol tables of. Only from one that has just shown that
// it is a collector.
static void note_wishes(struct fp_ship *ship, const struct fp_buf *value)
{
	struct fp_ship_wanted wanted;

	if (!value->len)
		return;
	if (fp_ship_wanted_parse((const char *)value->data, value->len, &wanted) < 0) {
		fp_metric_add(ship->metrics, FP_M_SHIP_WANTED_MALFORMED, 1);
		return;
	}
	for (size_t i = 0; i < wanted.count; i++)
		fp_metric_add(ship->metrics, note_wish(ship, wanted.ids[i]), 1);
}

static void finish(struct fp_ship *ship, const struct fp_spool_item *item, enum verdict verdict)
{
	end_outage(ship);
	fp_metric_set(ship->metrics, FP_M_SHIP_LAST_SUCCESS, fp_realtime_ns());
	fp_metric_add(ship->metrics, verdict == VERDICT_STORED ? FP_M_SHIP_OK : FP_M_SHIP_DUPLICATE,
		      1);
	fp_metric_add(ship->metrics, FP_M_SHIP_BYTES, item->bytes.len);
	// When the sampler dropped the file meanwhile, its samples are counted as dropped.
	if (fp_spool_acknowledge(ship->spool, item->name) == 0)
		fp_metric_add(ship->metrics, FP_M_SHIP_SAMPLES, item->samples);
}

static void drop(struct fp_ship *ship, const struct fp_spool_item *item,
		 const struct fp_ship_answer *answer, enum fp_spool_drop reason)
{
	fp_warn("collector '%s' refused batch '%s' with status %ld (%.*s), dropping it",
		ship->config->collector_url, item->name, answer->status,
		(int)(answer->body.len < 200 ? answer->body.len : 200),
		answer->body.data ? (const char *)answer->body.data : "");
	end_outage(ship);
	if (reason == FP_SPOOL_DROP_TOO_LARGE)
		fp_spool_learn_limit(ship->spool, item->bytes.len);
	fp_spool_drop(ship->spool, item->name, reason);
}

// Acts on the answer. True: go on with the next batch.
static bool act(struct fp_ship *ship, const struct fp_spool_item *item,
		const struct fp_ship_answer *answer)
{
	const struct fp_ship_rule *rule = fp_ship_rule_for(answer->status);
	enum verdict verdict = VERDICT_NONE;
	enum fp_ship_action action = rule->action;

	if (action == FP_SHIP_DONE)
		verdict = read_verdict(&answer->body);
	if (verdict != VERDICT_NONE) {
		finish(ship, item, verdict);
		note_wishes(ship, &answer->wanted);
		return true;
	}
	count_failure(ship, answer->status);
	if (action == FP_SHIP_REJECTED || action == FP_SHIP_TOO_LARGE) {
		drop(ship, item, answer,
		     action == FP_SHIP_REJECTED ? FP_SPOOL_DROP_REJECTED : FP_SPOOL_DROP_TOO_LARGE);
		return true;
	}
	if (action == FP_SHIP_DONE)
		action = FP_SHIP_RETRY_AT_CAP;
	if (!ship->batches.backoff.failures)
		fp_warn("collector '%s' does not take batches (status %ld: %s), they wait in the "
			"spool",
			ship->config->collector_url, answer->status,
			answer->status ? rule->text : answer->error);
	wait_for(ship, &ship->batches, action, answer->retry_after_ns);
	return false;
}

static int send_item(struct fp_ship *ship, const struct fp_spool_item *item,
		     struct fp_ship_answer *ret_answer)
{
	char id_header[64] = "X-Fleetprof-Batch-Id: ";
	size_t at = strlen(id_header);
	struct fp_ship_request request = {
		.method = "POST",
		.path = "/v1/batches",
		.headers = { "Content-Type: application/x-fleetprof-batch", id_header },
		.body = item->bytes.data,
		.body_size = item->bytes.len
	};

	for (size_t i = 0; i < FP_BATCH_ID_LEN; i++)
		snprintf(id_header + at + 2 * i, 3, "%02x", item->batch_id[i]);
	return fp_ship_client_send(ship->client, &request, ret_answer);
}

static void pass_batches(struct fp_ship *ship)
{
	bool go_on = true;

	while (go_on && !ship->should_stop(ship->stop_context)) {
		FP_CLEANUP(fp_spool_item_clear) struct fp_spool_item item = { 0 };
		FP_CLEANUP(fp_ship_answer_clear) struct fp_ship_answer answer = { 0 };
		int error = fp_spool_peek(ship->spool, false, &item);

		if (error == -ENOENT)
			return;
		if (!error)
			error = send_item(ship, &item, &answer);
		if (!error) {
			go_on = act(ship, &item, &answer);
			continue;
		}
		fp_warn("cannot send from spool '%s' (%s), trying again later",
			ship->config->spool_directory, strerror(-error));
		wait_for(ship, &ship->batches, FP_SHIP_RETRY_AT_CAP, 0);
		return;
	}
}

static void pass_tables(struct fp_ship *ship)
{
	struct fp_ship_symbols_result result = { 0 };
	int error = fp_ship_symbols_pass(&ship->symbols, ship->spool, ship->client, &result);

	fp_metric_add(ship->metrics, FP_M_SHIP_SYMBOL_TABLES, result.sent);
	fp_metric_add(ship->metrics, FP_M_SHIP_BYTES, result.bytes);
	ship->tables.due_ns = 0;
	if (!error) {
		ship->tables.backoff.failures = 0;
	} else {
		long status = result.answer.status;
		enum fp_ship_action action = fp_ship_rule_for(status)->action;

		if (error == -EAGAIN)
			count_failure(ship, status);
		else
			action = FP_SHIP_RETRY_AT_CAP;
		wait_for(ship, &ship->tables, action, result.answer.retry_after_ns);
	}
	fp_ship_answer_clear(&result.answer);
}

void fp_ship_pass(struct fp_ship *ship)
{
	uint64_t now = fp_boottime_ns();

	if (ship->config->collector_url[0]) {
		if (now >= ship->batches.due_ns)
			pass_batches(ship);
		if (now >= ship->tables.due_ns && !ship->batches.backoff.failures &&
		    !ship->should_stop(ship->stop_context))
			pass_tables(ship);
	}
	fp_agent_metrics_spool(ship->metrics, ship->spool, &ship->reported);
}

uint64_t fp_ship_due_ns(const struct fp_ship *ship)
{
	uint64_t batches = ship->batches.due_ns, tables = ship->tables.due_ns;

	if (batches && tables)
		return batches < tables ? batches : tables;
	return batches ? batches : tables;
}
