// SPDX-License-Identifier: Apache-2.0
// What agents send: batches and symbol tables.
#include "handlers.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

static void print_hex(const uint8_t *bytes, size_t size, char *ret_hex)
{
	for (size_t i = 0; i < size; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", bytes[i]);
}

// What is decoded takes many times its compressed size, so only a few are decoded at once.
static void begin_turn(struct fp_collector *collector)
{
	while (sem_wait(&collector->decode_turns) < 0 && errno == EINTR)
		;
}

static int decode(struct fp_request *request, struct fp_profile **ret_profile,
		  const char **ret_reason)
{
	struct fp_collector *collector = request->collector;
	struct fp_batch_limits limits = fp_batch_default_limits;
	int r;

	limits.compressed_bytes = collector->config.max_batch_bytes;
	begin_turn(collector);
	r = fp_batch_decode(request->body.data, request->body.len, &limits, ret_profile,
			    ret_reason);
	sem_post(&collector->decode_turns);
	return r;
}

static int refuse_batch(struct fp_request *request, struct fp_response *response, int error,
			const char *reason)
{
	if (error == -ENOMEM)
		return error;
	if (error == -EMSGSIZE) {
		fp_collector_count(request->collector, BATCHES_TOO_LARGE, 1);
		return fp_response_error(response, MHD_HTTP_CONTENT_TOO_LARGE, "too_large", "%s",
					 reason);
	}
	fp_collector_count(request->collector, BATCHES_MALFORMED, 1);
	return fp_response_error(response, MHD_HTTP_BAD_REQUEST, "malformed", "%s", reason);
}

static bool id_differs(const struct fp_request *request, const char *hex)
{
	const char *given = fp_request_header(request, "X-Fleetprof-Batch-Id");

	return given && strcasecmp(given, hex) != 0;
}

static void count_stored(struct fp_collector *collector, const struct fp_profile *profile,
			 size_t bytes)
{
	static const enum fp_collector_metric by_type[FP_PROFILE_TYPES] = {
		[FP_PROFILE_CPU] = FP_METRIC_SAMPLES_CPU,
		[FP_PROFILE_OFF_CPU] = FP_METRIC_SAMPLES_OFF_CPU,
		[FP_PROFILE_RUN_QUEUE] = FP_METRIC_SAMPLES_RUN_QUEUE,
		[FP_PROFILE_WAKER] = FP_METRIC_SAMPLES_WAKER,
	};

	fp_collector_count(collector, BATCHES_STORED, 1);
	fp_collector_count(collector, RECEIVED_BYTES, bytes);
	fp_metric_set(&collector->metrics, FP_METRIC_LAST_BATCH, fp_realtime_ns() / FP_NS_PER_S);
	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];

		fp_metric_add(&collector->metrics, by_type[sample->type], sample->count);
	}
}

// The batch is stored whatever comes of this.
static void ask_for_symbols(struct fp_request *request, const struct fp_profile *profile,
			    struct fp_response *response)
{
	struct fp_build builds[FP_SYMBOLS_WANTED_MAX];
	int count = fp_symbol_service_wanted(request->collector->symbols, profile, builds);
	char *at = response->wanted;

	for (int i = 0; i < count; i++) {
		if (i > 0)
			*at++ = ',';
		fp_build_id_print(&builds[i], at);
		at += strlen(at);
	}
	if (count > 0)
		fp_collector_count(request->collector, SYMBOLS_WANTED, count);
}

static int answer_verdict(struct fp_request *request, struct fp_response *response,
			  enum fp_store_verdict verdict, const char *hex)
{
	if (verdict == FP_STORE_CONFLICT) {
		fp_collector_count(request->collector, BATCHES_CONFLICT, 1);
		return fp_response_error(response, MHD_HTTP_CONFLICT, "conflict",
					 "batch %s was stored before with other content", hex);
	}
	if (verdict == FP_STORE_DUPLICATE)
		fp_collector_count(request->collector, BATCHES_DUPLICATE, 1);
	fp_buf_printf(&response->body, "{\"status\":\"%s\",\"id\":\"%s\"}\n",
		      verdict == FP_STORED ? "stored" : "duplicate", hex);
	return 0;
}

static int fail_append(struct fp_request *request, struct fp_response *response, int error)
{
	fp_collector_count(request->collector, BATCHES_FAILED, 1);
	fp_error("cannot store a batch: %s; the agent will send it again", strerror(-error));
	fp_response_error(response,
			  error == -ENOSPC ? MHD_HTTP_INSUFFICIENT_STORAGE
					   : MHD_HTTP_SERVICE_UNAVAILABLE,
			  "not_stored", "the batch could not be stored: %s", strerror(-error));
	response->retry_after_s = 30;
	return 0;
}

int fp_handle_batch(struct fp_request *request, struct fp_response *response)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	enum fp_store_verdict verdict;
	uint8_t id[FP_BATCH_ID_LEN];
	char hex[2 * FP_BATCH_ID_LEN + 1];
	const char *reason = "not a batch";
	int r = decode(request, &profile, &reason);

	if (r < 0)
		return refuse_batch(request, response, r, reason);
	fp_batch_id(profile, id);
	print_hex(id, sizeof(id), hex);
	if (id_differs(request, hex))
		return refuse_batch(request, response, -EBADMSG,
				    "X-Fleetprof-Batch-Id is not the id of this batch");
	r = fp_store_append(request->collector->store, profile, request->body.data,
			    request->body.len, fp_realtime_ns(), &verdict);
	__atomic_store_n(&request->collector->last_append_error, r, __ATOMIC_RELAXED);
	if (r < 0)
		return fail_append(request, response, r);
	if (verdict == FP_STORED)
		count_stored(request->collector, profile, request->body.len);
	if (verdict != FP_STORE_CONFLICT)
		ask_for_symbols(request, profile, response);
	return answer_verdict(request, response, verdict, hex);
}

static bool parse_build(const struct fp_request *request, struct fp_response *response,
			struct fp_build *ret_build)
{
	if (fp_build_id_parse(request->tail, ret_build) == 0)
		return true;
	fp_response_error(response, MHD_HTTP_BAD_REQUEST, "bad_request",
			  "the build-ID must be 2 to 64 lower-case hexadecimal digits");
	return false;
}

int fp_handle_symbols_head(struct fp_request *request, struct fp_response *response)
{
	struct fp_build build;

	if (!parse_build(request, response, &build))
		return 0;
	if (!fp_symbol_service_has(request->collector->symbols, build.id, build.id_len))
		return fp_response_error(response, MHD_HTTP_NOT_FOUND, "not_found",
					 "no symbol table of this build is here");
	fp_buf_str(&response->body, "{\"status\":\"present\"}\n");
	return 0;
}

// Takes a turn, and of the memory for requests what decompressing needs: the new table first,
// then the one it may replace, which is of this size in all but odd cases. -EBUSY: too little.
static int check_table(struct fp_request *request, const struct fp_build *build,
		       const char **ret_reason)
{
	struct fp_collector *collector = request->collector;
	const struct fp_buf *body = &request->body;
	size_t bytes = fp_symbol_service_check_bytes(collector->symbols, body);
	int r = -EBUSY;

	begin_turn(collector);
	if (__atomic_add_fetch(&collector->inflight_bytes, bytes, __ATOMIC_RELAXED) <=
	    collector->config.max_inflight_bytes)
		r = fp_symbol_service_check(collector->symbols, build, body, ret_reason);
	__atomic_sub_fetch(&collector->inflight_bytes, bytes, __ATOMIC_RELAXED);
	sem_post(&collector->decode_turns);
	return r;
}

static int refuse_table(struct fp_request *request, struct fp_response *response, int error,
			const char *reason)
{
	switch (error) {
	case -EBUSY:
		fp_collector_count(request->collector, REQUESTS_REFUSED_MEMORY, 1);
		response->retry_after_s = 5;
		return fp_response_error(response, MHD_HTTP_SERVICE_UNAVAILABLE, "busy",
					 "too many requests are being decoded at once");
	case -EMSGSIZE:
		fp_collector_count(request->collector, SYMBOL_UPLOADS_REFUSED, 1);
		return fp_response_error(response, MHD_HTTP_CONTENT_TOO_LARGE, "too_large", "%s",
					 reason);
	case -EBADMSG:
		fp_collector_count(request->collector, SYMBOL_UPLOADS_REFUSED, 1);
		return fp_response_error(response, MHD_HTTP_BAD_REQUEST, "malformed", "%s", reason);
	case -ENOSPC:
		fp_collector_count(request->collector, SYMBOL_UPLOADS_REFUSED, 1);
		response->retry_after_s = 3600;
		return fp_response_error(response, MHD_HTTP_INSUFFICIENT_STORAGE, "not_stored",
					 "%s", reason);
	default:
		return error;
	}
}

int fp_handle_symbols_put(struct fp_request *request, struct fp_response *response)
{
	struct fp_symbol_service *symbols = request->collector->symbols;
	const char *path = fp_request_header(request, "X-Fleetprof-Path");
	const char *reason = "";
	struct fp_build build;
	bool stays;
	int r;

	if (!parse_build(request, response, &build))
		return 0;
	r = check_table(request, &build, &reason);
	stays = r == 1;
	if (r == 0)
		r = fp_symbol_service_put(symbols, &build, path ? path : "", &request->body,
					  &reason);
	if (r < 0)
		return refuse_table(request, response, r, reason);
	fp_collector_count(request->collector, SYMBOL_UPLOADS, !stays);
	response->status = stays ? MHD_HTTP_OK : MHD_HTTP_CREATED;
	fp_buf_printf(&response->body, "{\"status\":\"%s\"}\n", stays ? "present" : "stored");
	return 0;
}
