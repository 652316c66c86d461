// SPDX-License-Identifier: Apache-2.0
//
// replay: runs a fuzz target once over every file of the directories named on the command
// line, so that builds without libFuzzer keep what fuzzing has found. Exit code 1 when a
// corpus is missing or empty: a replay of nothing would prove nothing.
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
	struct stat info;
	FILE *file = fopen(path, "rb");
	// At the exact size, so that reading one byte too far is seen by the sanitizer.
	uint8_t *bytes = NULL;
	int result = -1;

	if (file && fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode)) {
		size_t size = (size_t)info.st_size;

		bytes = malloc(size ? size : 1);
		if (bytes && fread(bytes, 1, size, file) == size) {
			LLVMFuzzerTestOneInput(bytes, size);
			result = 0;
		}
	}
	if (file)
		fclose(file);
	free(bytes);
	return result;
}

static int replay_directory(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int replayed = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (replay_file(name) == 0)
			replayed++;
		else
			fprintf(stderr, "cannot read '%s'\n", name);
	}
	closedir(directory);
	return replayed;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int replayed = replay_directory(argv[i]);

		printf("%s: %d inputs\n", argv[i], replayed);
		if (replayed == 0)
			return 1;
	}
	return argc > 1 ? 0 : 1;
}
