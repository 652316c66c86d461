// SPDX-License-Identifier: Apache-2.0
#include "control_request.h"

#include "common/clock.h"
#include "control.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

// Linux's PID_MAX_LIMIT on 64-bit machines is 2^22.
#define PID_MAX (1 << 22)

static void free_json(json_t **json)
{
	json_decref(*json);
	*json = NULL;
}

static int refuse(struct fp_buf *error, const char *what, const char *cause)
{
	fp_buf_printf(error, "%s: %s", what, cause);
	return -EINVAL;
}

struct bounds {
	json_int_t min, max;
};

static int read_number(const json_t *root, const char *name, struct bounds bounds, uint64_t *number,
		       struct fp_buf *error)
{
	const json_t *value = json_object_get(root, name);

	if (!value)
		return 0;
	if (!json_is_integer(value))
		return refuse(error, name, "not a whole number");
	if (json_integer_value(value) < bounds.min || json_integer_value(value) > bounds.max) {
		fp_buf_printf(error, "%s: not within %lld and %lld", name, (long long)bounds.min,
			      (long long)bounds.max);
		return -EINVAL;
	}
	*number = (uint64_t)json_integer_value(value);
	return 0;
}

static int read_flag(const json_t *root, const char *name, bool *flag, struct fp_buf *error)
{
	const json_t *value = json_object_get(root, name);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return refuse(error, name, "not true or false");
	*flag = json_is_true(value);
	return 0;
}

static int check_members(json_t *root, struct fp_buf *error)
{
	static const char *const known[] = { "verb", "pid",	"hz",	     "duration_ms",
					     "cpu",  "off_cpu", "run_queue", "waker" };
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value)
	{
		bool found = false;

		for (size_t i = 0; i < FP_ARRAY_SIZE(known); i++)
			found |= strcmp(known[i], name) == 0;
		if (!found)
			return refuse(error, "request", "holds a member that is not known");
	}
	return 0;
}

static int read_kinds(const json_t *root, struct fp_control_request *request, struct fp_buf *error)
{
	const struct {
		const char *name;
		bool *flag;
	} kinds[] = {
		{ "cpu", &request->cpu },
		{ "off_cpu", &request->off_cpu },
		{ "run_queue", &request->run_queue },
		{ "waker", &request->waker },
	};
	int r = 0;

	request->cpu = true;
	for (size_t i = 0; r == 0 && i < FP_ARRAY_SIZE(kinds); i++)
		r = read_flag(root, kinds[i].name, kinds[i].flag, error);
	if (r < 0)
		return r;
	if (request->run_queue && !request->off_cpu)
		return refuse(error, "run_queue", "needs off_cpu");
	if (request->waker && !request->off_cpu)
		return refuse(error, "waker", "needs off_cpu");
	if (!request->cpu && !request->off_cpu)
		return refuse(error, "request", "neither cpu nor off_cpu");
	return 0;
}

static int read_snapshot(json_t *root, struct fp_control_request *request, struct fp_buf *error)
{
	static const struct bounds pids = { 1, PID_MAX }, rates = { 1, FP_SNAPSHOT_HZ_MAX };
	static const struct bounds durations = { FP_SNAPSHOT_SECONDS_MIN * 1000LL,
						 FP_SNAPSHOT_SECONDS_MAX_TRUSTED * 1000LL };
	uint64_t pid = 0, hz = 99, duration_ms = 10000;
	int r;

	r = read_number(root, "pid", pids, &pid, error);
	if (r == 0)
		r = read_number(root, "hz", rates, &hz, error);
	if (r == 0)
		r = read_number(root, "duration_ms", durations, &duration_ms, error);
	if (r < 0)
		return r;
	if (pid == 0)
		return refuse(error, "pid", "missing");
	r = read_kinds(root, request, error);
	if (r < 0)
		return r;
	request->pid = (uint32_t)pid;
	request->hz = (uint32_t)hz;
	request->duration_ns = duration_ms * FP_NS_PER_MS;
	return 0;
}

int fp_control_request_parse(const char *line, size_t size, struct fp_control_request *ret,
			     struct fp_buf *error)
{
	json_t *root FP_CLEANUP(free_json) = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	struct fp_control_request request = { 0 };
	const char *verb = json_string_value(json_object_get(root, "verb"));
	int r;

	if (!json_is_object(root))
		return refuse(error, "request", "not a line of JSON that is an object");
	r = check_members(root, error);
	if (r < 0)
		return r;
	if (!verb)
		return refuse(error, "verb", "missing");
	if (strcmp(verb, "status") == 0) {
		request.verb = FP_CONTROL_STATUS;
	} else if (strcmp(verb, "stop") == 0) {
		request.verb = FP_CONTROL_STOP;
	} else if (strcmp(verb, "snapshot") == 0) {
		request.verb = FP_CONTROL_SNAPSHOT;
		r = read_snapshot(root, &request, error);
	} else {
		r = refuse(error, "verb", "not status, snapshot or stop");
	}
	if (r == 0)
		*ret = request;
	return r;
}
