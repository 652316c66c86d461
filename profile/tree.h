// SPDX-License-Identifier: Apache-2.0
//
// tree: the prefix tree that every view is drawn from. Stacks go in root first; a node is
// (parent, name, kind). Because it is a real tree, `a;b` and `a.x;b` never split `a`.
// Nodes are topologically ordered: a parent's index is smaller than its children's.
// Values are uint64 in the unit of the profile (samples, or nanoseconds).
// Ownership: the tree owns its nodes and names. Threads: none shared.
#pragma once

#include "common/buf.h"
#include "common/hashmap.h"
#include "common/intern.h"

// How a frame is shown and coloured.
enum fp_node_kind {
	FP_NODE_ROOT,
	FP_NODE_LABEL, // a thread or process name on top of the stack
	FP_NODE_USER,
	FP_NODE_KERNEL,	 // folded text suffix _[k]
	FP_NODE_JIT,	 // _[j]
	FP_NODE_INLINE,	 // _[i]
	FP_NODE_ERROR,	 // an explained exception, e.g. [stack lost]
	FP_NODE_UNKNOWN, // no symbol: module+0xoffset
	FP_NODE_WAIT,	 // off the CPU, blocked: [blocked: interruptible]; see mark.h
	FP_NODE_READY,	 // off the CPU, ready to run: [preempted], [woken]
	FP_NODE_WAKE,	 // [woken by COMM]: the sleeper ends and the waker begins
	FP_NODE_KINDS
};

#define FP_TREE_ROOT 0u

struct fp_node {
	uint32_t parent;
	uint32_t name;	 // in names
	uint32_t module; // in names: file the code is in, "" when unknown
	uint8_t kind;	 // enum fp_node_kind
	uint64_t self;
	uint64_t total;			    // valid after fp_tree_finish
	uint32_t first_child, next_sibling; // UINT32_MAX: none; in byte order of name after finish
};

struct fp_tree {
	struct fp_node *nodes; // nodes[0] is the root
	uint32_t count, capacity;
	struct fp_intern names;
	struct fp_hashmap index; // (parent, name, module, kind) → node
	uint64_t sum;		 // of all values added; the root's total after fp_tree_finish
	bool finished;
};

struct fp_tree_frame { // input of fp_tree_add
	const char *name;
	size_t name_size;
	const char *module; // NUL-terminated or NULL
	enum fp_node_kind kind;
};

int fp_tree_new(struct fp_tree **ret_tree);
void fp_tree_free(struct fp_tree *tree);
static inline void fp_tree_freep(struct fp_tree **tree)
{
	fp_tree_free(*tree);
	*tree = NULL;
}
#define FP_AUTOTREE FP_CLEANUP(fp_tree_freep)
// Adds value to the leaf of the stack (frames root first; count 0 adds to the root itself).
// A value of 0 adds nothing, not even nodes. Errors: -ENOMEM, and -EOVERFLOW when the sum of
// all values would pass UINT64_MAX; the tree keeps what it had.
int fp_tree_add(struct fp_tree *tree, const struct fp_tree_frame *frames, size_t count,
		uint64_t value);
// Computes totals and sorts children by name; adding afterwards clears `finished`.
int fp_tree_finish(struct fp_tree *tree);

// Self and total per function name over the whole tree; recursion counts once (a node whose
// ancestors hold the same name adds nothing to that name's total). Rows are told apart by
// name, module and kind, an inlined copy counting as its function; labels are no functions.
struct fp_function {
	uint32_t name, module;
	uint8_t kind;
	uint64_t self, total;
};
// Sorted by total then self, descending, then by name and module. The tree must be finished.
// *ret_functions is malloc'ed, the caller frees it.
int fp_tree_functions(const struct fp_tree *tree, struct fp_function **ret_functions,
		      size_t *ret_count);
