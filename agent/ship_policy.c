// SPDX-License-Identifier: Apache-2.0
#include "ship_policy.h"

#include "common/clock.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#define BASE_NS		   FP_NS_PER_S
#define FLOOR_NS	   (100 * FP_NS_PER_MS) // full jitter may draw 0; that would be a busy loop
#define RETRY_AFTER_MIN_NS FP_NS_PER_S
#define RETRY_AFTER_MAX_NS (3600 * FP_NS_PER_S)

const struct fp_ship_rule fp_ship_rules[] = {
	{ 0, 0, FP_SHIP_RETRY, "no answer: refused, timed out, or cut off" },
	{ 200, 299, FP_SHIP_DONE, "the answer says `stored` or `duplicate`" },
	{ 300, 399, FP_SHIP_RETRY_AT_CAP, "never followed: the token would go elsewhere" },
	{ 400, 400, FP_SHIP_REJECTED, "the batch is malformed" },
	{ 408, 408, FP_SHIP_RETRY, "the collector waited too long" },
	{ 409, 409, FP_SHIP_REJECTED, "the id is taken by other content" },
	{ 413, 413, FP_SHIP_TOO_LARGE, "a size limit on the way" },
	{ 422, 422, FP_SHIP_REJECTED, "the batch cannot be processed" },
	{ 425, 425, FP_SHIP_RETRY, "too early" },
	{ 429, 429, FP_SHIP_RETRY, "too many requests" },
	// 401, 403, 404, 405, 415, 431 …: token, address or proxy are wrong.
	{ 400, 499, FP_SHIP_RETRY_AT_CAP, "token, address or proxy need a person" },
	{ 500, 599, FP_SHIP_RETRY, "the collector or a proxy is in trouble" },
	{ 0, 999, FP_SHIP_RETRY_AT_CAP, "not a known answer" },
};
const size_t fp_ship_rules_count = FP_ARRAY_SIZE(fp_ship_rules);

const struct fp_ship_rule *fp_ship_rule_for(long status)
{
	const struct fp_ship_rule *rule = fp_ship_rules;
	const struct fp_ship_rule *last = fp_ship_rules + fp_ship_rules_count - 1;

	while (rule < last && (status < rule->first || status > rule->last))
		rule++;
	return rule;
}

uint64_t fp_ship_retry_after_ns(const char *value, uint64_t now_realtime_ns)
{
	uint64_t now_s = now_realtime_ns / FP_NS_PER_S, wait_ns;
	size_t digits = strspn(value, "0123456789");
	uint64_t wait_s;

	if (digits && !value[digits]) {
		errno = 0;
		wait_s = strtoull(value, NULL, 10); // on overflow the largest number: clamped
	} else {
		time_t date = curl_getdate(value, NULL);

		wait_s = date > 0 && (uint64_t)date > now_s ? (uint64_t)date - now_s : 0;
	}
	if (!wait_s)
		return 0;
	wait_ns = wait_s > 3600 ? RETRY_AFTER_MAX_NS : wait_s * FP_NS_PER_S;
	return wait_ns < RETRY_AFTER_MIN_NS ? RETRY_AFTER_MIN_NS : wait_ns;
}

// Uniform in [0, range].
static uint64_t scale(uint64_t random, uint64_t range)
{
	return (uint64_t)(((unsigned __int128)random * (range + 1)) >> 64);
}

uint64_t fp_ship_backoff_ns(struct fp_ship_backoff *backoff, enum fp_ship_action action,
			    uint64_t retry_after_ns, uint64_t random)
{
	uint64_t range = BASE_NS, delay;

	for (uint32_t i = 0; i < backoff->failures && range < backoff->max_ns; i++)
		range *= 2;
	if (range > backoff->max_ns)
		range = backoff->max_ns;
	if (backoff->failures < UINT32_MAX)
		backoff->failures++;
	if (action == FP_SHIP_RETRY_AT_CAP)
		return backoff->max_ns / 2 + scale(random, backoff->max_ns / 2);
	// Never before the time asked for, and spread behind it so that a fleet does not return
	// as one.
	if (retry_after_ns)
		return retry_after_ns + scale(random, retry_after_ns / 10);
	delay = scale(random, range);
	return delay < FLOOR_NS ? FLOOR_NS : delay;
}
