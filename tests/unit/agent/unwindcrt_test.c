// SPDX-License-Identifier: Apache-2.0
// What is known of _init, _fini, frame_dummy and __do_global_dtors_aux by their instructions.
#include "unwind_sections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define AT	0x100u // of the function
#define ANY	1, 2, 3, 4
#define ENDBR64 0xf3, 0x0f, 0x1e, 0xfa
#define PUSH	0x55
#define POP	0x5d
#define RET	0xc3
#define GROW	0x48, 0x83, 0xec, 8
#define SHRINK	0x48, 0x83, 0xc4, 8
#define IF_DONE 0x80, 0x3d, ANY, 0, 0x75, 0x2b
#define CALL	0xe8, ANY
#define DONE	0xc6, 0x05, ANY, 1
#define FRAME	0x48, 0x89, 0xe5

#define BYTES(...)                                                                                 \
	.bytes = (const uint8_t[]){ __VA_ARGS__ }, .size = sizeof((const uint8_t[]){ __VA_ARGS__ })

static const struct crt_case {
	const char *sentence;
	const uint8_t *bytes;
	size_t size;
	const char *rows; // of the function
	uint32_t saved;	  // from where on rbp is saved, in the function; 0: nowhere
} cases[] = {
	{ "what runs last, in code that may lie anywhere", // libtinfo 6.4 of Debian 12
	  BYTES(ENDBR64, IF_DONE, PUSH, 0x48, 0x83, 0x3d, ANY, 0, FRAME, 0x74, 0x0c, 0x48, 0x8b,
		0x3d, ANY, CALL, CALL, DONE, POP, RET, 0x0f, 0x1f, 0x00, RET),
	  " 100:8 10e:16 134:8 135:-", 0xe },
	{ "what runs last, in code that lies where it was linked", // python 3.11 of Debian 12
	  BYTES(ENDBR64, IF_DONE, PUSH, FRAME, CALL, DONE, POP, RET, 0x90, RET),
	  " 100:8 10e:16 11e:8 11f:-", 0xe },
	{ "what runs last, as older compilers had it", // GCC 4.8
	  BYTES(IF_DONE, 0x48, 0x83, 0x3d, ANY, 0, PUSH, FRAME, 0x74, 0x0c, 0x48, 0x8d, 0x3d, ANY,
		CALL, CALL, POP, DONE, 0xf3, RET),
	  " 100:8 112:16 129:8 132:-", 0x12 },
	{ "what runs first, with a long jump", BYTES(ENDBR64, 0xe9, ANY), " 100:8 109:-", 0 },
	{ "what runs first, with a short one", BYTES(ENDBR64, 0xeb, 0x8a), " 100:8 106:-", 0 },
	{ "_init",
	  BYTES(ENDBR64, GROW, 0x48, 0x8b, 0x05, ANY, 0x48, 0x85, 0xc0, 0x74, 2, 0xff, 0xd0, SHRINK,
		RET),
	  " 100:8 108:16 11a:8 11b:-", 0 },
	{ "_fini", BYTES(ENDBR64, GROW, SHRINK, RET), " 100:8 108:16 10c:8 10d:-", 0 },

	{ "_fini of musl", BYTES(0x50, 0x58, RET), " 100:8 101:16 102:8 103:-", 0 },

	{ "one with an instruction that such functions have not", BYTES(ENDBR64, 0x41, 0x54, RET),
	  "", 0 },
	{ "one that is cut off", BYTES(ENDBR64, GROW, SHRINK), "", 0 },
	{ "one that is cut off in an instruction", BYTES(ENDBR64, 0xe9, 1, 2, 3), "", 0 },
	{ "one that leaves with something on the stack", BYTES(PUSH, FRAME, RET), "", 0 },
	{ "one that leaves with a larger stack", BYTES(GROW, RET), "", 0 },
	{ "one that takes what it has not put there", BYTES(POP, RET), "", 0 },
	{ "one that gives back what it has not taken", BYTES(SHRINK, RET), "", 0 },
	{ "one that takes what is not on top", BYTES(PUSH, GROW, POP, SHRINK, RET), "", 0 },
	{ "one that gives back what is saved there", BYTES(PUSH, SHRINK, GROW, POP, RET), "", 0 },
	{ "one that saves twice", BYTES(PUSH, PUSH, POP, POP, RET), "", 0 },
	{ "one that does so many times",
	  BYTES(GROW, SHRINK, GROW, SHRINK, GROW, SHRINK, GROW, SHRINK, RET), "", 0 },
	{ "one that is long",
	  BYTES(CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL,
		CALL, CALL, CALL, CALL, CALL, CALL, RET),
	  "", 0 },
};

// Beside code that has an entry: without any there is no table.
static struct sections *with_function(const struct crt_case *c)
{
	struct sections *sections = sections_new();

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, SECTIONS_ADDRESS, 16, 8);
	sections->crt[2] = (struct fp_unwind_code){ c->bytes, c->size, SECTIONS_OFFSET + AT };
	return sections;
}

static void assert_saved(const struct fp_unwind_view *view, const struct crt_case *c)
{
	const struct fp_unwind_rule *before =
	    fp_unwind_view_find(view, SECTIONS_OFFSET + AT + c->saved - 1);
	const struct fp_unwind_rule *rule =
	    fp_unwind_view_find(view, SECTIONS_OFFSET + AT + c->saved);

	assert_int_equal(before->saved, FP_UNWIND_SAME);
	assert_int_equal(rule->saved, FP_UNWIND_AT_CFA);
	assert_int_equal(rule->rbp_at, -16);
	assert_int_equal(rule->return_reg, FP_UNWIND_RETURN_AT_CFA);
}

static void a_function_is_known_by_its_instructions_or_not_at_all(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		const struct crt_case *c = &cases[i];
		AUTOSECTIONS struct sections *sections = with_function(c);
		FP_AUTOBUF struct fp_buf table = { 0 };
		struct fp_unwind_view view;
		char rows[64];

		print_message("  %s\n", c->sentence);
		assert_int_equal(sections_table(sections, &table, &view), 0);
		snprintf(rows, sizeof(rows), "0:8 10:-%s", c->rows);
		assert_string_equal(sections_text(&view), rows);
		if (c->saved)
			assert_saved(&view, c);
	}
}

static void what_is_described_is_believed(void **state)
{
	AUTOSECTIONS struct sections *sections = with_function(&cases[0]);
	AUTOSECTIONS struct sections *second = with_function(&cases[0]);

	sections_plain(sections, SECTIONS_EH, SECTIONS_ADDRESS + AT, 4, 40);
	sections_assert(sections, "0:8 10:- 100:40 104:-");
	// A function that has an entry begins in it: so it was not what it seemed.
	sections_plain(second, SECTIONS_EH, SECTIONS_ADDRESS + AT + 0x20, 16, 40);
	sections_assert(second, "0:8 10:- 120:40 130:-");
}

static void two_that_are_one_function_are_known_once(void **state)
{
	AUTOSECTIONS struct sections *sections = with_function(&cases[0]);

	sections->crt[0] = sections->crt[3] = sections->crt[2];
	sections_assert(sections, "0:8 10:- 100:8 10e:16 134:8 135:-");
	sections->crt[0].offset += 0x10; // one that begins within another
	sections_assert(sections, "0:8 10:- 100:8 10e:16 134:8 135:-");
	sections->crt[0].offset += 0x25; // and where another ends
	sections_assert(sections, "0:8 10:- 100:8 10e:16 134:8 143:16 169:8 16a:-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_is_known_by_its_instructions_or_not_at_all),
		cmocka_unit_test(what_is_described_is_believed),
		cmocka_unit_test(two_that_are_one_function_are_known_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
