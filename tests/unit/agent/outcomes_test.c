// SPDX-License-Identifier: Apache-2.0
//
// Outcomes: names are unique and Prometheus-clean, and the equation is checked right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/outcomes.h"

static void labels_are_unique_lower_case_words(void **state)
{
	for (int a = 0; a < FP_OUTCOME_COUNT; a++) {
		const char *label = fp_outcome_rows[a].label;

		assert_non_null(label);
		assert_true(strspn(label, "abcdefghijklmnopqrstuvwxyz_") == strlen(label));
		for (int b = 0; b < a; b++)
			assert_string_not_equal(label, fp_outcome_rows[b].label);
	}
}

static void one_outcome_too_few_or_too_many_unbalances(void **state)
{
	struct fp_totals totals = { .runs = 6 };

	totals.outcomes[FP_OUTCOME_AGGREGATED] = 3;
	totals.outcomes[FP_OUTCOME_IDLE] = 2;
	totals.outcomes[FP_OUTCOME_MAP_FULL] = 1;
	assert_true(fp_totals_balanced(&totals));
	assert_int_equal(fp_totals_class(&totals, FP_CLASS_KEPT), 3);
	assert_int_equal(fp_totals_class(&totals, FP_CLASS_FILTERED), 2);
	assert_int_equal(fp_totals_class(&totals, FP_CLASS_DROPPED), 1);
	totals.runs++;
	assert_false(fp_totals_balanced(&totals));
	totals.outcomes[FP_OUTCOME_NOTED] += 2;
	assert_false(fp_totals_balanced(&totals));
}

static void adding_reaches_every_counter(void **state)
{
	struct fp_totals one, sum = { 0 };

	for (size_t i = 0; i < sizeof(one) / sizeof(fp_u64); i++)
		((fp_u64 *)&one)[i] = i + 1;
	fp_totals_add(&sum, &one);
	fp_totals_add(&sum, &one);
	for (size_t i = 0; i < sizeof(one) / sizeof(fp_u64); i++)
		assert_int_equal(((fp_u64 *)&sum)[i], 2 * (i + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_unique_lower_case_words),
		cmocka_unit_test(one_outcome_too_few_or_too_many_unbalances),
		cmocka_unit_test(adding_reaches_every_counter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
