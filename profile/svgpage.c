// SPDX-License-Identifier: Apache-2.0
#include "svgpage.h"

#include "svgassets.h"
#include "svgpalette.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

#define NOTE_LINE   16
#define NOTE_CHARS  108 // per line: fits the narrowest page
#define LEGEND_GAP  22
#define LEGEND_CHAR 6.4 // px per character, about, of the 12 px font
#define FOOT_MARGIN 12
#define PAGE_MARGIN 10
#define SWATCH_SIZE 12

int fp_svg_text(const char *text, size_t size, struct fp_buf *ret_bytes)
{
	FP_AUTOBUF struct fp_buf shown = { 0 };

	fp_text_name(text, size, SIZE_MAX, &shown);
	if (shown.error)
		return shown.error;
	return shown.len ? fp_buf_xml(ret_bytes, (const char *)shown.data, shown.len) : 0;
}

int fp_svg_value(const struct fp_render_options *options, uint64_t value, struct fp_buf *ret_bytes)
{
	uint64_t busy_ns;

	fp_render_value(options->unit, value, ret_bytes);
	if (options->unit != FP_UNIT_SAMPLES || !options->period_ns ||
	    __builtin_mul_overflow(value, options->period_ns, &busy_ns))
		return ret_bytes->error;
	fp_buf_str(ret_bytes, " (");
	fp_text_duration(busy_ns, ret_bytes);
	return fp_buf_byte(ret_bytes, ')');
}

static void legend_item(struct fp_svg_page *page, double *x, enum fp_node_kind kind)
{
	const char *text = fp_svg_kind_text(kind);
	double width = SWATCH_SIZE + 5 + (double)strlen(text) * LEGEND_CHAR;

	if (*x > FP_SVG_PAD && *x + width > FP_SVG_MIN_WIDTH - FP_SVG_PAD) {
		*x = FP_SVG_PAD;
		page->foot_y += NOTE_LINE + 2;
	}
	fp_buf_printf(&page->foot,
		      "<g class=\"%c2\"><rect x=\"%.0f\" y=\"%u\" width=\"%d\" height=\"%d\"/>"
		      "<text x=\"%.0f\" y=\"%u\">%s</text></g>\n",
		      fp_svg_kind_letter(kind), *x, page->foot_y, SWATCH_SIZE, SWATCH_SIZE,
		      *x + SWATCH_SIZE + 5, page->foot_y + 10, text);
	*x += width + LEGEND_GAP;
}

static void legend(struct fp_svg_page *page)
{
	double x = FP_SVG_PAD;
	bool any = false;

	for (int kind = FP_NODE_LABEL; kind < FP_NODE_KINDS; kind++) {
		if (!page->has_kind[kind])
			continue;
		legend_item(page, &x, kind);
		any = true;
	}
	page->foot_y += any ? NOTE_LINE + 8 : 0;
}

// Length of the first line of text when lines hold at most NOTE_CHARS bytes.
static size_t line_break(const char *text)
{
	size_t size = strlen(text), at = NOTE_CHARS;

	if (size <= NOTE_CHARS)
		return size;
	while (at > 0 && text[at] != ' ')
		at--;
	if (at > 0)
		return at;
	// A word longer than the line is cut, but not inside a character.
	for (at = NOTE_CHARS; at > 0 && (text[at] & 0xc0) == 0x80;)
		at--;
	return at ? at : size;
}

static void note(struct fp_svg_page *page, const char *style, const char *text)
{
	while (*text) {
		size_t size = line_break(text);

		fp_buf_printf(&page->foot, "<text class=\"%s\" x=\"%d\" y=\"%u\">", style,
			      FP_SVG_PAD, page->foot_y + 10);
		fp_svg_text(text, size, &page->foot);
		fp_buf_str(&page->foot, "</text>\n");
		page->foot_y += NOTE_LINE;
		text += size;
		text += *text == ' ';
	}
}

static void note_undrawn(struct fp_svg_page *page, uint64_t frames, uint64_t value,
			 const char *reason)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	if (frames == 0)
		return;
	fp_buf_str(&text, "Not drawn: ");
	fp_text_count(frames, &text);
	fp_buf_printf(&text, " frame%s %s, covering ", frames == 1 ? "" : "s", reason);
	fp_text_percent(value, page->tree->nodes[FP_TREE_ROOT].total, 2, &text);
	fp_buf_str(&text, " of the total; search does not see them.");
	if (!text.error)
		note(page, "note", (const char *)text.data);
}

int fp_svg_page_measure(struct fp_svg_page *page)
{
	page->foot_y = FP_SVG_TOP + page->rows * FP_SVG_ROW + FOOT_MARGIN;
	legend(page);
	if (page->has_kind[FP_NODE_WAIT] || page->has_kind[FP_NODE_READY])
		note(
		    page, "note",
		    "Deep blue and cyan tops are time off the CPU; every other bare top is time on "
		    "the CPU.");
	if (page->options->quality)
		note(page, "quality", page->options->quality);
	note_undrawn(page, page->culled, page->culled_value, "narrower than 0.1 px");
	note_undrawn(page, page->deep, page->deep_value, "deeper than 2,000 rows");
	return page->foot.error;
}

uint32_t fp_svg_page_height(const struct fp_svg_page *page)
{
	return page->foot_y + PAGE_MARGIN;
}

static void page_open(const struct fp_svg_page *page, struct fp_buf *ret_bytes)
{
	const struct fp_render_options *options = page->options;
	uint32_t height = fp_svg_page_height(page);

	fp_buf_printf(ret_bytes,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"page\" width=\"%" PRIu32
		      "\" height=\"%" PRIu32 "\" viewBox=\"0 0 %" PRIu32 " %" PRIu32
		      "\" data-width=\"%" PRIu32 "\" data-height=\"%" PRIu32 "\" data-top=\"%d\" "
		      "data-rows=\"%" PRIu32 "\" data-unit=\"%s\" data-period=\"%" PRIu64
		      "\" data-icicle=\"%d\" role=\"group\" aria-label=\"",
		      page->width, height, page->width, height, page->width, height, FP_SVG_TOP,
		      page->rows, options->unit == FP_UNIT_NANOSECONDS ? "ns" : "samples",
		      options->period_ns, options->icicle);
	fp_svg_text(options->title, strlen(options->title), ret_bytes);
	fp_buf_str(ret_bytes, ", flame graph\">\n");
}

static void centred(const struct fp_svg_page *page, const char *style, uint32_t y, const char *text,
		    struct fp_buf *ret_bytes)
{
	fp_buf_printf(ret_bytes, "<text class=\"%s\" x=\"%" PRIu32 "\" y=\"%" PRIu32 "\">", style,
		      page->width / 2, y);
	fp_svg_text(text, strlen(text), ret_bytes);
	fp_buf_str(ret_bytes, "</text>\n");
}

static const char tools[] =
    "<div xmlns=\"http://www.w3.org/1999/xhtml\" class=\"bar\">"
    "<button class=\"reset\" type=\"button\" title=\"Escape\" disabled=\"disabled\">"
    "Reset zoom</button>"
    "<button class=\"flip\" type=\"button\" title=\"i: turn upside down\">Flip</button>"
    "<span class=\"state\" role=\"status\"></span>"
    "<span class=\"matched\" role=\"status\"></span>"
    "<input class=\"search\" type=\"search\" spellcheck=\"false\" "
    "placeholder=\"Search: regular expression (Ctrl-F)\" aria-label=\"Search functions\"/>"
    "</div>";

int fp_svg_page_head(const struct fp_svg_page *page, struct fp_buf *ret_bytes)
{
	page_open(page, ret_bytes);
	fp_buf_str(ret_bytes, "<style><![CDATA[\n");
	fp_buf_str(ret_bytes, fp_asset_flame_css);
	fp_svg_palette(ret_bytes);
	fp_buf_str(ret_bytes, "]]></style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
	centred(page, "title", 28, page->options->title, ret_bytes);
	if (page->options->subtitle)
		centred(page, "subtitle", 48, page->options->subtitle, ret_bytes);
	fp_buf_printf(ret_bytes,
		      "<foreignObject class=\"tools\" x=\"%d\" y=\"57\" width=\"%" PRIu32
		      "\" height=\"30\">%s</foreignObject>\n",
		      FP_SVG_PAD, page->width - 2 * FP_SVG_PAD, tools);
	if (page->tree->nodes[FP_TREE_ROOT].total == 0)
		centred(page, "empty", FP_SVG_TOP + 24, "This profile holds no samples.",
			ret_bytes);
	return ret_bytes->error;
}

int fp_svg_page_foot(const struct fp_svg_page *page, struct fp_buf *ret_bytes)
{
	fp_buf_str(ret_bytes, "<g class=\"foot\">\n");
	if (page->foot.len > 0)
		fp_buf_append(ret_bytes, page->foot.data, page->foot.len);
	fp_buf_str(ret_bytes, "</g>\n<g class=\"tip\" style=\"display: none\"></g>\n"
			      "<script><![CDATA[\n");
	fp_buf_str(ret_bytes, fp_asset_flame_js);
	return fp_buf_str(ret_bytes, "]]></script>\n</svg>\n");
}
