// SPDX-License-Identifier: Apache-2.0
//
// symbolize: names of places, by the symbolizer that agentctl and the collector use. Reads
// lines `<build-ID in hex> <file offset in hex> <1: leaf, 0: return address> <path>` and
// prints a line for each: the function's name, or `-`.
#include "profile/symbols.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_to_bytes(const char *text, struct fp_build *build)
{
	for (; text[0] != '\0' && text[1] != '\0'; text += 2) {
		unsigned int byte;

		if (build->id_len == FP_BUILD_ID_MAX || sscanf(text, "%2x", &byte) != 1)
			return -1;
		build->id[build->id_len++] = (uint8_t)byte;
	}
	return 0;
}

static const char *name_of(struct fp_symbolizer *symbolizer, const char *line)
{
	struct fp_build build = { .kind = FP_BUILD_GNU };
	char id[2 * FP_BUILD_ID_MAX + 1], path[4096];
	uint64_t offset;
	int is_leaf;

	if (sscanf(line, "%64s %" SCNx64 " %d %4095[^\n]", id, &offset, &is_leaf, path) != 4 ||
	    hex_to_bytes(id, &build) != 0) {
		fprintf(stderr, "not understood: %s", line);
		exit(1);
	}
	return fp_symbolizer_lookup(symbolizer, &build, path, FP_FRAME_FILE, offset, is_leaf);
}

int main(void)
{
	struct fp_symbolizer_options options = { .use_local_files = true };
	struct fp_symbolizer *symbolizer;
	char line[8192];

	if (fp_symbolizer_new(&options, &symbolizer) != 0)
		return 1;
	while (fgets(line, sizeof(line), stdin) != NULL) {
		const char *name = name_of(symbolizer, line);

		puts(name ? name : "-");
	}
	fp_symbolizer_free(symbolizer);
	return 0;
}
