// SPDX-License-Identifier: Apache-2.0
#include "symboltable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fp_symbol_table_free(struct fp_symbol_table *table)
{
	if (!table)
		return;
	free(table->starts);
	free(table->sizes);
	free(table->names);
	free(table->shown);
	free(table->pool);
	free(table->segments);
	free(table);
}

uint32_t fp_symbol_table_find(const struct fp_symbol_table *table, uint64_t address)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->starts[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - table->starts[low - 1] >= table->sizes[low - 1])
		return UINT32_MAX;
	return low - 1;
}

bool fp_symbol_table_address(const struct fp_symbol_table *table, uint64_t offset,
			     uint64_t *ret_address)
{
	if (table->segments_count == 0) {
		*ret_address = offset;
		return true;
	}
	for (uint32_t i = 0; i < table->segments_count; i++) {
		const struct fp_symbol_segment *segment = &table->segments[i];

		if (offset >= segment->offset && offset - segment->offset < segment->size) {
			*ret_address = segment->address + (offset - segment->offset);
			return true;
		}
	}
	return false;
}

size_t fp_symbol_table_bytes(const struct fp_symbol_table *table)
{
	return sizeof(*table) + table->pool_size +
	       table->count * (sizeof(*table->starts) + sizeof(*table->sizes) +
			       sizeof(*table->names) + sizeof(*table->shown)) +
	       table->segments_count * sizeof(*table->segments);
}
