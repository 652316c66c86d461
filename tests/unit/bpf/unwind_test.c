// SPDX-License-Identifier: Apache-2.0
//
// The steps by table of bpf/unwind.h over a made-up stack: what every kind of rule leads to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwindsteps.h"

static void a_frame_by_stack_pointer_leads_to_its_caller(void **state)
{
	uint64_t leaf = function(RSP(24)), middle = function(RSP(8)), start = function(OUTERMOST);

	map_table();
	put(2, middle + 9); // behind leaf's 16 bytes of locals
	put(3, start + 33);
	walk_from(leaf + 4);
	assert_int_equal(steps(), 2);
	assert_true(frames[0] == leaf + 4);
	assert_true(frames[1] == middle + 9);
	assert_true(frames[2] == start + 33);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_int_equal(walk.by_table, 2);
	assert_int_equal(walk.version, 1);
	assert_true(walk.registers[FP_RSP] == AT(4));
	assert_int_equal(walk.last_frame, 0);
}

static void a_frame_by_frame_pointer_gives_the_callers(void **state)
{
	uint64_t leaf = function(FRAMED), middle = function(FRAMED), start = function(OUTERMOST);

	map_table();
	put(4, AT(10)); // rbp of middle
	put(5, middle + 1);
	put(10, 0x1234); // rbp of start, which is no frame pointer
	put(11, start + 1);
	walk_from(leaf + 8);
	walk.registers[FP_RBP] = AT(4);
	assert_int_equal(steps(), 2);
	assert_true(frames[2] == start + 1);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_true(walk.registers[FP_RBP] == 0x1234);
	assert_int_equal(model.reads, 2); // a pair each
}

static void a_saved_frame_pointer_is_read_when_it_is_needed(void **state)
{
	uint64_t leaf = function(rbp_saved(RSP(32), FP_UNWIND_AT_CFA, -24));
	uint64_t middle = function(RSP(16)), framed = function(RBP(16));
	uint64_t start = function(OUTERMOST);

	map_table();
	put(1, AT(20)); // CFA is AT(4)
	put(3, middle + 1);
	put(5, framed + 1);
	put(21, start + 1);
	walk_from(leaf + 20);
	walk.registers[FP_RBP] = 0xdead;
	assert_int_equal(steps(), 3);
	assert_true(frames[3] == start + 1);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_int_equal(model.reads, 4); // three return addresses, one rbp
}

static void a_register_that_was_saved_twice_is_the_last_one(void **state)
{
	uint64_t leaf = function(PUSHED_RBP(16)), middle = function(PUSHED_RBP(16));
	uint64_t framed = function(RBP(16)), start = function(OUTERMOST);

	map_table();
	put(0, 0xbad);
	put(1, middle + 1);
	put(2, AT(10));
	put(3, framed + 1);
	put(11, start + 1);
	walk_from(leaf + 1);
	assert_int_equal(steps(), 3);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
}

// The leaf and its caller both find their frame by the register, two words apart.
static void walk_by_register(uint8_t number)
{
	struct fp_unwind_rule near = rule_of(FP_UNWIND_REGISTER, -8, 0);
	struct fp_unwind_rule far = rule_of(FP_UNWIND_REGISTER, 8, 0);
	uint64_t leaf, caller, start;

	near.reg = far.reg = number;
	leaf = function(near);
	caller = function(far);
	start = function(OUTERMOST);
	map_table();
	put(6, caller + 1);
	put(8, start + 1);
	walk_from(leaf + 1);
	walk.registers[number] = AT(8);
}

static void registers_serve_where_what_was_called_leaves_them_alone(void **state)
{
	walk_by_register(FP_RAX);
	assert_int_equal(steps(), 2);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
}

static void those_that_are_kept_somewhere_serve_in_the_innermost_frame_alone(void **state)
{
	walk_by_register(12);
	assert_int_equal(steps(), 1);
	assert_int_equal(walk.end, FP_WALK_END_CANNOT);
	assert_int_equal(walk.cannot, FP_UNWIND_CANNOT_REGISTER);
}

static void rbx_is_followed_from_frame_to_frame(void **state)
{
	struct fp_unwind_rule by_rbx = rule_of(FP_UNWIND_REGISTER, 16, 0);
	uint64_t leaf = function(rbx_saved(RSP(24), FP_UNWIND_AT_CFA, -24)), middle, start;

	by_rbx.reg = FP_RBX;
	middle = function(by_rbx);
	start = function(OUTERMOST);
	map_table();
	put(0, AT(9));
	put(2, middle + 1);
	put(10, start + 1);
	walk_from(leaf + 1);
	assert_int_equal(steps(), 2);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_true(walk.registers[FP_RSP] == AT(11));
}

static void realigned_stacks_have_their_frame_address_in_memory(void **state)
{
	// push -8(%r10); push %rbp; mov %rsp,%rbp; push %r10: CFA is *(rbp - 8)
	struct fp_unwind_rule realigned =
	    rbp_saved(rule_of(FP_UNWIND_RBP_DEREF, -8, 0), FP_UNWIND_AT_RBP, 0);
	uint64_t leaf = function(realigned), middle = function(RBP(16));
	uint64_t by_rsp = function(rule_of(FP_UNWIND_RSP_DEREF, 16, 8));
	uint64_t start = function(OUTERMOST);

	map_table();
	put(3, AT(10)); // the frame address
	put(4, AT(14)); // rbp of middle, at rbp
	put(9, middle + 1);
	put(15, by_rsp + 1);
	put(18, AT(29)); // at rsp + 16 of by_rsp
	put(29, start + 1);
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = AT(4);
	assert_int_equal(steps(), 3);
	assert_true(frames[1] == middle + 1);
	assert_true(frames[2] == by_rsp + 1);
	assert_true(frames[3] == start + 1);
	assert_true(walk.registers[FP_RSP] == AT(30));
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
}

static void a_frame_address_may_lie_at_an_index_in_the_innermost_frame(void **state)
{
	struct fp_unwind_rule indexed = rule_of(FP_UNWIND_INDEXED, 8, 16);
	uint64_t leaf, start;

	indexed.reg = FP_R9;
	leaf = function(indexed);
	start = function(OUTERMOST);
	map_table();
	put(6, AT(10)); // at rsp + 8 * 5 + 8
	put(11, start + 1);
	walk_from(leaf + 1);
	walk.registers[FP_R9] = 5;
	assert_int_equal(steps(), 1);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_true(walk.registers[FP_RSP] == AT(12));
}

static void an_entry_of_the_procedure_linkage_table_pushes_at_its_end(void **state)
{
	uint64_t plt = function(rule_of(FP_UNWIND_PLT, 8, 11)), start = function(OUTERMOST);

	map_table();
	put(0, start + 1);
	put(1, start + 2);
	for (uint32_t in = 0; in < 32; in++) {
		walk_from(plt + in);
		assert_int_equal(steps(), 1);
		assert_true(frames[1] == start + (in % 16 >= 11 ? 2 : 1));
	}
}

static void a_return_address_may_be_in_a_register(void **state)
{
	struct fp_unwind_rule in_rdi = RSP(0);
	uint64_t vfork, start;

	in_rdi.return_reg = FP_RDI;
	vfork = function(in_rdi);
	start = function(OUTERMOST);
	map_table();
	walk_from(vfork + 1);
	walk.registers[FP_RDI] = start + 1;
	assert_int_equal(steps(), 1);
	assert_true(frames[1] == start + 1);
	assert_true(walk.registers[FP_RSP] == AT(0)); // it was popped
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	put(0, vfork + 1);
}

// What the handler's frame interrupted is at the very beginning of a function: looked up there,
// not one byte before.
static void a_signals_frame_leads_to_what_it_interrupted(void **state)
{
	struct fp_unwind_rule by_r12 = rule_of(FP_UNWIND_REGISTER, 8, 0);
	uint64_t handler = function(RSP(8)), restorer = function(rule_of(FP_UNWIND_SIGNAL, 0, 0));
	struct fp_signal_context context = { .rsp = AT(2), .rbp = 77, .r12 = AT(100) };
	uint64_t interrupted, start;

	by_r12.reg = FP_R12; // all registers are there again
	interrupted = function(by_r12);
	start = function(OUTERMOST);
	map_table();
	context.rip = interrupted;
	put(40, restorer); // the handler returns to its first byte: looked up before it
	memcpy(model.memory + 41 * 8 + FP_SIGNAL_CONTEXT_AT, &context, sizeof(context));
	put(100, start + 1);
	walk_from(handler + 1);
	walk.registers[FP_RSP] = AT(40);
	put(40, restorer + 1);
	assert_int_equal(steps(), 3);
	assert_true(frames[1] == restorer + 1);
	assert_true(frames[2] == interrupted + 1); // as a return address would be
	assert_true(frames[3] == start + 1);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_true(walk.registers[FP_RBP] == 77);
	assert_int_equal(walk.by_table, 3);
}

static void a_call_at_the_end_of_a_function_is_looked_up_there(void **state)
{
	uint64_t leaf = function(RSP(8)), noreturn = function(RSP(16)), other = function(RSP(800));
	uint64_t start = function(OUTERMOST);

	map_table();
	put(0, other); // behind the last byte of noreturn
	put(2, start + 1);
	walk_from(leaf + 1);
	assert_int_equal(steps(), 2);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_true(noreturn + 256 == other);
}

static void code_without_an_entry_is_walked_by_frame_pointer(void **state)
{
	uint64_t leaf = function(FRAMED), gap = function((struct fp_unwind_rule){ 0 });
	uint64_t start = function(OUTERMOST);

	map_table();
	put(2, AT(6));
	put(3, gap + 1);
	put(6, AT(10));
	put(7, JIT + 1);
	put(10, AT(14));
	put(11, leaf + 1);
	put(14, 0);
	put(15, start + 1);
	walk_from(leaf + 9);
	walk.registers[FP_RBP] = AT(2);
	assert_int_equal(steps(), 4);
	assert_true(frames[1] == gap + 1);
	assert_true(frames[2] == JIT + 1);
	assert_true(frames[3] == leaf + 1);
	assert_true(frames[4] == start + 1);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
	assert_int_equal(walk.by_table, 2);
}

static void a_process_without_ranges_is_walked_by_frame_pointer(void **state)
{
	uint64_t leaf = function(RSP(8));

	map_table();
	put(2, 0);
	put(3, leaf + 1);
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = AT(2);
	walk.exec_id = MODEL_EXEC_ID + 1;
	assert_int_equal(steps(), 1);
	assert_int_equal(walk.end, FP_WALK_END_ROOT);
	assert_int_equal(walk.version, 0);
	assert_int_equal(walk.by_table, 0);
	assert_true(walk.last_frame == AT(2));
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = AT(2);
	walk.start_boottime_ns = MODEL_BOOTTIME + 1;
	assert_int_equal(steps(), 1);
	assert_int_equal(walk.version, 0);
}

static void an_entry_that_changes_while_it_is_read_is_not_used(void **state)
{
	uint64_t leaf = function(RSP(8)), start = function(OUTERMOST);

	map_table();
	put(0, start + 1);
	model.change_at_barrier = true;
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = 0;
	assert_int_equal(steps(), 0);
	assert_int_equal(walk.version, 0);
	assert_int_equal(walk.end, FP_WALK_END_ROOT);
}

static void a_range_of_a_table_that_is_gone_finds_nothing(void **state)
{
	uint64_t leaf = function(RSP(8)), start = function(OUTERMOST);

	map_table();
	put(0, start + 1);
	model.space.pages[0] =
	    FP_UNWIND_PAGE(0, 0, model.space.row_count, TAG + 1); // another's by now
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = 8;
	assert_int_equal(steps(), 0);
	assert_int_equal(walk.end, FP_WALK_END_NO_TABLE);
	model.space.pages[0] = 0;
	walk_from(leaf + 1);
	walk.registers[FP_RBP] = 8;
	assert_int_equal(steps(), 0);
	assert_int_equal(walk.end, FP_WALK_END_NO_TABLE);
}

// In the innermost frame the stack may just have been switched; the caller's may be below.
static void the_innermost_frame_may_lead_down_once(void **state)
{
	uint64_t leaf = function(RBP(16)), middle = function(RSP(8)), start = function(OUTERMOST);

	map_table();
	put(1, middle + 1);
	put(2, start + 1);
	walk_from(leaf + 1);
	walk.registers[FP_RSP] = AT(50);
	walk.registers[FP_RBP] = AT(0);
	assert_int_equal(steps(), 2);
	assert_int_equal(walk.end, FP_WALK_END_OUTERMOST);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_frame_by_stack_pointer_leads_to_its_caller),
		CASE(a_frame_by_frame_pointer_gives_the_callers),
		CASE(a_saved_frame_pointer_is_read_when_it_is_needed),
		CASE(a_register_that_was_saved_twice_is_the_last_one),
		CASE(registers_serve_where_what_was_called_leaves_them_alone),
		CASE(those_that_are_kept_somewhere_serve_in_the_innermost_frame_alone),
		CASE(rbx_is_followed_from_frame_to_frame),
		CASE(realigned_stacks_have_their_frame_address_in_memory),
		CASE(a_frame_address_may_lie_at_an_index_in_the_innermost_frame),
		CASE(an_entry_of_the_procedure_linkage_table_pushes_at_its_end),
		CASE(a_return_address_may_be_in_a_register),
		CASE(a_signals_frame_leads_to_what_it_interrupted),
		CASE(a_call_at_the_end_of_a_function_is_looked_up_there),
		CASE(code_without_an_entry_is_walked_by_frame_pointer),
		CASE(a_process_without_ranges_is_walked_by_frame_pointer),
		CASE(an_entry_that_changes_while_it_is_read_is_not_used),
		CASE(a_range_of_a_table_that_is_gone_finds_nothing),
		CASE(the_innermost_frame_may_lead_down_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
