// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"

#include "collector/http.h"
#include "common/file.h"

#include <string.h>

static const struct {
	const char *method, *path, *route, *tail;
	unsigned int refusal;
	const char *allow;
} cases[] = {
	{ "POST", "/v1/batches", "/v1/batches", NULL, 0, NULL },
	{ "GET", "/v1/batches", NULL, NULL, 405, "POST" },
	{ "PUT", "/v1/symbols/aabb", "/v1/symbols/*", "aabb", 0, NULL },
	{ "HEAD", "/v1/symbols/aabb", "/v1/symbols/*", "aabb", 0, NULL },
	{ "DELETE", "/v1/symbols/aabb", NULL, NULL, 405, "HEAD, PUT" },
	{ "PUT", "/v1/symbols/", NULL, NULL, 404, NULL },
	{ "PUT", "/v1/symbols/aa/bb", NULL, NULL, 404, NULL },
	{ "GET", "/api/v1/label/thread/values", "/api/v1/label/*/values", "thread", 0, NULL },
	{ "GET", "/api/v1/label//values", NULL, NULL, 404, NULL },
	{ "GET", "/api/v1/label/a/values/", NULL, NULL, 404, NULL },
	{ "GET", "/", "/", NULL, 0, NULL },
	{ "HEAD", "/metrics", "/metrics", NULL, 0, NULL },
	{ "POST", "/metrics", NULL, NULL, 405, "GET, HEAD" },
	{ "GET", "/assets/page.js", "/assets/*", "page.js", 0, NULL },
	{ "GET", "/assets/../metrics", NULL, NULL, 404, NULL },
	{ "GET", "//", NULL, NULL, 404, NULL },
	{ "get", "/metrics", NULL, NULL, 405, "GET, HEAD" },
	{ "GET", "", NULL, NULL, 404, NULL },
};

static void requests_meet_their_route(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_response refusal = { 0 };
		FP_AUTOFREE char *tail = NULL;
		const struct fp_route *route =
		    fp_route_find(cases[i].method, cases[i].path, &tail, &refusal);

		if (!route != !cases[i].route || refusal.status != cases[i].refusal)
			fail_msg("%s %s: status %u", cases[i].method, cases[i].path,
				 refusal.status);
		if (route)
			assert_string_equal(route->path, cases[i].route);
		if (cases[i].tail)
			assert_string_equal(tail, cases[i].tail);
		else
			assert_null(tail);
		if (cases[i].allow)
			assert_string_equal(refusal.allow, cases[i].allow);
		fp_buf_free(&refusal.body);
	}
}

static void a_reason_is_valid_json_whatever_it_quotes(void **state)
{
	struct fp_response response = { 0 };

	fp_response_error(&response, 400, "bad", "saw \"%s\"", "<b>\n\xff");
	assert_string_equal((char *)response.body.data,
			    "{\"error\":\"bad\",\"reason\":\"saw \\\"<b>\\u000a\\\\xff\\\"\"}\n");
	fp_buf_free(&response.body);
}

static void every_route_is_documented(void **state)
{
	FP_AUTOBUF struct fp_buf page = { 0 };

	assert_int_equal(fp_file_read(FP_SOURCE_DIR "/docs/http-api.md", 1 << 20, &page), 0);
	fp_buf_byte(&page, 0);
	for (size_t i = 0; i < fp_routes_count; i++) {
		char heading[128];

		snprintf(heading, sizeof(heading), "`%s %s`", fp_routes[i].method,
			 fp_routes[i].path);
		if (!strstr((char *)page.data, heading))
			fail_msg("docs/http-api.md says nothing about %s", heading);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("requests meet their route or are refused", requests_meet_their_route),
		FP_CASE("a reason is valid JSON whatever it quotes",
			a_reason_is_valid_json_whatever_it_quotes),
		FP_CASE("every route is documented", every_route_is_documented),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
