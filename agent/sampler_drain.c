// SPDX-License-Identifier: Apache-2.0
//
// What the kernel counted, epoch by epoch, and what the next epoch's intervals are kept by.
#include "sampler_state.h"

#include "common/clock.h"
#include "fleetprof_bpf.skel.h"
#include "quantum.h"

#include <errno.h>

#define SLICES_PER_S (FP_NS_PER_S / FP_BRAKE_SLICE_NS)
// Of the budget; the rest is for what is blocked when a window closes (sampler_visit.c).
#define SHARE_OF_RETURNS 0.8

struct counting { // sums over what the caller is handed
	struct fp_epoch *epoch;
	fp_count_fn fn;
	void *context;
};

static int count_entry(enum fp_source source, const struct fp_key *key,
		       const struct fp_count *count, void *context)
{
	struct counting *counting = context;

	if (source >= FP_SOURCE_COUNT)
		return -EBADMSG; // our own program wrote it: a bug, not bad input
	counting->epoch->drained_count[source] += count->count;
	counting->epoch->drained_value[source] += count->value;
	counting->epoch->entries[source]++;
	return counting->fn(source, key, count, counting->context);
}

static int drain_maps(struct fp_sampler *sampler, uint32_t set, struct counting *counting)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	const struct bpf_map *cpu = set ? skeleton->maps.cpu_counts_1 : skeleton->maps.cpu_counts_0;
	const struct bpf_map *off =
	    set ? skeleton->maps.offcpu_counts_1 : skeleton->maps.offcpu_counts_0;
	int error = fp_count_map_drain(bpf_map__fd(cpu), &sampler->space, count_entry, counting);

	if (!error)
		error =
		    fp_count_map_drain(bpf_map__fd(off), &sampler->space, count_entry, counting);
	return error;
}

static int take_totals(struct fp_sampler *sampler, uint32_t set, struct fp_epoch *epoch)
{
	int cpu_fd = bpf_map__fd(sampler->skeleton->maps.cpu_totals);
	int offcpu_fd = bpf_map__fd(sampler->skeleton->maps.offcpu_totals);
	uint32_t rows = FP_PROGRAM_COUNT - FP_PROGRAM_SWITCH_OUT;
	int error = fp_totals_take(cpu_fd, set, &epoch->totals[FP_PROGRAM_CPU]);

	for (uint32_t row = 0; row < rows && !error; row++)
		error = fp_totals_take(offcpu_fd, set * rows + row,
				       &epoch->totals[FP_PROGRAM_SWITCH_OUT + row]);
	for (uint32_t row = 0; row < FP_DURATIONS_ROWS && !error; row++)
		error = fp_durations_take(bpf_map__fd(sampler->skeleton->maps.offcpu_durations),
					  set * FP_DURATIONS_ROWS + row, &epoch->durations[row]);
	return error;
}

static void set_control(volatile struct fp_offcpu_control *control, volatile struct fp_brake *brake,
			uint64_t quantum_ns, uint64_t weight)
{
	control->quantum_ns = quantum_ns;
	control->weight = weight;
	brake->level = 0;
	brake->quantum_ns = 0;
	brake->quantum_max_ns = quantum_ns;
	brake->weight_max = weight;
}

void fp_sampler_control_start(struct fp_sampler *sampler)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	uint64_t fixed_ns = sampler->config.quantum_ns;
	uint64_t quantum_ns = fixed_ns ? fixed_ns : FP_QUANTUM_LEAST;
	// A fixed quantum is what it says: the brake never comes in.
	uint64_t walks = fixed_ns ? UINT64_MAX : fp_sampler_walk_budget(sampler) / SLICES_PER_S;

	skeleton->data->fp_control.slice_walks = walks ? walks : 1;
	skeleton->data->fp_waker_control.slice_walks = walks ? walks : 1;
	set_control(&skeleton->data->fp_control, &skeleton->bss->fp_brake, quantum_ns, 1);
	set_control(&skeleton->data->fp_waker_control, &skeleton->bss->fp_waker_brake, quantum_ns,
		    1);
}

uint64_t fp_sampler_quantum(const struct fp_sampler *sampler, uint64_t *ret_weight)
{
	*ret_weight = sampler->skeleton->data->fp_control.weight;
	return sampler->skeleton->data->fp_control.quantum_ns;
}

// What the scheduler tells is in one map, whatever its source.
uint32_t fp_epoch_entries(const struct fp_epoch *epoch)
{
	uint32_t away = 0;

	for (int source = FP_SOURCE_OFFCPU; source < FP_SOURCE_COUNT; source++)
		away += epoch->entries[source];
	return away > epoch->entries[FP_SOURCE_CPU] ? away : epoch->entries[FP_SOURCE_CPU];
}

static struct fp_durations returned_durations(const struct fp_epoch *epoch)
{
	struct fp_durations sum = epoch->durations[FP_DURATIONS_BLOCKED];

	fp_durations_add(&sum, &epoch->durations[FP_DURATIONS_READY]);
	return sum;
}

// The epoch is over: quantum and weight of the one that has begun.
static void control_next(struct fp_sampler *sampler, struct fp_epoch *epoch)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	volatile struct fp_offcpu_control *control = &skeleton->data->fp_control;
	uint64_t elapsed_ns = epoch->end_monotonic_ns - epoch->start_monotonic_ns;
	uint32_t walks = (uint32_t)(fp_sampler_walk_budget(sampler) * SHARE_OF_RETURNS);
	struct fp_durations durations = returned_durations(epoch);
	uint64_t quantum_ns, waker_ns, weight;

	epoch->quantum_min_ns = control->quantum_ns;
	epoch->quantum_max_ns = skeleton->bss->fp_brake.quantum_max_ns;
	epoch->weight_max = skeleton->bss->fp_brake.weight_max;
	epoch->waker_quantum_min_ns = skeleton->data->fp_waker_control.quantum_ns;
	epoch->waker_quantum_max_ns = skeleton->bss->fp_waker_brake.quantum_max_ns;
	if (sampler->config.quantum_ns || !sampler->config.off_cpu || elapsed_ns == 0)
		return;
	walks = walks ? walks : 1;
	quantum_ns = fp_quantum_next(control->quantum_ns, &durations, elapsed_ns, walks);
	waker_ns = fp_quantum_next(skeleton->data->fp_waker_control.quantum_ns,
				   &epoch->durations[FP_DURATIONS_BLOCKED], elapsed_ns, walks);
	weight = fp_weight_next(control->weight,
				epoch->totals[FP_PROGRAM_SWITCH_OUT].outcomes[FP_OUTCOME_NOTED],
				elapsed_ns, walks);
	if (sampler->hook != FP_HOOK_WAY_OUT)
		weight = 1;
	set_control(control, &skeleton->bss->fp_brake, quantum_ns, weight);
	set_control(&skeleton->data->fp_waker_control, &skeleton->bss->fp_waker_brake, waker_ns, 1);
}

int fp_sampler_drain(struct fp_sampler *sampler, fp_record_fn record_fn, fp_count_fn count_fn,
		     void *context, struct fp_epoch *ret_epoch)
{
	fp_u32 *live = &sampler->skeleton->bss->fp_epoch;
	uint32_t set = *live & 1;
	struct fp_epoch epoch = { .start_monotonic_ns = sampler->epoch_start_ns,
				  .index = sampler->epochs };
	struct counting counting = { &epoch, count_fn, context };
	int error;

	__atomic_store_n(live, set ^ 1, __ATOMIC_SEQ_CST);
	epoch.end_monotonic_ns = fp_monotonic_ns();
	error = fp_epoch_settle();
	if (!error)
		error = fp_sampler_read_stacks(sampler, record_fn, context);
	if (!error)
		error = take_totals(sampler, set, &epoch);
	if (!error)
		error = drain_maps(sampler, set, &counting);
	if (error)
		return error;
	epoch.cut_missed = sampler->cut_missed;
	sampler->cut_missed = 0;
	control_next(sampler, &epoch);
	sampler->epoch_start_ns = epoch.end_monotonic_ns;
	sampler->epochs++;
	*ret_epoch = epoch;
	return 0;
}
