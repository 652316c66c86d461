// SPDX-License-Identifier: Apache-2.0
#include "facts.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

void fp_facts_free(struct fp_facts *facts)
{
	free(facts->host);
	free(facts->series);
	fp_buf_free(&facts->series_text);
	*facts = (struct fp_facts){ 0 };
}

static void hash_bytes(const void *bytes, size_t size, uint8_t ret_hash[FP_HASH_LEN])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
	memcpy(ret_hash, canonical.digest, FP_HASH_LEN);
}

// The NUL that ends a value is its separator, so a value that holds one is cut there.
static void append_label(struct fp_buf *text, const char *name, const char *value)
{
	fp_buf_append(text, name, strlen(name) + 1);
	fp_buf_append(text, value, strlen(value) + 1);
}

static void append_label_set(const struct fp_profile *profile, const struct fp_labels *labels,
			     const char *host, struct fp_buf *text)
{
	bool host_done = false;

	for (uint32_t i = 0; i < labels->count; i++) {
		const struct fp_label *label = &profile->label_pool[labels->first + i];
		const char *name = fp_profile_str(profile, label->name);
		int order = strcmp(name, FP_HOST_LABEL);

		if (order >= 0 && !host_done) {
			append_label(text, FP_HOST_LABEL, host);
			host_done = true;
		}
		if (order != 0)
			append_label(text, name, fp_profile_str(profile, label->value));
	}
	if (!host_done)
		append_label(text, FP_HOST_LABEL, host);
}

static int derive_series(const struct fp_profile *profile, struct fp_facts *facts)
{
	facts->series = calloc(profile->labels_count + 1, sizeof(*facts->series));
	if (!facts->series)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->labels_count; i++) {
		struct fp_series_facts *series = &facts->series[i];

		series->first = (uint32_t)facts->series_text.len;
		append_label_set(profile, &profile->labels[i], facts->host, &facts->series_text);
		if (facts->series_text.error)
			return facts->series_text.error;
		series->size = (uint32_t)facts->series_text.len - series->first;
		hash_bytes(facts->series_text.data + series->first, series->size, series->hash);
	}
	facts->series_count = profile->labels_count;
	return 0;
}

int fp_facts_derive(const struct fp_profile *profile, const void *bytes, size_t size,
		    uint64_t received_ns, struct fp_facts *ret_facts)
{
	FP_AUTOFACTS struct fp_facts facts = {
		.received_ns = received_ns,
		.start_ns = profile->start_realtime_ns,
		.end_ns = profile->end_realtime_ns,
		.period_ns = profile->period_ns,
	};
	int r;

	fp_batch_id(profile, facts.id);
	hash_bytes(bytes, size, facts.content);
	memcpy(facts.host_id, profile->host_id, sizeof(facts.host_id));
	facts.host = strdup(fp_profile_str(profile, profile->hostname));
	if (!facts.host)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];

		if (sample->type >= FP_PROFILE_TYPES)
			continue;
		facts.rows[sample->type]++;
		facts.samples[sample->type] += sample->count;
	}
	r = derive_series(profile, &facts);
	if (r < 0)
		return r;
	*ret_facts = facts;
	facts = (struct fp_facts){ 0 };
	return 0;
}
