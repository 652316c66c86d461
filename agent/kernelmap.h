// SPDX-License-Identifier: Apache-2.0
//
// kernelmap: where the kernel and its modules lie in memory, so that a kernel address
// becomes (build-ID, offset) and never leaves the host as an address. From
// /proc/kallsyms (_stext, _etext and, for trimming and BPF program names, symbols),
// /sys/kernel/notes, /proc/modules and /sys/module/M/notes/.note.gnu.build-id.
// Threads: one owner.
#pragma once

#include "proto/profile.h"

struct fp_kernel_map;
int fp_kernel_map_new(struct fp_kernel_map **ret);
void fp_kernel_map_free(struct fp_kernel_map *map);
static inline void fp_kernel_map_freep(struct fp_kernel_map **map)
{
	fp_kernel_map_free(*map);
	*map = NULL;
}
// False when kallsyms shows only zeros (no CAP_SYSLOG, kptr_restrict): no offsets then.
bool fp_kernel_map_usable(const struct fp_kernel_map *map);
const uint8_t *fp_kernel_map_build_id(const struct fp_kernel_map *map, size_t *ret_len);
// Fills frame (and adds builds/strings to the profile). Kernel text, module, BPF program
// (named), else an ERROR frame "[kernel address outside any image]".
int fp_kernel_map_frame(struct fp_kernel_map *map, uint64_t address, struct fp_profile *profile,
			uint32_t *ret_frame);
// Number of leading frames (leaf first) that belong to the tracing machinery of an off-CPU
// stack (BPF program, trampoline, tracepoint glue), to be left out.
uint32_t fp_kernel_map_skip(const struct fp_kernel_map *map, const uint64_t *addresses,
			    uint32_t count);
// Number of frames (leaf first) of an interrupt's handler, its entry the last of them; 0: no
// interrupt. The frames after it are of what was interrupted.
uint32_t fp_kernel_map_interrupt(const struct fp_kernel_map *map, const uint64_t *addresses,
				 uint32_t count);
// The symbol tables of the kernel image and of its modules, as far as they have a build-ID, as the
// collector wants them (profile/symbols.h: `<hex offset from the start> <name>` lines), text symbols
// only. module is NULL for the image, which comes first. One reading of kallsyms, some 100 ms. What
// fn returns below 0 ends it and is returned. -EPERM: the map is not usable. -ENOENT: the image has no
// build-ID.
typedef int (*fp_kernel_table_fn)(const char *module, const uint8_t *id, size_t id_len,
				  const char *text, size_t size, void *context);
int fp_kernel_map_tables(const struct fp_kernel_map *map, fp_kernel_table_fn fn, void *context);
