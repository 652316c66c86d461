// SPDX-License-Identifier: Apache-2.0
// All numbers are little-endian. Layout: docs/spool.md.
#include "spool_file.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

static const uint8_t magic[4] = { 'F', 'P', 'S', '1' }; // the last byte is the version

enum {
	AT_MAGIC = 0,
	AT_PAYLOAD_SIZE = 4,
	AT_PAYLOAD_HASH = 8,
	AT_BATCH_ID = 16,
	AT_SAMPLES = 32,
	AT_START_BOOTTIME = 40,
	AT_START_REALTIME = 48,
	AT_BOOT_TAG = 56,
	AT_HEADER_HASH = 60, // XXH32 of everything before
};

static void put_u32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static void put_u64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t get_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

uint32_t fp_spool_boot_tag(const uint8_t boot_id[16])
{
	return XXH32(boot_id, 16, 0);
}

uint64_t fp_spool_payload_hash(const uint8_t *payload, size_t size)
{
	return XXH64(payload, size, 0);
}

void fp_spool_header_write(const struct fp_spool_header *header,
			   uint8_t ret_bytes[FP_SPOOL_HEADER_SIZE])
{
	memcpy(ret_bytes + AT_MAGIC, magic, sizeof(magic));
	put_u32(ret_bytes + AT_PAYLOAD_SIZE, header->payload_size);
	put_u64(ret_bytes + AT_PAYLOAD_HASH, header->payload_hash);
	memcpy(ret_bytes + AT_BATCH_ID, header->batch_id, FP_BATCH_ID_LEN);
	put_u64(ret_bytes + AT_SAMPLES, header->samples);
	put_u64(ret_bytes + AT_START_BOOTTIME, header->start_boottime_ns);
	put_u64(ret_bytes + AT_START_REALTIME, header->start_realtime_ns);
	put_u32(ret_bytes + AT_BOOT_TAG, header->boot_tag);
	put_u32(ret_bytes + AT_HEADER_HASH, XXH32(ret_bytes, AT_HEADER_HASH, 0));
}

int fp_spool_header_parse(const uint8_t *bytes, size_t size, struct fp_spool_header *ret)
{
	if (size < FP_SPOOL_HEADER_SIZE || memcmp(bytes, magic, 3) != 0)
		return -EBADMSG;
	if (bytes[3] > '1' && bytes[3] <= '9')
		return -EPROTONOSUPPORT;
	if (bytes[3] != magic[3] ||
	    get_u32(bytes + AT_HEADER_HASH) != XXH32(bytes, AT_HEADER_HASH, 0))
		return -EBADMSG;
	*ret = (struct fp_spool_header){
		.payload_size = get_u32(bytes + AT_PAYLOAD_SIZE),
		.payload_hash = get_u64(bytes + AT_PAYLOAD_HASH),
		.samples = get_u64(bytes + AT_SAMPLES),
		.start_boottime_ns = get_u64(bytes + AT_START_BOOTTIME),
		.start_realtime_ns = get_u64(bytes + AT_START_REALTIME),
		.boot_tag = get_u32(bytes + AT_BOOT_TAG),
	};
	memcpy(ret->batch_id, bytes + AT_BATCH_ID, FP_BATCH_ID_LEN);
	return 0;
}
