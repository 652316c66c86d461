// SPDX-License-Identifier: Apache-2.0
//
// The programs of entries (DWARF 5, 6.4.2 and 7.24): a state that instructions change, and
// addresses at which it is handed out.
#include "unwindcfi_private.h"

#include <dwarf.h>

#define GNU_MIPS_ADVANCE_LOC8 0x1d // as gas and gcc write it on any machine

struct run {
	struct fp_cursor code;
	const struct fp_cfi_section *section;
	const struct fp_cfi_common *common;
	const struct fp_cfi_state *initial; // NULL in a common entry's own program
	struct fp_cfi_state state;
	struct fp_cfi_state remembered[FP_CFI_REMEMBERED];
	size_t depth;
	uint64_t address, end; // end: of the entry
	bool is_bad;
	bool is_given; // the state has been handed out as it is
	fp_cfi_state_fn take;
	void *context;
};

static struct fp_cfi_rule *rule_of(struct fp_cfi_state *state, uint64_t reg)
{
	switch (reg) {
	case FP_X86_RBX:
		return &state->rbx;
	case FP_X86_RBP:
		return &state->rbp;
	case FP_X86_RSP:
		return &state->rsp;
	case FP_X86_RETURN:
		return &state->ret;
	default:
		return NULL; // not followed
	}
}

static void set_rule(struct run *run, uint64_t reg, enum fp_cfi_how how, uint64_t offset)
{
	struct fp_cfi_rule *rule = rule_of(&run->state, reg);

	if (!rule)
		return;
	*rule = (struct fp_cfi_rule){ .how = (uint8_t)how, .value = { .offset = offset } };
	run->is_given = false;
}

static void set_in_register(struct run *run, uint64_t reg, uint64_t other)
{
	struct fp_cfi_rule *rule = rule_of(&run->state, reg);

	if (!rule)
		return;
	*rule = (struct fp_cfi_rule){
		.how = FP_CFI_IN_REGISTER,
		.value = { .reg = (uint16_t)(other > FP_X86_RETURN ? FP_X86_CFA : other) }
	};
	run->is_given = false;
}

static void set_expression(struct run *run, uint64_t reg, enum fp_cfi_how how)
{
	uint64_t size = fp_cursor_uleb(&run->code);
	const uint8_t *bytes = fp_cursor_take(&run->code, size);
	struct fp_cfi_rule *rule = rule_of(&run->state, reg);

	if (!rule || !bytes)
		return;
	*rule = (struct fp_cfi_rule){ .how = (uint8_t)how,
				      .value = fp_unwind_expression(bytes, (size_t)size, true) };
	run->is_given = false;
}

// As the common entry left it, which a common entry cannot ask for.
static void restore_rule(struct run *run, uint64_t reg)
{
	struct fp_cfi_rule *rule = rule_of(&run->state, reg);

	if (!run->initial)
		run->is_bad = true;
	else if (rule)
		*rule = *rule_of((struct fp_cfi_state *)run->initial, reg);
	run->is_given = false;
}

static void set_cfa(struct run *run, uint64_t reg, uint64_t offset)
{
	run->state.cfa =
	    (struct fp_unwind_value){ .kind = FP_VALUE_REGISTER,
				      .reg = (uint16_t)(reg > FP_X86_RETURN ? FP_X86_CFA : reg),
				      .offset = offset };
	run->state.cfa_by_register = true;
	run->is_given = false;
}

// Half of a definition needs the other half.
static void set_cfa_register(struct run *run, uint64_t reg)
{
	if (run->state.cfa_by_register)
		set_cfa(run, reg, run->state.cfa.offset);
	else
		run->is_bad = true;
}

static void set_cfa_offset(struct run *run, uint64_t offset)
{
	if (run->state.cfa_by_register)
		set_cfa(run, run->state.cfa.reg, offset);
	else
		run->is_bad = true;
}

static void set_cfa_expression(struct run *run)
{
	uint64_t size = fp_cursor_uleb(&run->code);
	const uint8_t *bytes = fp_cursor_take(&run->code, size);

	if (!bytes)
		return;
	run->state.cfa = fp_unwind_expression(bytes, (size_t)size, false);
	run->state.cfa_by_register = false;
	run->is_given = false;
}

static void remember(struct run *run)
{
	if (run->depth < FP_CFI_REMEMBERED)
		run->remembered[run->depth++] = run->state;
	else
		run->is_bad = true;
}

static void recall(struct run *run)
{
	if (run->depth > 0)
		run->state = run->remembered[--run->depth];
	else
		run->is_bad = true;
	run->is_given = false;
}

static int give(struct run *run)
{
	if (run->is_given || !run->take)
		return 0;
	run->is_given = true;
	return run->take(run->context, run->address, &run->state);
}

static int advance(struct run *run, uint64_t delta)
{
	int r = delta > 0 ? give(run) : 0;

	if (!run->initial) // a common entry stands for no address
		run->is_bad = true;
	if (run->is_bad)
		return r;
	run->address = delta < run->end - run->address ? run->address + delta : run->end;
	return r;
}

static int advance_units(struct run *run, uint64_t units)
{
	uint64_t delta;

	if (__builtin_mul_overflow(units, run->common->code_factor, &delta))
		delta = UINT64_MAX;
	return advance(run, delta);
}

static int set_address(struct run *run)
{
	bool is_good = true;
	uint64_t address =
	    fp_cfi_pointer(&run->code, run->section, run->common->encoding, &is_good);

	if (is_good && !run->code.over && address >= run->address)
		return advance(run, address - run->address);
	run->is_bad = true;
	return 0;
}

static uint64_t factored(struct run *run)
{
	return fp_cursor_uleb(&run->code) * run->common->data_factor;
}

static uint64_t factored_signed(struct run *run)
{
	return (uint64_t)fp_cursor_sleb(&run->code) * run->common->data_factor;
}

static int step_address(struct run *run, uint8_t op)
{
	switch (op) {
	case DW_CFA_set_loc:
		return set_address(run);
	case DW_CFA_advance_loc1:
		return advance_units(run, fp_cursor_unsigned(&run->code, 1));
	case DW_CFA_advance_loc2:
		return advance_units(run, fp_cursor_unsigned(&run->code, 2));
	case DW_CFA_advance_loc4:
		return advance_units(run, fp_cursor_unsigned(&run->code, 4));
	default:
		return advance_units(run, fp_cursor_unsigned(&run->code, 8));
	}
}

static void step_cfa(struct run *run, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = fp_cursor_uleb(&run->code);
		set_cfa(run, reg, fp_cursor_uleb(&run->code));
		break;
	case DW_CFA_def_cfa_sf:
		reg = fp_cursor_uleb(&run->code);
		set_cfa(run, reg, factored_signed(run));
		break;
	case DW_CFA_def_cfa_register:
		set_cfa_register(run, fp_cursor_uleb(&run->code));
		break;
	case DW_CFA_def_cfa_offset:
		set_cfa_offset(run, fp_cursor_uleb(&run->code));
		break;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa_offset(run, factored_signed(run));
		break;
	default:
		set_cfa_expression(run);
	}
}

static void step_register(struct run *run, uint8_t op)
{
	uint64_t reg = fp_cursor_uleb(&run->code);

	switch (op) {
	case DW_CFA_offset_extended:
		set_rule(run, reg, FP_CFI_AT_CFA, factored(run));
		break;
	case DW_CFA_offset_extended_sf:
		set_rule(run, reg, FP_CFI_AT_CFA, factored_signed(run));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		set_rule(run, reg, FP_CFI_AT_CFA, -factored(run));
		break;
	case DW_CFA_val_offset:
		set_rule(run, reg, FP_CFI_CFA_PLUS, factored(run));
		break;
	case DW_CFA_val_offset_sf:
		set_rule(run, reg, FP_CFI_CFA_PLUS, factored_signed(run));
		break;
	case DW_CFA_restore_extended:
		restore_rule(run, reg);
		break;
	case DW_CFA_undefined:
		set_rule(run, reg, FP_CFI_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_rule(run, reg, FP_CFI_SAME, 0);
		break;
	case DW_CFA_register:
		set_in_register(run, reg, fp_cursor_uleb(&run->code));
		break;
	case DW_CFA_expression:
		set_expression(run, reg, FP_CFI_AT_VALUE);
		break;
	default:
		set_expression(run, reg, FP_CFI_IS_VALUE);
	}
}

static int step_extended(struct run *run, uint8_t op)
{
	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_set_loc:
	case DW_CFA_advance_loc1:
	case DW_CFA_advance_loc2:
	case DW_CFA_advance_loc4:
	case GNU_MIPS_ADVANCE_LOC8:
		return step_address(run, op);
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		step_cfa(run, op);
		break;
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		step_register(run, op);
		break;
	case DW_CFA_remember_state:
		remember(run);
		break;
	case DW_CFA_restore_state:
		recall(run);
		break;
	case DW_CFA_GNU_args_size: // for exceptions: what the caller has pushed
		fp_cursor_uleb(&run->code);
		break;
	default:
		run->is_bad = true;
	}
	return 0;
}

static int step(struct run *run)
{
	uint8_t op = fp_cursor_byte(&run->code);

	switch (op & 0xc0) { // three have an operand in the low bits
	case DW_CFA_advance_loc:
		return advance_units(run, op & 0x3f);
	case DW_CFA_offset:
		set_rule(run, op & 0x3f, FP_CFI_AT_CFA, factored(run));
		return 0;
	case DW_CFA_restore:
		restore_rule(run, op & 0x3f);
		return 0;
	default:
		return step_extended(run, op);
	}
}

bool fp_cfi_run_common(const struct fp_cfi_section *section, const struct fp_cursor *program,
		       struct fp_cfi_common *common)
{
	struct run run = { .code = *program, .section = section, .common = common };

	while (run.code.at < run.code.end && !run.is_bad && !run.code.over)
		step(&run);
	common->initial = run.state;
	return !run.is_bad && !run.code.over;
}

int fp_cfi_run(const struct fp_cfi_reader *reader, const struct fp_cfi_entry *entry,
	       fp_cfi_state_fn take, void *context)
{
	struct run run = { .code = { entry->program, entry->program + entry->program_size, false },
			   .section = reader->section,
			   .common = entry->common,
			   .initial = &entry->common->initial,
			   .state = entry->common->initial,
			   .address = entry->start,
			   .end = entry->start + entry->size,
			   .take = take,
			   .context = context };
	int r = 0;

	if (run.end < run.address)
		run.end = UINT64_MAX;
	while (r == 0 && run.code.at < run.code.end && run.address < run.end) {
		r = step(&run);
		if (run.is_bad || run.code.over)
			return r ? r : take(context, run.address, NULL);
	}
	return r == 0 && run.address < run.end ? give(&run) : r;
}
