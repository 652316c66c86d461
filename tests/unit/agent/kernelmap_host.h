// SPDX-License-Identifier: Apache-2.0
//
// kernelmap_host: the kernel's files as another host would show them, in a directory of the
// test: an image, two modules (one without build-ID) and BPF programs.
#pragma once

#include "../cases.h"
#include "../scratch.h"

#include "agent/kernelmap_private.h"

#include <string.h>

#define IMAGE	 0xffffffff81000000u
#define MODULE_A 0xffffffffc0100000u
#define MODULE_B 0xffffffffc0110000u
#define PROGRAM	 0xffffffffc0108000u // within what module A's size says

static const char host_kallsyms[] = "0000000000000000 A fixed_percpu_data\n"
				    "ffffffff81000000 T _stext\n"
				    "ffffffff81000000 T _text\n"
				    "ffffffff81001000 T __pfx___traceiter_sched_exit_tp\n"
				    "ffffffff81001010 T __traceiter_sched_exit_tp\n"
				    "ffffffff81001080 t __pfx___bpf_trace_sched_exit_tp\n"
				    "ffffffff81001090 t __bpf_trace_sched_exit_tp\n"
				    "ffffffff81001100 T bpf_trace_run1\n"
				    "ffffffff81001180 T do_nanosleep\n"
				    "ffffffff81001200 t __schedule\n"
				    "ffffffff81001300 T schedule\n"
				    "ffffffff81001380 T schedule_timeout\n"
				    "ffffffff81001400 W arch_stack_walk\n"
				    "ffffffff81001500 T asm_common_interrupt\n"
				    "ffffffff81001540 T asm_sysvec_apic_timer_interrupt\n"
				    "ffffffff81001580 T asm_exc_page_fault\n"
				    "ffffffff810015c0 T common_interrupt_return\n"
				    "ffffffff81001600 T sysvec_apic_timer_interrupt\n"
				    "ffffffff81001680 T asm_spurious_interrupt\n"
				    "ffffffff810016c0 T hrtimer_wakeup\n"
				    "ffffffff81002000 T _etext\n"
				    "ffffffff81003000 D some_data\n"
				    "ffffffffc0100000 t a_init\t[mod_a]\n"
				    "ffffffffc0100040 T a_run\t[mod_a]\n"
				    "ffffffffc0100030 d a_data\t[mod_a]\n"
				    "ffffffffc0110000 t b_init\t[mod_b]\n"
				    "ffffffffc0108000 t bpf_prog_0123456789abcdef_on_tick\t[bpf]\n"
				    "ffffffffc0108200 t bpf_trampoline_42\t[bpf]\n";

static const char host_modules[] = "mod_a 65536 1 - Live 0xffffffffc0100000\n"
				   "mod_b 4096 0 - Live 0xffffffffc0110000 (OE)\n";

static inline void host_write(const char *name, const void *bytes, size_t size)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", scratch_directory(), name);
	for (char *slash = path + strlen(scratch_directory()) + 1; (slash = strchr(slash, '/'));
	     *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0755);
	}
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static inline void host_write_note(const char *name, uint8_t byte)
{
	uint8_t notes[] = {
		6, 0, 0, 0, 1, 0, 0, 0, 1,  1, 0, 0, 'L', 'i', 'n', 'u', 'x', 0,   0,	0,
		0, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 3,	  0,   0,   0,	 'G', 'N', 'U', 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,	  0,   0,   0,	 0,   0,   0,	0,
	};

	memset(notes + sizeof(notes) - 20, byte, 20);
	host_write(name, notes, sizeof(notes));
}

static inline struct fp_kernel_map *host_map(void)
{
	struct fp_kernel_map *map = NULL;

	host_write("proc/kallsyms", host_kallsyms, strlen(host_kallsyms));
	host_write("proc/modules", host_modules, strlen(host_modules));
	host_write_note("sys/kernel/notes", 0x11);
	host_write_note("sys/module/mod_a/notes/.note.gnu.build-id", 0x22);
	assert_int_equal(fp_kernel_map_new_from(scratch_directory(), &map), 0);
	return map;
}
