// SPDX-License-Identifier: Apache-2.0
#include "storestate.h"

#include "common/clock.h"
#include "common/intern.h"

#include <errno.h>
#include <string.h>

static const char regex_too_slow[] =
    "a regular expression of the selector takes too many steps to match";

struct planned {
	struct fp_wal_position position;
	uint64_t rows, period_ns;
	uint32_t host; // in plan.hosts
};

// What is read, listed under the lock. Everything else is done without: an expression that is
// slow to match must not hold up those who append.
struct plan {
	const struct fp_store_query *query;
	struct fp_buf *error;
	struct fp_intern hosts; // distinct names
	struct planned *batches;
	size_t count, capacity;
	uint64_t holding[FP_PROFILE_TYPES];
	uint64_t rows;
	uint64_t period_ns; // of the first batch
	bool mixed_periods;
};

static void plan_free(struct plan *plan)
{
	fp_intern_free(&plan->hosts);
	free(plan->batches);
}

static int check_time(const struct plan *plan)
{
	uint64_t deadline_ns = plan->query->deadline_ns;

	if (!deadline_ns || fp_monotonic_ns() <= deadline_ns)
		return 0;
	fp_buf_str(plan->error, "the query ran out of time before a batch was read: choose a "
				"shorter range or a simpler selector");
	return -ETIMEDOUT;
}

static int plan_grow(struct plan *plan)
{
	size_t capacity = plan->capacity ? plan->capacity * 2 : 64;
	struct planned *grown;

	if (plan->capacity * sizeof(*grown) > plan->query->max_memory_bytes) {
		fp_buf_str(plan->error, "the list of batches outgrew the memory of one query: "
					"choose a shorter range");
		return -E2BIG;
	}
	grown = reallocarray(plan->batches, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	plan->batches = grown;
	plan->capacity = capacity;
	return 0;
}

static int plan_row(const struct fp_manifest_row *row, void *context)
{
	struct plan *plan = context;
	struct planned batch = { row->position, 0, row->period_ns, 0 };
	int r = check_time(plan);

	for (uint32_t type = 1; type < FP_PROFILE_TYPES; type++) {
		plan->holding[type] += row->rows[type] > 0;
		batch.rows += fp_aspect_has(plan->query->aspect, type) ? row->rows[type] : 0;
	}
	if (r < 0 || batch.rows == 0)
		return r;
	r = fp_intern_add(&plan->hosts, row->host, strlen(row->host), &batch.host);
	if (r == 0 && plan->count == plan->capacity)
		r = plan_grow(plan);
	if (r == 0)
		plan->batches[plan->count++] = batch;
	return r;
}

// Hosts are told apart before anything is read; the other labels only exist inside batches.
static int host_matches(const struct plan *plan, const char *host)
{
	const struct fp_selector *selector = plan->query->selector;

	for (size_t i = 0; i < selector->count; i++) {
		int r;

		if (strcmp(selector->matchers[i].name, FP_HOST_LABEL) != 0)
			continue;
		r = fp_matcher_test(&selector->matchers[i], host, strlen(host));
		if (r == -E2BIG)
			fp_buf_str(plan->error, regex_too_slow);
		if (r <= 0)
			return r;
	}
	return 1;
}

// Each distinct host is matched once, however many batches it sent.
static int match_hosts(const struct plan *plan, bool *wanted)
{
	for (uint32_t i = 0; i < plan->hosts.count; i++) {
		int r = check_time(plan);

		if (r == 0)
			r = host_matches(plan, fp_intern_get(&plan->hosts, i));
		if (r < 0)
			return r;
		wanted[i] = r;
	}
	return 0;
}

static int keep_wanted(struct plan *plan)
{
	FP_AUTOFREE bool *wanted = calloc((size_t)plan->hosts.count + 1, sizeof(*wanted));
	size_t kept = 0;
	int r = wanted ? match_hosts(plan, wanted) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = 0; i < plan->count; i++) {
		const struct planned *batch = &plan->batches[i];

		if (!wanted[batch->host])
			continue;
		if (kept == 0)
			plan->period_ns = batch->period_ns;
		if (batch->period_ns != plan->period_ns)
			plan->mixed_periods = plan->query->aspect->unit == FP_UNIT_SAMPLES;
		plan->rows += batch->rows;
		plan->batches[kept++] = *batch;
	}
	plan->count = kept;
	return 0;
}

static int make_plan(struct fp_store *store, struct plan *plan)
{
	const struct fp_store_query *query = plan->query;
	int r = fp_intern_init(&plan->hosts);

	if (r == 0) {
		FP_STORE_LOCKED(store);
		r = fp_manifest_list(&store->manifest, query->range.from_ns, query->range.to_ns,
				     plan_row, plan);
	}
	if (r == 0)
		r = keep_wanted(plan);
	if (r < 0)
		return r;
	if (plan->rows > query->max_rows) {
		fp_buf_printf(plan->error,
			      "the selection holds %llu sample rows and one query may read %llu: "
			      "choose a shorter range or fewer hosts",
			      (unsigned long long)plan->rows, (unsigned long long)query->max_rows);
		return -E2BIG;
	}
	return 0;
}

static int read_batch(struct fp_wal_reader *reader, const struct fp_wal_position *position,
		      struct fp_buf *body, struct fp_profile **ret_profile)
{
	struct fp_batch_limits limits = fp_batch_default_limits;
	const char *reason;
	int r = fp_wal_read(reader, position, body);

	if (r < 0)
		return r;
	limits.compressed_bytes = body->len;
	return fp_batch_decode(body->data, body->len, &limits, ret_profile, &reason);
}

static int check_bounds(const struct plan *plan, const struct fp_merge *merge, struct fp_buf *error)
{
	const struct fp_store_query *query = plan->query;

	if (query->deadline_ns && fp_monotonic_ns() > query->deadline_ns) {
		fp_buf_printf(error,
			      "the query ran out of time after %llu of %zu batches: choose a "
			      "shorter range or fewer hosts",
			      (unsigned long long)merge->facts.batches_read, plan->count);
		return -ETIMEDOUT;
	}
	if (fp_profile_bytes(merge->profile) > query->max_memory_bytes) {
		fp_buf_str(error, "the merged profile outgrew the memory of one query: choose a "
				  "shorter range or a narrower selector");
		return -E2BIG;
	}
	return 0;
}

static int merge_batch(struct fp_merge *merge, struct fp_wal_reader *reader,
		       const struct fp_wal_position *position, struct fp_buf *body)
{
	FP_AUTOPROFILE struct fp_profile *batch = NULL;
	int r = read_batch(reader, position, body, &batch);

	switch (r) {
	case 0:
		return fp_merge_add(merge, batch);
	case -ENOENT:
		merge->facts.gone++;
		return 0;
	case -EBADMSG:
	case -EMSGSIZE:
		merge->facts.damaged++;
		return 0;
	default:
		return r;
	}
}

static int run_plan(struct fp_store *store, const struct plan *plan, struct fp_merge *merge,
		    struct fp_buf *error)
{
	FP_CLEANUP(fp_wal_reader_close) struct fp_wal_reader reader;
	FP_AUTOBUF struct fp_buf body = { 0 };
	int r = 0;

	fp_wal_reader_init(&reader, store->waldirfd);
	for (size_t i = 0; r == 0 && i < plan->count; i++) {
		r = merge_batch(merge, &reader, &plan->batches[i].position, &body);
		if (r == -E2BIG)
			fp_buf_str(error, regex_too_slow);
		if (r == 0)
			r = check_bounds(plan, merge, error);
	}
	return r;
}

int fp_store_query(struct fp_store *store, const struct fp_store_query *query,
		   struct fp_store_answer *ret_answer, struct fp_buf *error)
{
	FP_CLEANUP(plan_free) struct plan plan = { .query = query, .error = error };
	FP_AUTOMERGE struct fp_merge merge = { 0 };
	struct fp_merge_options options = { .aspect = query->aspect,
					    .selector = query->selector,
					    .keep_label = query->keep_label };
	int r = make_plan(store, &plan);

	if (r < 0)
		return r;
	options.mixed_periods = plan.mixed_periods;
	r = fp_merge_init(&merge, &options);
	if (r == 0)
		r = run_plan(store, &plan, &merge, error);
	if (r < 0)
		return r;
	ret_answer->profile = fp_merge_take(&merge);
	ret_answer->facts = merge.facts;
	memcpy(ret_answer->holding, plan.holding, sizeof(plan.holding));
	return 0;
}
