// SPDX-License-Identifier: Apache-2.0
#include "demangle.h"

#include <libiberty/demangle.h>
#include <string.h>

int fp_demangle(const char *name, struct fp_buf *ret_text)
{
	FP_AUTOFREE char *readable = NULL;

	// Every mangling starts with one of these; asking for each plain C name costs a microsecond.
	if ((name[0] != '_' && name[0] != '.') || strlen(name) > FP_DEMANGLE_INPUT_MAX)
		return fp_buf_str(ret_text, name);
	readable = cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
	if (!readable || !readable[0] || strlen(readable) > FP_DEMANGLE_OUTPUT_MAX)
		return fp_buf_str(ret_text, name);
	return fp_buf_str(ret_text, readable);
}
