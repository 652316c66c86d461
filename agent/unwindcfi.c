// SPDX-License-Identifier: Apache-2.0
//
// Entries: what is read of a section before a program is run. unwindcfi_run.c runs them.
#include "unwindcfi_private.h"

#include <dwarf.h>

#define LENGTH_64	0xffffffffu // the length follows in 8 bytes
#define LENGTH_RESERVED 0xfffffff0u

struct frame { // any entry: its bytes behind length and id
	struct fp_cursor body;
	uint64_t id;
	size_t id_at; // in the section
	uint8_t offset_size;
	bool is_common;
};

// False: nothing can be read from here on.
static bool read_length(const struct fp_cfi_section *section, size_t at, struct frame *ret)
{
	struct fp_cursor cursor = { section->bytes + at, section->bytes + section->size, false };
	uint64_t length = fp_cursor_unsigned(&cursor, 4);

	ret->offset_size = 4;
	if (length == LENGTH_64) {
		length = fp_cursor_unsigned(&cursor, 8);
		ret->offset_size = 8;
	} else if (length >= LENGTH_RESERVED) {
		return false;
	}
	if (cursor.over || length > fp_cursor_left(&cursor))
		return false;
	ret->body = (struct fp_cursor){ cursor.at, cursor.at + length, false };
	return true;
}

static void read_id(const struct fp_cfi_section *section, struct frame *frame)
{
	frame->id_at = (size_t)(frame->body.at - section->bytes);
	frame->id = fp_cursor_unsigned(&frame->body, frame->offset_size);
	if (!section->is_debug)
		frame->is_common = frame->id == 0;
	else
		frame->is_common = frame->id == (frame->offset_size == 8 ? ~0ULL : 0xffffffffu);
}

uint64_t fp_cfi_pointer(struct fp_cursor *cursor, const struct fp_cfi_section *section,
			uint8_t encoding, bool *ret_is_good)
{
	uint64_t place = section->address + (uint64_t)(cursor->at - section->bytes), value;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = fp_cursor_unsigned(cursor, 8);
		break;
	case DW_EH_PE_udata2:
		value = fp_cursor_unsigned(cursor, 2);
		break;
	case DW_EH_PE_udata4:
		value = fp_cursor_unsigned(cursor, 4);
		break;
	case DW_EH_PE_sdata2:
		value = (uint64_t)fp_cursor_signed(cursor, 2);
		break;
	case DW_EH_PE_sdata4:
		value = (uint64_t)fp_cursor_signed(cursor, 4);
		break;
	case DW_EH_PE_uleb128:
		value = fp_cursor_uleb(cursor);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)fp_cursor_sleb(cursor);
		break;
	default:
		*ret_is_good = false;
		return 0;
	}
	if (value == 0)
		return 0; // to nothing, whatever it is relative to
	// Relative to text, data or function, aligned, indirect: of no use for an address of code.
	if ((encoding & 0xf0) == DW_EH_PE_pcrel)
		return value + place;
	*ret_is_good = *ret_is_good && (encoding & 0xf0) == 0;
	return value;
}

// P: the address of a personality routine, which a walk does not need.
static bool skip_personality(struct fp_cursor *data, const struct fp_cfi_section *section)
{
	uint8_t encoding = fp_cursor_byte(data);
	bool is_good = true;

	fp_cfi_pointer(data, section, encoding & 0x0f, &is_good);
	return is_good && (encoding & 0x70) != DW_EH_PE_aligned;
}

// LSB 10.6.1.1.1; B (pointers signed with key B) means nothing on x86-64.
static bool read_augmentation(const struct fp_cfi_section *section, const char *letters,
			      struct fp_cursor *data, struct fp_cfi_common *common)
{
	for (; *letters; letters++) {
		switch (*letters) {
		case 'z':
			break;
		case 'L':
			fp_cursor_byte(data);
			break;
		case 'P':
			if (!skip_personality(data, section))
				return false;
			break;
		case 'R':
			common->encoding = fp_cursor_byte(data);
			break;
		case 'S':
			common->is_signal = true;
			break;
		case 'B':
			break;
		default:
			return false;
		}
	}
	return !data->over;
}

// Version 4 tells the size of addresses, and of segment selectors, which x86-64 has not.
static bool read_sizes(struct fp_cursor *body, uint8_t version)
{
	uint8_t address_size, selector_size;

	if (version != 4)
		return true;
	address_size = fp_cursor_byte(body);
	selector_size = fp_cursor_byte(body);
	return address_size == 8 && selector_size == 0;
}

static bool read_common_head(struct fp_cursor *body, struct fp_cfi_common *common,
			     const char **ret_letters)
{
	uint8_t version = fp_cursor_byte(body);
	const uint8_t *letters = body->at;
	const uint8_t *end = memchr(letters, 0, fp_cursor_left(body));
	uint64_t return_register;

	if (!end || (version != 1 && version != 3 && version != 4))
		return false;
	body->at = end + 1;
	if (!read_sizes(body, version))
		return false;
	common->code_factor = fp_cursor_uleb(body);
	common->data_factor = (uint64_t)fp_cursor_sleb(body);
	return_register = version == 1 ? fp_cursor_byte(body) : fp_cursor_uleb(body);
	*ret_letters = (const char *)letters;
	return !body->over && return_register == FP_X86_RETURN;
}

static bool read_common_body(const struct fp_cfi_section *section, struct frame *frame,
			     struct fp_cfi_common *common)
{
	struct fp_cursor data;
	const char *letters;

	if (!frame->is_common || !read_common_head(&frame->body, common, &letters))
		return false;
	data = (struct fp_cursor){ frame->body.at, frame->body.at, false };
	if (letters[0] == 'z') {
		uint64_t size = fp_cursor_uleb(&frame->body);

		data.at = frame->body.at;
		if (!fp_cursor_take(&frame->body, size))
			return false;
		data.end = frame->body.at;
		common->has_sizes = true;
	}
	return read_augmentation(section, letters, &data, common) &&
	       fp_cfi_run_common(section, &frame->body, common);
}

static bool read_common(const struct fp_cfi_section *section, size_t at,
			struct fp_cfi_common *common)
{
	struct frame frame = { .offset_size = 4 };

	*common = (struct fp_cfi_common){ .is_known = true, .at = (uint32_t)at };
	if (at >= section->size || !read_length(section, at, &frame) ||
	    fp_cursor_left(&frame.body) > FP_CFI_COMMON_MAX)
		return false;
	read_id(section, &frame);
	common->offset_size = frame.offset_size;
	common->is_good = read_common_body(section, &frame, common);
	return common->is_good;
}

// In .eh_frame an entry tells how far before its id the common one stands, in .debug_frame where.
static const struct fp_cfi_common *find_common(struct fp_cfi_reader *reader,
					       const struct frame *frame)
{
	const struct fp_cfi_section *section = reader->section;
	uint64_t at = section->is_debug ? frame->id : frame->id_at - frame->id;
	struct fp_cfi_common *common = &reader->cache[at / 4 % FP_CFI_COMMON_CACHED];

	if (at >= section->size)
		return NULL;
	if (!common->is_known || common->at != at)
		read_common(section, at, common);
	return common->is_good && common->offset_size == frame->offset_size ? common : NULL;
}

static bool read_entry(struct fp_cfi_reader *reader, struct frame *frame, struct fp_cfi_entry *ret)
{
	const struct fp_cfi_common *common = find_common(reader, frame);
	struct fp_cursor *body = &frame->body;
	bool is_good = true;

	if (!common)
		return false;
	ret->common = common;
	ret->start = fp_cfi_pointer(body, reader->section, common->encoding, &is_good);
	ret->size = fp_cfi_pointer(body, reader->section, common->encoding & 0x07, &is_good);
	if (common->has_sizes)
		fp_cursor_take(body, fp_cursor_uleb(body));
	ret->program = body->at;
	ret->program_size = fp_cursor_left(body);
	return is_good && !body->over;
}

bool fp_cfi_read(struct fp_cfi_reader *reader, uint32_t at, struct fp_cfi_entry *ret)
{
	struct frame frame;

	if (!read_length(reader->section, at, &frame))
		return false;
	read_id(reader->section, &frame);
	ret->at = at;
	return !frame.is_common && read_entry(reader, &frame, ret);
}

// What the linker of a 64-bit .eh_frame would write there is not agreed upon, so none does.
static bool is_readable(const struct fp_cfi_section *section, const struct frame *frame)
{
	return section->is_debug || frame->offset_size == 4;
}

bool fp_cfi_next(struct fp_cfi_reader *reader, struct fp_cfi_entry *ret)
{
	const struct fp_cfi_section *section = reader->section;

	while (reader->at < section->size) {
		size_t at = reader->at;
		struct frame frame;

		if (!read_length(section, at, &frame)) {
			reader->rejected += section->size - at >= 4; // fewer are padding
			break;
		}
		reader->at = (size_t)(frame.body.end - section->bytes);
		if (frame.body.at == frame.body.end) { // what ends one of several merged sections
			if (section->ends_at_zero)
				break;
			continue;
		}
		read_id(section, &frame);
		ret->at = (uint32_t)at;
		if (frame.is_common)
			continue;
		if (is_readable(section, &frame) && read_entry(reader, &frame, ret)) {
			reader->entries++;
			return true;
		}
		reader->rejected++;
	}
	reader->at = section->size;
	return false;
}
