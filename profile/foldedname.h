// SPDX-License-Identifier: Apache-2.0
//
// foldedname: one frame's name as it stands in folded text, both ways: the suffix that tells
// the kind, and the \xNN escapes. Encoding and decoding live side by side here because each
// must undo the other. Private to profile/.
// Trust: names are foreign bytes of any content.
// Threads: no state.
#pragma once

#include "tree.h"

// The kind that the text of a frame tells, by suffix or by form; *size loses the suffix.
enum fp_node_kind fp_folded_name_kind(const char *text, size_t *size);
// Appends the name with its escapes undone; never longer than the text.
int fp_folded_name_decode(const char *text, size_t size, struct fp_buf *ret_name);
// Appends the frame's name as folded text, with escapes and suffix. is_leaf: a value follows.
int fp_folded_name_encode(const struct fp_tree_frame *frame, bool is_leaf, struct fp_buf *ret_text);
// Whether the name reads `module+0x<hex>`: code nobody has a name for.
bool fp_name_is_offset(const char *name, size_t size);
