// SPDX-License-Identifier: Apache-2.0
//
// The reference: libdwfl of elfutils, given registers and memory of a stopped thread. Like ours it
// goes by .eh_frame, then .debug_frame of the mapped file itself, then by frame pointer; separate
// debug files are not looked for.
#include "unwindref.h"

#include "common/cleanup.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

struct walk {
	struct ref_chain *chain;
	bool
	    activation[REF_FRAMES_MAX]; // the address is of the next instruction, not behind a call
};

static int no_debug_file(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			 const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *argument, void **ret_thread)
{
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *argument, void **ret_thread)
{
	*ret_thread = argument;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *argument)
{
	const struct ref_process *process = argument;

	return ref_read(&process->stop->memory, ret, sizeof(*ret), address) == 0;
}

// By their DWARF numbers: System V ABI, AMD64 supplement, figure 3.36.
static bool set_registers(Dwfl_Thread *thread, void *argument)
{
	const struct user_regs_struct *from = &((struct ref_process *)argument)->stop->registers;
	const Dwarf_Word registers[] = { from->rax, from->rdx, from->rcx, from->rbx, from->rsi,
					 from->rdi, from->rbp, from->rsp, from->r8,  from->r9,
					 from->r10, from->r11, from->r12, from->r13, from->r14,
					 from->r15, from->rip };

	return dwfl_thread_state_registers(thread, 0, FP_ARRAY_SIZE(registers), registers);
}

int ref_dwfl_open(struct ref_process *process)
{
	static const Dwfl_Callbacks files = { .find_elf = dwfl_linux_proc_find_elf,
					      .find_debuginfo = no_debug_file };
	static const Dwfl_Thread_Callbacks threads = { .next_thread = next_thread,
						       .get_thread = get_thread,
						       .memory_read = read_word,
						       .set_initial_registers = set_registers };

	process->dwfl = dwfl_begin(&files);
	if (process->dwfl == NULL)
		return -ENOMEM;
	if (dwfl_linux_proc_report(process->dwfl, process->pid) != 0 ||
	    dwfl_report_end(process->dwfl, NULL, NULL) != 0)
		return -ESRCH;
	if (!dwfl_attach_state(process->dwfl, NULL, process->pid, &threads, process))
		return -EINVAL;
	return 0;
}

static int take_frame(Dwfl_Frame *frame, void *argument)
{
	struct walk *walk = argument;
	struct ref_chain *chain = walk->chain;
	Dwarf_Addr address;

	if (chain->count == REF_FRAMES_MAX)
		return DWARF_CB_ABORT;
	if (!dwfl_frame_pc(frame, &address, &walk->activation[chain->count]))
		return -1;
	chain->frames[chain->count++] = address;
	return DWARF_CB_OK;
}

// Activations behind the first frame come in pairs, a signal's trampoline and what it interrupted,
// which is told by 1 more than its address; unless the thread stands in the trampoline.
static void mark_interrupted(const struct walk *walk)
{
	for (uint32_t i = 1; i < walk->chain->count; i++) {
		if (!walk->activation[i])
			continue;
		if (i + 1 < walk->chain->count && walk->activation[i + 1])
			i++;
		else if (i > 1)
			continue; // the walk ended in a trampoline
		walk->chain->frames[i]++;
	}
}

static void word_of(const char *message, char *ret, size_t size)
{
	snprintf(ret, size, "%s", message != NULL ? message : "unknown");
	for (char *letter = ret; *letter != '\0'; letter++) {
		if (*letter == ' ')
			*letter = '_';
	}
}

void ref_dwfl_walk(struct ref_process *process, const struct ref_stop *stop, struct ref_chain *ret)
{
	struct walk walk = { .chain = ret };
	int r;

	ret->count = 0;
	process->stop = stop;
	r = dwfl_getthread_frames(process->dwfl, stop->tid, take_frame, &walk);
	if (r == 0)
		word_of("whole", ret->end, sizeof(ret->end));
	else if (r == DWARF_CB_ABORT)
		word_of("depth", ret->end, sizeof(ret->end));
	else
		word_of(dwfl_errmsg(-1), ret->end, sizeof(ret->end));
	mark_interrupted(&walk);
}
