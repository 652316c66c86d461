// SPDX-License-Identifier: Apache-2.0
//
// symbolfixture: a library whose symbols the symbol tests know. It is never run: the tests
// read the file.
#include <stdlib.h>

int fixture_first(int x);
int fixture_calls_out(const char *text);

__attribute__((noinline)) int fixture_first(int x)
{
	return x * 3 + 1;
}

// A name with more underscores for the same code: people know it by the other.
extern int __fixture_alias(int x) __attribute__((alias("fixture_first"))); // NOLINT

__attribute__((noinline)) static int fixture_static(int x)
{
	return x * 7 + 2;
}

int fixture_calls_out(const char *text)
{
	return atoi(text) + fixture_static(1) + fixture_first(2); // NOLINT
}

// Hand-written code: a function without type or size that holds local labels, then a gap of
// padding that no symbol covers, then a sized function.
#if defined(__x86_64__)
__asm__(".text\n"
	".globl fixture_asm\n"
	"fixture_asm:\n"
	"	nop\n"
	"	nop\n"
	"	ret\n"
	".globl fixture_sized\n"
	".type fixture_sized, @function\n"
	"fixture_sized:\n"
	"	nop\n"
	"fixture_inner_label:\n"
	"	nop\n"
	"	ret\n"
	".size fixture_sized, .-fixture_sized\n"
	"	.fill 64, 1, 0xcc\n"
	".globl fixture_last\n"
	".type fixture_last, @function\n"
	"fixture_last:\n"
	"	ret\n"
	".size fixture_last, .-fixture_last\n");
#endif
