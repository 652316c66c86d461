// SPDX-License-Identifier: Apache-2.0
//
// symboltext: symbol tables that are text: the `<hex offset> <name>` lines that agents ship
// for kernels and modules, and /proc/kallsyms of this host. Addresses become offsets from
// _stext, or from a module's load address. Private to profile/.
// Trust: shipped tables are foreign; bad lines are skipped and counted. The kernel's own
// files are trusted, but show zeros to those who may not see addresses.
// Threads: no state.
#pragma once

#include "symboltable.h"

// The name of a line that only says where the function before it ends. Without one a function
// reaches to the next line.
#define FP_SYMBOL_TEXT_GAP "-"

// Adds `<hex offset> <name>` lines. Errors: -ENOMEM, -E2BIG.
int fp_symbol_text(const char *text, size_t size, struct fp_symbol_builder *builder,
		   uint64_t *ret_bad_lines);
// Adds the text symbols (T t W w) of the kernel image from kallsyms text, as offsets from
// _stext. Errors: -EACCES when addresses are hidden, -ENOENT when _stext is not there.
int fp_kallsyms_kernel(const char *text, size_t size, struct fp_symbol_builder *builder);
// Adds those marked `[module]`, as offsets from base.
int fp_kallsyms_module(const char *text, size_t size, const char *module, uint64_t base,
		       struct fp_symbol_builder *builder);
// Load address of the module by the text of /proc/modules. -ENOENT, or -EACCES when hidden.
int fp_modules_base(const char *text, size_t size, const char *module, uint64_t *ret_base);
