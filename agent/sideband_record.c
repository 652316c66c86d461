// SPDX-License-Identifier: Apache-2.0
#include "sideband_record.h"

#include <string.h>

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, page_offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t build_id_size, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t protection, flags;
	char name[];
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[];
};

struct task_record { // FORK and EXIT
	struct perf_event_header header;
	uint32_t pid, parent_pid, tid, parent_tid;
	uint64_t time_ns;
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

#define SAMPLE_ID_SIZE 16

// The name that ends the record's body, if it is terminated before the sample_id.
static const char *record_name(const struct perf_event_header *record, size_t offset)
{
	const char *name = (const char *)record + offset;
	size_t end = record->size - SAMPLE_ID_SIZE;

	if (offset >= end || !memchr(name, '\0', end - offset))
		return NULL;
	return name;
}

static int parse_mmap(const struct perf_event_header *record, struct fp_event *event)
{
	const struct mmap2_record *mmap = (const void *)record;
	const char *name = record_name(record, offsetof(struct mmap2_record, name));

	if (!name || mmap->length == 0 || mmap->address + mmap->length < mmap->address)
		return 0;
	event->kind = FP_EVENT_MMAP;
	event->tgid = mmap->pid;
	event->tid = mmap->tid;
	event->start = mmap->address;
	event->length = mmap->length;
	event->page_offset = mmap->page_offset;
	event->protection = mmap->protection;
	event->flags = mmap->flags;
	event->name = name;
	if (record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		if (mmap->build_id_size <= sizeof(event->build_id))
			event->build_id_len = mmap->build_id_size;
		memcpy(event->build_id, mmap->build_id, event->build_id_len);
	} else {
		event->major = mmap->major;
		event->minor = mmap->minor;
		event->inode = mmap->inode;
	}
	return 1;
}

static int parse_comm(const struct perf_event_header *record, struct fp_event *event)
{
	const struct comm_record *comm = (const void *)record;
	const char *name = record_name(record, offsetof(struct comm_record, name));

	if (!name)
		return 0;
	event->kind = record->misc & PERF_RECORD_MISC_COMM_EXEC ? FP_EVENT_EXEC : FP_EVENT_COMM;
	event->tgid = comm->pid;
	event->tid = comm->tid;
	event->name = name;
	return 1;
}

static int parse_task(const struct perf_event_header *record, struct fp_event *event)
{
	const struct task_record *task = (const void *)record;

	if (record->size < sizeof(*task) + SAMPLE_ID_SIZE)
		return 0;
	event->kind = record->type == PERF_RECORD_FORK ? FP_EVENT_FORK : FP_EVENT_EXIT;
	event->tgid = task->pid;
	event->tid = task->tid;
	event->parent_tgid = task->parent_pid;
	return 1;
}

int fp_sideband_record_parse(const struct perf_event_header *record, struct fp_event *ret,
			     uint64_t *lost)
{
	struct fp_event event = { 0 };
	int r = 0;

	if (record->size < FP_SIDEBAND_RECORD_MIN)
		return 0;
	event.time_ns = fp_sideband_record_time(record);
	switch (record->type) {
	case PERF_RECORD_MMAP2:
		r = parse_mmap(record, &event);
		break;
	case PERF_RECORD_COMM:
		r = parse_comm(record, &event);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		r = parse_task(record, &event);
		break;
	case PERF_RECORD_LOST:
		if (record->size >= sizeof(struct lost_record) + SAMPLE_ID_SIZE)
			*lost += ((const struct lost_record *)record)->lost;
		break;
	default:
		break;
	}
	// 0 and -1 stand for tasks that our PID namespace does not show.
	if (r == 0 || event.tgid == 0 || event.tgid == UINT32_MAX)
		return 0;
	*ret = event;
	return 1;
}
