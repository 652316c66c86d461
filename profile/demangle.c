// SPDX-License-Identifier: Apache-2.0
#include "demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#define OPTIONS (DMGL_PARAMS | DMGL_ANSI)

struct output {
	char text[FP_DEMANGLE_OUTPUT_MAX + 1];
	size_t size;
	jmp_buf full;
};

typedef int (*demangler_fn)(const char *mangled, int options, demangle_callbackref callback,
			    void *context);

// Rust first: its older mangling is valid C++ too, with a hash at the end.
static const demangler_fn demanglers[] = { rust_demangle_callback, cplus_demangle_v3_callback };

static void output_add(const char *text, size_t size, void *context)
{
	struct output *output = context;

	// The demanglers cannot be told to stop. They print from the stack, so leaving them
	// loses nothing (but a short buffer when the name is Rust with Punycode in it).
	if (size > FP_DEMANGLE_OUTPUT_MAX - output->size)
		longjmp(output->full, 1);
	memcpy(output->text + output->size, text, size);
	output->size += size;
}

static bool demangle(demangler_fn demangler, const char *name, struct output *output)
{
	output->size = 0;
	if (setjmp(output->full) != 0)
		return false;
	return demangler(name, OPTIONS, output_add, output) && output->size > 0;
}

int fp_demangle(const char *name, struct fp_buf *ret_text)
{
	struct output output;

	// "_Z" and "_R" begin every mangled name; a plain C name need not cost a parse.
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
	    strlen(name) > FP_DEMANGLE_INPUT_MAX)
		return fp_buf_str(ret_text, name);
	for (size_t i = 0; i < FP_ARRAY_SIZE(demanglers); i++) {
		if (demangle(demanglers[i], name, &output))
			return fp_buf_append(ret_text, output.text, output.size);
	}
	return fp_buf_str(ret_text, name);
}
