// SPDX-License-Identifier: Apache-2.0
// Source of the encoding: the Protocol Buffers encoding guide (varints, tags, wire types).
#include "wirescan.h"
#include "fleetprof.pb-c.h"

#include <errno.h>

#define FIELDS_MAX 512 // our encoder writes at most 82; the rest is room for later fields

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct scan {
	const struct fp_batch_limits *limits;
	uint32_t fields;
	const char *reason;
};

struct cursor {
	const uint8_t *at, *end;
};

struct field {
	uint32_t number;
	uint32_t wire_type;
	struct cursor content; // of WIRE_BYTES
};

// Which limit holds for which column; columns of one table have one limit.
#define COLUMN(message, limit)                                                                     \
	{                                                                                          \
		&fleetprof__v1__##message##__descriptor, 0,                                        \
		    offsetof(struct fp_batch_limits, limit)                                        \
	}
#define ONE_COLUMN(message, number, limit)                                                         \
	{                                                                                          \
		&fleetprof__v1__##message##__descriptor, number,                                   \
		    offsetof(struct fp_batch_limits, limit)                                        \
	}
static const struct {
	const ProtobufCMessageDescriptor *message;
	uint32_t number; // 0: all that have no row of their own
	size_t limit;
} column_limits[] = {
	ONE_COLUMN(stacks, 2, stack_frames),
	ONE_COLUMN(label_sets, 1, labels),
	ONE_COLUMN(quality, 4, counters),
	ONE_COLUMN(quality, 8, stops),
	ONE_COLUMN(quality, 9, stops),
	ONE_COLUMN(quality, 10, stops),
	COLUMN(strings, strings),
	COLUMN(builds, builds),
	COLUMN(frames, frames),
	COLUMN(stacks, stacks),
	COLUMN(label_sets, label_pool),
	COLUMN(samples, samples),
	COLUMN(quality, builds),
};

static int refuse(struct scan *scan, int error, const char *reason)
{
	scan->reason = reason;
	return error;
}

static uint32_t column_limit(const struct scan *scan, const ProtobufCMessageDescriptor *message,
			     uint32_t number)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(column_limits); i++)
		if (column_limits[i].message == message &&
		    (!column_limits[i].number || column_limits[i].number == number))
			return *(const uint32_t *)((const char *)scan->limits +
						   column_limits[i].limit);
	return 0;
}

static bool read_varint(struct cursor *cursor, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

static bool skip(struct cursor *cursor, uint64_t size)
{
	if (size > (uint64_t)(cursor->end - cursor->at))
		return false;
	cursor->at += size;
	return true;
}

static bool read_field(struct cursor *cursor, struct field *ret)
{
	uint64_t tag, value;

	if (!read_varint(cursor, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
		return false;
	ret->number = (uint32_t)(tag >> 3);
	ret->wire_type = tag & 7;
	switch (ret->wire_type) {
	case WIRE_VARINT:
		return read_varint(cursor, &value);
	case WIRE_FIXED64:
		return skip(cursor, 8);
	case WIRE_FIXED32:
		return skip(cursor, 4);
	case WIRE_BYTES:
		if (!read_varint(cursor, &value))
			return false;
		ret->content.at = cursor->at;
		if (!skip(cursor, value))
			return false;
		ret->content.end = cursor->at;
		return true;
	default: // groups are not part of proto3
		return false;
	}
}

static int check_column(struct scan *scan, const ProtobufCMessageDescriptor *message,
			const struct field *field)
{
	uint64_t elements = 0;

	if (field->wire_type != WIRE_BYTES)
		return refuse(scan, -EBADMSG, "a column is not packed");
	for (const uint8_t *at = field->content.at; at < field->content.end; at++)
		elements += !(*at & 0x80);
	if (elements > column_limit(scan, message, field->number))
		return refuse(scan, -EMSGSIZE, "a table has more entries than its limit");
	return 0;
}

// The fields of one message, which nests no deeper than `depth` more levels.
static int scan_message(struct scan *scan, const ProtobufCMessageDescriptor *message,
			struct cursor cursor, unsigned int depth)
{
	uint64_t seen = 0;
	struct field field;

	while (cursor.at < cursor.end) {
		const ProtobufCFieldDescriptor *known;
		bool repeated, nested;
		int error = 0;

		if (!read_field(&cursor, &field))
			return refuse(scan, -EBADMSG, "not a protocol buffers message");
		if (++scan->fields > FIELDS_MAX)
			return refuse(scan, -EMSGSIZE, "the message has too many fields");
		known = protobuf_c_message_descriptor_get_field(message, field.number);
		if (!known || field.number >= 64)
			continue;
		repeated = known->label == PROTOBUF_C_LABEL_REPEATED;
		nested = known->type == PROTOBUF_C_TYPE_MESSAGE;
		if (seen & 1ULL << field.number && !(repeated && nested))
			return refuse(scan, -EBADMSG, "a field stands twice");
		seen |= 1ULL << field.number;
		if (nested && (field.wire_type != WIRE_BYTES || !depth))
			return refuse(scan, -EBADMSG, "a table is not a message");
		if (nested)
			error = scan_message(scan, known->descriptor, field.content, depth - 1);
		else if (repeated)
			error = check_column(scan, message, &field);
		if (error)
			return error;
	}
	return 0;
}

int fp_wire_scan(const uint8_t *bytes, size_t size, const struct fp_batch_limits *limits,
		 const char **ret_reason)
{
	struct scan scan = { .limits = limits };
	struct cursor cursor = { bytes, bytes + size };
	int error = scan_message(&scan, &fleetprof__v1__batch__descriptor, cursor, 1);

	if (error)
		*ret_reason = scan.reason;
	return error;
}
