// SPDX-License-Identifier: Apache-2.0
#include "unwindrule.h"

#include <errno.h>
#include <string.h>

// struct ucontext as the kernel puts it below a signal's frame: of its general registers, in the
// order of <sys/ucontext.h>, those that are followed.
#define UCONTEXT_RBP 120
#define UCONTEXT_RBX 128
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

#define RBX_SHIFT 2 // in fp_unwind_rule.saved

struct fp_unwind_rule fp_unwind_rule_cannot(enum fp_unwind_cannot reason)
{
	return (struct fp_unwind_rule){ .cfa = FP_UNWIND_CANNOT, .add = (fp_i32)reason };
}

static bool fits_32(uint64_t value)
{
	return (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX;
}

static bool fits_16(uint64_t value)
{
	return (int64_t)value >= INT16_MIN && (int64_t)value <= INT16_MAX;
}

static bool is_at(const struct fp_cfi_rule *rule, uint64_t offset)
{
	return rule->how == FP_CFI_AT_VALUE && rule->value.kind == FP_VALUE_REGISTER &&
	       rule->value.reg == FP_X86_RSP && rule->value.offset == offset;
}

// The C library describes its signal trampoline register by register.
static struct fp_unwind_rule signal_rule(const struct fp_cfi_state *state)
{
	const struct fp_unwind_value *cfa = &state->cfa;
	uint64_t base = cfa->offset - UCONTEXT_RSP;

	if (cfa->kind != FP_VALUE_MEMORY || cfa->reg != FP_X86_RSP || cfa->add != 0 ||
	    !is_at(&state->ret, base + UCONTEXT_RIP) || !is_at(&state->rbp, base + UCONTEXT_RBP) ||
	    !is_at(&state->rbx, base + UCONTEXT_RBX))
		return fp_unwind_rule_cannot(FP_UNWIND_CANNOT_EXPRESSION);
	if (!fits_32(base))
		return fp_unwind_rule_cannot(FP_UNWIND_CANNOT_RANGE);
	return (struct fp_unwind_rule){ .cfa = FP_UNWIND_SIGNAL,
					.return_reg = FP_UNWIND_RETURN_AT_CFA,
					.offset = (fp_i32)base };
}

static bool set_cfa_register(const struct fp_unwind_value *cfa, struct fp_unwind_rule *rule)
{
	if (cfa->reg > FP_X86_R15)
		return false;
	rule->cfa = cfa->reg == FP_X86_RSP   ? FP_UNWIND_RSP
		    : cfa->reg == FP_X86_RBP ? FP_UNWIND_RBP
					     : FP_UNWIND_REGISTER;
	rule->reg = rule->cfa == FP_UNWIND_REGISTER ? (fp_u8)cfa->reg : 0;
	return true;
}

static bool set_cfa_memory(const struct fp_unwind_value *cfa, struct fp_unwind_rule *rule)
{
	if (cfa->reg != FP_X86_RSP && cfa->reg != FP_X86_RBP)
		return false;
	rule->cfa = cfa->reg == FP_X86_RSP ? FP_UNWIND_RSP_DEREF : FP_UNWIND_RBP_DEREF;
	return true;
}

static bool set_cfa_indexed(const struct fp_unwind_value *cfa, struct fp_unwind_rule *rule)
{
	if (cfa->reg != FP_X86_RSP)
		return false;
	rule->cfa = FP_UNWIND_INDEXED;
	rule->reg = cfa->index;
	return true;
}

// FP_UNWIND_CANNOT_COUNT: it is set.
static enum fp_unwind_cannot set_cfa(const struct fp_unwind_value *cfa, struct fp_unwind_rule *rule)
{
	bool is_followed = true;

	switch (cfa->kind) {
	case FP_VALUE_REGISTER:
		is_followed = set_cfa_register(cfa, rule);
		break;
	case FP_VALUE_MEMORY:
		is_followed = set_cfa_memory(cfa, rule);
		break;
	case FP_VALUE_INDEXED:
		is_followed = set_cfa_indexed(cfa, rule);
		break;
	case FP_VALUE_PLT:
		rule->cfa = FP_UNWIND_PLT;
		break;
	default:
		return FP_UNWIND_CANNOT_EXPRESSION;
	}
	if (!is_followed)
		return FP_UNWIND_CANNOT_REGISTER;
	if (!fits_32(cfa->offset) || !fits_32(cfa->add))
		return FP_UNWIND_CANNOT_RANGE;
	rule->offset = (fp_i32)cfa->offset;
	rule->add = (fp_i32)cfa->add;
	return FP_UNWIND_CANNOT_COUNT;
}

// An address that an expression gives, counted from the CFA. False: it is no such.
static bool from_cfa(const struct fp_cfi_state *state, const struct fp_unwind_value *value,
		     uint64_t *ret_offset)
{
	const struct fp_unwind_value *cfa = &state->cfa;

	if (value->kind != FP_VALUE_REGISTER)
		return false;
	if (value->reg == FP_X86_CFA)
		*ret_offset = value->offset;
	else if (cfa->kind == FP_VALUE_REGISTER && cfa->reg == value->reg)
		*ret_offset = value->offset - cfa->offset;
	else
		return false;
	return true;
}

static bool set_return(const struct fp_cfi_state *state, struct fp_unwind_rule *rule)
{
	const struct fp_cfi_rule *ret = &state->ret;
	uint64_t offset = ret->value.offset;

	rule->return_reg = FP_UNWIND_RETURN_AT_CFA;
	if (ret->how == FP_CFI_IN_REGISTER && ret->value.reg <= FP_X86_R15) {
		rule->return_reg = (fp_u8)ret->value.reg;
		return true;
	}
	if (ret->how == FP_CFI_AT_VALUE)
		return from_cfa(state, &ret->value, &offset) && offset == (uint64_t)-8;
	return ret->how == FP_CFI_AT_CFA && offset == (uint64_t)-8;
}

static bool is_itself(const struct fp_cfi_rule *rule, uint16_t reg)
{
	const struct fp_unwind_value *value = &rule->value;

	switch (rule->how) {
	case FP_CFI_UNSPECIFIED: // of registers that a function keeps for its caller
	case FP_CFI_SAME:
		return true;
	case FP_CFI_IN_REGISTER:
		return value->reg == reg;
	case FP_CFI_IS_VALUE:
		return value->kind == FP_VALUE_REGISTER && value->reg == reg && value->offset == 0;
	default:
		return false;
	}
}

// Where the caller's rbp or rbx is. One that is not to be had costs the walk only what hangs on it.
static enum fp_unwind_saved saved_at(const struct fp_cfi_state *state, uint16_t reg, fp_i16 *ret_at)
{
	const struct fp_cfi_rule *rule = reg == FP_X86_RBP ? &state->rbp : &state->rbx;
	enum fp_unwind_saved where = FP_UNWIND_AT_CFA;
	uint64_t offset = rule->value.offset;

	if (is_itself(rule, reg))
		return FP_UNWIND_SAME;
	if (rule->how == FP_CFI_AT_VALUE) {
		bool is_at_cfa = from_cfa(state, &rule->value, &offset);

		if (!is_at_cfa &&
		    (rule->value.kind != FP_VALUE_REGISTER || rule->value.reg != FP_X86_RBP))
			return FP_UNWIND_LOST;
		where = is_at_cfa ? FP_UNWIND_AT_CFA : FP_UNWIND_AT_RBP;
	} else if (rule->how != FP_CFI_AT_CFA) {
		return FP_UNWIND_LOST;
	}
	if (!fits_16(offset))
		return FP_UNWIND_LOST;
	*ret_at = (fp_i16)offset;
	return where;
}

// The caller's stack pointer is the CFA, unless the entry says otherwise.
static bool is_rsp_cfa(const struct fp_cfi_state *state)
{
	const struct fp_cfi_rule *rsp = &state->rsp;
	uint64_t offset = rsp->value.offset;

	if (rsp->how == FP_CFI_IS_VALUE)
		return from_cfa(state, &rsp->value, &offset) && offset == 0;
	return rsp->how == FP_CFI_UNSPECIFIED || (rsp->how == FP_CFI_CFA_PLUS && offset == 0);
}

struct fp_unwind_rule fp_unwind_rule_of(const struct fp_cfi_state *state, bool is_signal)
{
	struct fp_unwind_rule rule = { 0 };
	enum fp_unwind_cannot cannot;
	unsigned int rbx;

	if (!state)
		return fp_unwind_rule_cannot(FP_UNWIND_CANNOT_MALFORMED);
	if (state->ret.how == FP_CFI_UNDEFINED)
		return (struct fp_unwind_rule){ .cfa = FP_UNWIND_END };
	if (is_signal)
		return signal_rule(state);
	cannot = set_cfa(&state->cfa, &rule);
	if (cannot != FP_UNWIND_CANNOT_COUNT)
		return fp_unwind_rule_cannot(cannot);
	if (!is_rsp_cfa(state))
		return fp_unwind_rule_cannot(FP_UNWIND_CANNOT_REGISTER);
	if (!set_return(state, &rule))
		return fp_unwind_rule_cannot(FP_UNWIND_CANNOT_RETURN_ADDRESS);
	rbx = saved_at(state, FP_X86_RBX, &rule.rbx_at);
	rule.saved = (fp_u8)(saved_at(state, FP_X86_RBP, &rule.rbp_at) | rbx << RBX_SHIFT);
	return rule;
}

// ---- the set ----

static int make_room(struct fp_unwind_rules *set)
{
	uint32_t capacity = set->capacity ? 2 * set->capacity : 64;
	void *grown;

	if (set->count < set->capacity)
		return 0;
	grown = reallocarray(set->rules, capacity, sizeof(*set->rules));
	if (!grown)
		return -ENOMEM;
	set->rules = grown;
	set->capacity = capacity;
	return 0;
}

static int add(struct fp_unwind_rules *set, const struct fp_unwind_rule *rule, uint16_t *ret_number)
{
	uint32_t *number;
	bool is_new;

	if (make_room(set) < 0)
		return -ENOMEM;
	number = fp_hashmap_put(&set->by_rule, rule, &is_new);
	if (!number)
		return -ENOMEM;
	if (is_new) {
		*number = set->count;
		set->rules[set->count++] = *rule;
	}
	set->last = *number;
	*ret_number = (uint16_t)*number;
	return 0;
}

int fp_unwind_rules_init(struct fp_unwind_rules *set)
{
	const struct fp_unwind_rule gap = { .cfa = FP_UNWIND_GAP };
	uint16_t number;

	*set = (struct fp_unwind_rules){
		.by_rule = FP_HASHMAP_INIT(struct fp_unwind_rule, uint32_t),
	};
	return add(set, &gap, &number);
}

void fp_unwind_rules_free(struct fp_unwind_rules *set)
{
	fp_hashmap_free(&set->by_rule);
	fp_free_ptr(&set->rules);
}

// Few entries hang on rbx, but where it is saved multiplies the rules.
static struct fp_unwind_rule without_rbx(const struct fp_unwind_rule *rule)
{
	struct fp_unwind_rule less = *rule;

	if (rule->saved >> RBX_SHIFT != FP_UNWIND_SAME) {
		less.saved = (fp_u8)((rule->saved & 3) | FP_UNWIND_LOST << RBX_SHIFT);
		less.rbx_at = 0;
	}
	return less;
}

int fp_unwind_rules_number(struct fp_unwind_rules *set, const struct fp_unwind_rule *rule,
			   uint16_t *ret_number)
{
	// What is left when rules that tell of rbx are refused: room for as many that do not.
	const size_t nearly_full = FP_UNWIND_TABLE_RULES_MAX / 4 * 3;
	struct fp_unwind_rule less = *rule;

	if (memcmp(rule, &set->rules[set->last], sizeof(*rule)) == 0) {
		*ret_number = (uint16_t)set->last;
		return 0;
	}
	if (set->count >= nearly_full && !fp_hashmap_get(&set->by_rule, rule)) {
		less = without_rbx(rule);
		if (set->count >= FP_UNWIND_TABLE_RULES_MAX - 1 &&
		    !fp_hashmap_get(&set->by_rule, &less))
			less = fp_unwind_rule_cannot(FP_UNWIND_CANNOT_RULES_FULL);
	}
	return add(set, &less, ret_number);
}
