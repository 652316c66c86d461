// SPDX-License-Identifier: Apache-2.0
//
// A library in two builds that lie alike in their files but for the sizes of their frames (WORDS):
// the unwind table of the one finds a "frame" among the values that the other keeps on its stack.
long alike_inner(long turns, long value);
long alike_outer(long turns, long value);

__attribute__((noinline)) long alike_inner(long turns, long value)
{
	volatile long words[WORDS];
	long sum = 0;

	for (int i = 0; i < WORDS; i++)
		words[i] = value;
	for (long i = 0; i < turns; i++)
		sum += words[i * 7 % WORDS];
	return sum;
}

__attribute__((noinline)) long alike_outer(long turns, long value)
{
	volatile long words[2 * WORDS];

	words[0] = alike_inner(turns, value);
	return words[0];
}
