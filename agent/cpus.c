// SPDX-License-Identifier: Apache-2.0
#include "cpus.h"

#include "common/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_range(const char **text, struct fp_cpus *cpus)
{
	char *end;
	unsigned long first = strtoul(*text, &end, 10), last = first;

	if (end == *text)
		return -EINVAL;
	if (*end == '-') {
		*text = end + 1;
		last = strtoul(*text, &end, 10);
		if (end == *text)
			return -EINVAL;
	}
	if (last < first || last >= FP_CPUS_MAX)
		return -EINVAL;
	for (unsigned long cpu = first; cpu <= last; cpu++) {
		cpus->count += !cpus->online[cpu];
		cpus->online[cpu] = 1;
		if (cpu > cpus->highest)
			cpus->highest = (uint32_t)cpu;
	}
	*text = end;
	return 0;
}

int fp_cpus_parse(const char *list, struct fp_cpus *ret)
{
	struct fp_cpus *cpus = calloc(1, sizeof(*cpus));
	int error = cpus ? 0 : -ENOMEM;

	while (!error && *list && *list != '\n') {
		error = read_range(&list, cpus);
		if (!error && *list == ',')
			list++;
		else if (!error && *list && *list != '\n')
			error = -EINVAL;
	}
	if (!error && !cpus->count)
		error = -EINVAL;
	if (!error)
		memcpy(ret, cpus, sizeof(*ret));
	free(cpus);
	return error;
}

int fp_cpus_read(struct fp_cpus *ret_cpus)
{
	struct fp_buf text FP_AUTOBUF = {};
	int error = fp_file_read("/sys/devices/system/cpu/online", 65536, &text);

	if (!error)
		error = fp_buf_byte(&text, 0);
	return error ? error : fp_cpus_parse((const char *)text.data, ret_cpus);
}
