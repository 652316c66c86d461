/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cpu: the CPU sampler. One run per tick of a perf event on each CPU. The kernel stack is
 * taken only when the tick hit the kernel: it is the dearest part. `cpu_tick_twin` runs the
 * same body from a raw tracepoint, so that BPF_PROG_TEST_RUN can reach it.
 */
#include "bpf/sample.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

FP_COUNT_MAP(cpu_counts_0);
FP_COUNT_MAP(cpu_counts_1);
FP_STACK_RING(cpu_stacks);
FP_SCRATCH_MAP(cpu_scratch);
FP_TOTALS_MAP(cpu_totals, 1);

/* Whether the tick hit user code, whose registers are then known. */
static __always_inline bool hit_user_code(const struct bpf_perf_event_data *tick,
					  struct fp_walk *walk, struct fp_user_registers *ret)
{
	if (!tick || (tick->regs.cs & 3) != 3)
		return false;
	walk->ip = tick->regs.ip;
	FP_COPY_REGISTERS(walk->registers, &tick->regs);
	ret->compat = tick->regs.cs == FP_USER32_CS;
	ret->known = true;
	return true;
}

/* tick: the context where it is one of a perf event, else NULL. */
static __always_inline int sample_cpu(void *context, const struct bpf_perf_event_data *tick)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 epoch = fp_epoch & 1, zero = 0, kernel_len = 0, flags;
	struct fp_user_registers registers = {};
	struct fp_totals *totals = bpf_map_lookup_elem(&cpu_totals, &epoch);
	struct fp_scratch *scratch;
	enum fp_outcome outcome;
	struct fp_count *entry;
	struct fp_hash hash;

	if (!totals)
		return 0; /* cannot be: the index is within the array */
	totals->runs++;
	if (!(bpf_get_current_pid_tgid() >> 32))
		return fp_outcome(totals, FP_OUTCOME_IDLE);
	if (fp_tgid && bpf_get_current_pid_tgid() >> 32 != fp_tgid)
		return fp_outcome(totals, FP_OUTCOME_OTHER_PROCESS);
	scratch = bpf_map_lookup_elem(&cpu_scratch, &zero);
	if (!scratch)
		return fp_outcome(totals, FP_OUTCOME_NO_SCRATCH);

	fp_describe_task(&scratch->record, task, &hash);
	flags = task->flags;
	scratch->record.source = FP_SOURCE_CPU;
	scratch->record.state = 0;
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_len = 0;
	scratch->record.kernel_truncated = 0;
	scratch->record.kernel_thread = (flags & PF_KTHREAD) != 0;
	if (!hit_user_code(tick, &scratch->walk, &registers)) {
		kernel_len = fp_take_kernel_stack(context, scratch, &hash);
		if (fp_has_user_side(task, flags))
			fp_saved_registers(task, &scratch->walk, &registers);
	}
	fp_take_user_side(context, scratch, task, &registers, kernel_len, &hash);
	fp_hash_finish(&hash, &scratch->record.key);
	outcome = epoch ? fp_count_add(&cpu_counts_1, &scratch->record, 1, 0, &entry)
			: fp_count_add(&cpu_counts_0, &scratch->record, 1, 0, &entry);
	if (entry)
		fp_announce(&cpu_stacks, scratch, task, entry, totals);
	return fp_outcome(totals, outcome);
}

SEC("perf_event")
int cpu_tick(struct bpf_perf_event_data *context)
{
	return sample_cpu(context, context);
}

SEC("?raw_tp/sys_enter")
int cpu_tick_twin(void *context)
{
	return sample_cpu(context, NULL);
}
