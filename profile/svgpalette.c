// SPDX-License-Identifier: Apache-2.0
//
// Colours by kind, shades by name. Warm for a program's own code and blue for the kernel stay
// apart for every common form of colour blindness; JIT is a bluish green, darker than the
// warm hues. All are light enough for dark text.
#include "svgpalette.h"

#include <math.h>
#include <stdint.h>

#define SHADES FP_SVG_SHADES

struct hues { // a range per kind, in degrees and percent
	char letter;
	const char *text; // in the legend
	float hue[2], saturation[2], light[2];
};

static const struct hues kinds[] = {
	[FP_NODE_ROOT] = { 'r', NULL, { 36, 36 }, { 20, 20 }, { 82, 82 } },
	[FP_NODE_LABEL] = { 'l', "thread or program", { 250, 290 }, { 30, 30 }, { 84, 80 } },
	[FP_NODE_USER] = { 'u', "program code", { 8, 38 }, { 88, 94 }, { 66, 62 } },
	[FP_NODE_KERNEL] = { 'k', "kernel", { 204, 222 }, { 68, 62 }, { 74, 68 } },
	[FP_NODE_JIT] = { 'j', "JIT or named code", { 158, 172 }, { 48, 44 }, { 56, 50 } },
	[FP_NODE_INLINE] = { 'i', "inlined", { 50, 56 }, { 92, 84 }, { 76, 68 } },
	[FP_NODE_ERROR] = { 'e', "explanation", { 0, 0 }, { 0, 0 }, { 68, 64 } },
	[FP_NODE_UNKNOWN] = { 'n', "no symbol", { 0, 0 }, { 0, 0 }, { 84, 76 } },
	[FP_NODE_WAIT] = { 'w', "off the CPU: blocked", { 230, 238 }, { 88, 80 }, { 72, 66 } },
	[FP_NODE_READY] = { 'q',
			    "off the CPU: ready to run",
			    { 186, 192 },
			    { 62, 55 },
			    { 76, 70 } },
	[FP_NODE_WAKE] = { 'm', "woken by", { 312, 322 }, { 52, 46 }, { 76, 70 } },
};

char fp_svg_kind_letter(enum fp_node_kind kind)
{
	return kinds[kind].letter;
}

const char *fp_svg_kind_text(enum fp_node_kind kind)
{
	return kinds[kind].text;
}

static float between(const float range[2], uint32_t shade)
{
	return range[0] + (range[1] - range[0]) * (float)shade / (float)(SHADES - 1);
}

// One channel of HSL, by the formula of CSS Color 4, section 7.1.
static unsigned int channel(float n, float hue, float saturation, float light)
{
	float k = fmodf(n + hue / 30, 12);
	float amount = saturation * fminf(light, 1 - light);
	float ramp = fmaxf(-1, fminf(fminf(k - 3, 9 - k), 1));

	return (unsigned int)lroundf((light - amount * ramp) * 255);
}

static int shade_rule(const struct hues *hues, uint32_t shade, struct fp_buf *ret_bytes)
{
	float hue = between(hues->hue, shade);
	float saturation = between(hues->saturation, shade) / 100;
	float light = between(hues->light, shade) / 100;

	return fp_buf_printf(ret_bytes, ".%c%u rect { fill: #%02x%02x%02x; }\n", hues->letter,
			     shade, channel(0, hue, saturation, light),
			     channel(8, hue, saturation, light),
			     channel(4, hue, saturation, light));
}

int fp_svg_palette(struct fp_buf *ret_bytes)
{
	for (size_t kind = 0; kind < FP_ARRAY_SIZE(kinds); kind++) {
		for (uint32_t shade = 0; shade < SHADES; shade++)
			shade_rule(&kinds[kind], shade, ret_bytes);
	}
	return ret_bytes->error;
}

// FNV-1a: a name has the same shade in every graph.
int fp_svg_class(enum fp_node_kind kind, const char *name, size_t size, struct fp_buf *ret_bytes)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return fp_buf_printf(ret_bytes, "%c%u", kinds[kind].letter, (hash >> 16) % SHADES);
}
