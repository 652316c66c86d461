// SPDX-License-Identifier: Apache-2.0
#include "regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <errno.h>

// A label value is short; 100 000 steps are about a millisecond, and a pattern that needs
// more on 200 bytes is backtracking without end.
#define MATCH_STEPS	  100000
#define MATCH_DEPTH	  1000
#define MATCH_HEAP_KIB	  1024
#define PATTERN_MAX_BYTES 1024
#define NESTING_MAX	  32

struct fp_regex {
	pcre2_code *code;
	pcre2_match_context *limits;
};

void fp_regex_free(struct fp_regex *regex)
{
	if (!regex)
		return;
	pcre2_code_free(regex->code);
	pcre2_match_context_free(regex->limits);
	free(regex);
}

static void regex_freep(struct fp_regex **regex)
{
	fp_regex_free(*regex);
}

static void compile_context_freep(pcre2_compile_context **context)
{
	pcre2_compile_context_free(*context);
}

static int refuse_pattern(int error_number, size_t offset, struct fp_buf *error)
{
	PCRE2_UCHAR message[128] = "";

	pcre2_get_error_message(error_number, message, sizeof(message));
	fp_buf_printf(error, "regular expression, byte %zu: %s", offset + 1, (char *)message);
	return -EINVAL;
}

static int compile(struct fp_regex *regex, const char *pattern, size_t size, struct fp_buf *error)
{
	FP_CLEANUP(compile_context_freep) pcre2_compile_context *context = NULL;
	// Bytes, not characters: a value may be any bytes, and `.` must match each of them.
	const uint32_t options =
	    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF;
	int error_number = 0;
	PCRE2_SIZE offset = 0;

	context = pcre2_compile_context_create(NULL);
	if (!context)
		return -ENOMEM;
	pcre2_set_max_pattern_length(context, PATTERN_MAX_BYTES);
	pcre2_set_parens_nest_limit(context, NESTING_MAX);
	regex->code =
	    pcre2_compile((PCRE2_SPTR)pattern, size, options, &error_number, &offset, context);
	if (!regex->code)
		return refuse_pattern(error_number, offset, error);
	return 0;
}

int fp_regex_new(const char *pattern, size_t size, struct fp_regex **ret_regex,
		 struct fp_buf *error)
{
	FP_CLEANUP(regex_freep) struct fp_regex *regex = calloc(1, sizeof(*regex));
	int r;

	if (!regex)
		return -ENOMEM;
	regex->limits = pcre2_match_context_create(NULL);
	if (!regex->limits)
		return -ENOMEM;
	pcre2_set_match_limit(regex->limits, MATCH_STEPS);
	pcre2_set_depth_limit(regex->limits, MATCH_DEPTH);
	pcre2_set_heap_limit(regex->limits, MATCH_HEAP_KIB);
	r = compile(regex, pattern, size, error);
	if (r < 0)
		return r;
	*ret_regex = fp_take_ptr(regex);
	return 0;
}

static int match(const struct fp_regex *regex, const char *subject, size_t size,
		 pcre2_match_data *data)
{
	int r = pcre2_match(regex->code, (PCRE2_SPTR)subject, size, 0, 0, data, regex->limits);

	if (r >= 0)
		return 1;
	return r == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

int fp_regex_match(const struct fp_regex *regex, const char *subject, size_t size)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	int r = data ? match(regex, subject, size, data) : -ENOMEM;

	pcre2_match_data_free(data);
	return r;
}

uint32_t fp_regex_groups(const struct fp_regex *regex)
{
	uint32_t groups = 0;

	pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &groups);
	return groups;
}

static struct fp_regex_span span_of(const PCRE2_SIZE *bounds)
{
	// \K in a look-around may put the end before the start.
	if (bounds[0] == PCRE2_UNSET || bounds[1] < bounds[0])
		return (struct fp_regex_span){ 0, 0 };
	return (struct fp_regex_span){ bounds[0], bounds[1] - bounds[0] };
}

int fp_regex_capture(const struct fp_regex *regex, const char *subject, size_t size,
		     struct fp_regex_span *ret_spans, size_t count)
{
	pcre2_match_data *data = pcre2_match_data_create_from_pattern(regex->code, NULL);
	int r = data ? match(regex, subject, size, data) : -ENOMEM;

	for (size_t i = 0; r == 1 && i < count; i++)
		ret_spans[i] = i < pcre2_get_ovector_count(data)
				   ? span_of(pcre2_get_ovector_pointer(data) + 2 * i)
				   : (struct fp_regex_span){ 0, 0 };
	pcre2_match_data_free(data);
	return r;
}
