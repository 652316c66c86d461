// SPDX-License-Identifier: Apache-2.0
//
// scratch: a private directory for one test program, removed at the end.
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char scratch_path[64];

static inline int scratch_remove_entry(const char *path, const struct stat *info, int type,
				       struct FTW *where)
{
	return remove(path);
}

static inline void scratch_remove(void)
{
	if (scratch_path[0])
		nftw(scratch_path, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	scratch_path[0] = '\0';
}

// The path of the directory, made at the first call.
static inline const char *scratch_directory(void)
{
	if (!scratch_path[0]) {
		snprintf(scratch_path, sizeof(scratch_path), "/tmp/fleetprof-test.XXXXXX");
		if (!mkdtemp(scratch_path))
			abort();
		atexit(scratch_remove);
	}
	return scratch_path;
}
