// SPDX-License-Identifier: Apache-2.0
//
// unwindtable: an ELF file → the table by which frames of its code are walked (struct
// fp_unwind_table in bpf/abi.h), from .eh_frame and, where that has no entry, .debug_frame; a PLT
// and an entry point that neither describes are known by their instructions. The table is keyed by
// file offset, so that whoever uses it need know nothing of ELF.
//
// Which entry says something of an address, when several could: of those that begin at or before
// it the last one, as in the table that linkers sort for the C++ runtime (.eh_frame_hdr); of those
// that begin at one address the longest, then the last in the section. Where that entry has
// ended there is a gap, even if a longer one reaches further. Entries of address 0, of length 0
// or outside of the executable segments are of functions that the linker has thrown away.
// Stage: the making is done by the symbols role, the checking by the agent.
// Trust: files are foreign, and so are tables for who gets them from the role.
// Ownership: buffers are the caller's. Threads: none shared.
#pragma once

#include "bpf/abi.h"
#include "common/buf.h"
#include "proto/profile.h"

#define FP_UNWIND_TABLE_MAX	 ((size_t)64 << 20) // bytes; libLLVM has 4 MiB
#define FP_UNWIND_TABLE_ROWS_MAX (FP_UNWIND_TABLE_MAX / 8)

// Appends the table of the file to *ret, which is empty. fd: a regular file, stays the caller's.
// build: that the file must be; NULL: any. Errors: -EBADMSG no ELF file or cut short, -ENOENT
// another build, -ENOTSUP not of x86-64, -ENODATA it has no call frame information, -EFBIG too much,
// -ENOMEM, -errno of reading.
int fp_unwind_table_make(int fd, const struct fp_build *build, struct fp_buf *ret);
// The same into a file, from its start. *ret_bytes: as many are written.
int fp_unwind_table_write(int in_fd, const struct fp_build *build, int out_fd, uint64_t *ret_bytes);

struct fp_unwind_view { // of a table's bytes, borrowed
	const struct fp_unwind_table *head;
	const fp_u32 *offsets;
	const fp_u16 *rule_of;
	const struct fp_unwind_rule *rules;
};
// 0 when the bytes, 8-aligned, are one whole table and nothing else: sizes fit, offsets rise
// strictly, rules exist and have no member out of its range, the last row is a gap. Else -EBADMSG.
int fp_unwind_table_check(const void *bytes, size_t size, struct fp_unwind_view *ret_view);
// The rule that holds at a file offset; that of a gap before the first row.
const struct fp_unwind_rule *fp_unwind_view_find(const struct fp_unwind_view *view,
						 uint32_t offset);
