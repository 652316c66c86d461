// SPDX-License-Identifier: Apache-2.0
//
// unwind_sections: .eh_frame and .debug_frame made by hand, for tests of what becomes of them: a
// file whose code lies at address 0x401000, offset 0x1000, and is 256 KiB long.
#pragma once

#include "agent/unwindtable_private.h"

#define SECTIONS_ADDRESS   0x401000ULL
#define SECTIONS_OFFSET	   0x1000u
#define SECTIONS_CODE_SIZE 0x40000u
#define SECTIONS_MAX	   (2u << 20)

enum sections_which { SECTIONS_EH, SECTIONS_DEBUG };

struct sections {
	uint8_t bytes[2][SECTIONS_MAX];
	size_t size[2];
	size_t common[2]; // where the last common entry begins
	bool by_zero;	  // .eh_frame ends at an entry of length 0
	bool is_go;
	struct fp_unwind_code plt, entry, crt[FP_UNWIND_CRT_FUNCTIONS];
};

// A common entry as compilers write it: factors 1 and -8, CFA = rsp + 8, return address at
// CFA - 8, absolute addresses; then the program given. letters: the augmentation.
void sections_common(struct sections *sections, enum sections_which which, const char *letters,
		     const uint8_t *program, size_t size);
// An entry of the common one made last.
void sections_entry(struct sections *sections, enum sections_which which, uint64_t start,
		    uint64_t length, const uint8_t *program, size_t size);
// Any bytes.
void sections_put(struct sections *sections, enum sections_which which, const void *bytes,
		  size_t size);
// On the heap: they are large.
struct sections *sections_new(void);
static inline void sections_freep(struct sections **sections)
{
	fp_free_ptr(sections);
}
#define AUTOSECTIONS FP_CLEANUP(sections_freep)
// Makes the table, and checks it when there is one.
int sections_table(const struct sections *sections, struct fp_buf *ret_table,
		   struct fp_unwind_view *ret_view);
// An entry whose one rule is CFA = rsp + cfa.
void sections_plain(struct sections *sections, enum sections_which which, uint64_t start,
		    uint64_t length, uint8_t cfa);
// The rows as text: "0:8 10:16 20:-" is CFA = rsp + 8 from the code's start on, rsp + 16 from 0x10
// on, a gap from 0x20 on. "e": the outermost frame; "!": cannot.
const char *sections_text(const struct fp_unwind_view *view); // static storage
void sections_assert(const struct sections *sections, const char *rows);
