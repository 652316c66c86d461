// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_host.h"

#include "agent/kernelmap_note.h"
#include "bpf/abi.h"

#include <errno.h>

static struct fp_kernel_map *map;
static struct fp_profile *profile;

static int begin(void **state)
{
	map = host_map();
	return fp_profile_new(&profile);
}

static int end(void **state)
{
	fp_kernel_map_freep(&map);
	fp_profile_freep(&profile);
	return 0;
}

static const struct fp_frame *frame_at(uint64_t address)
{
	uint32_t frame;

	assert_int_equal(fp_kernel_map_frame(map, address, profile, &frame), 0);
	return &profile->frames[frame];
}

static void expect_frame(uint64_t address, enum fp_frame_kind kind, const char *path,
			 uint64_t offset, uint8_t id)
{
	const struct fp_frame *frame = frame_at(address);
	const struct fp_build *build;

	assert_int_equal(frame->kind, kind);
	assert_int_equal(frame->offset, offset);
	build = &profile->builds[frame->build];
	assert_string_equal(fp_profile_str(profile, build->path), path);
	assert_int_equal(build->kind, id ? FP_BUILD_GNU : FP_BUILD_NONE);
	assert_int_equal(build->id_len, id ? 20 : 0);
	assert_int_equal(build->id[0], id);
}

static void expect_name(uint64_t address, enum fp_frame_kind kind, const char *name)
{
	const struct fp_frame *frame = frame_at(address);

	assert_int_equal(frame->kind, kind);
	assert_int_equal(frame->build, FP_NO_BUILD);
	assert_string_equal(fp_profile_str(profile, frame->name), name);
}

static void test_frames(void **state)
{
	expect_frame(IMAGE, FP_FRAME_KERNEL, "[kernel]", 0, 0x11);
	expect_frame(IMAGE + 0x1234, FP_FRAME_KERNEL, "[kernel]", 0x1234, 0x11);
	expect_frame(IMAGE + 0x1fff, FP_FRAME_KERNEL, "[kernel]", 0x1fff, 0x11);
	expect_frame(MODULE_A + 0x44, FP_FRAME_MODULE, "[mod_a]", 0x44, 0x22);
	expect_frame(MODULE_B + 0xfff, FP_FRAME_MODULE, "[mod_b]", 0xfff, 0);
	expect_name(PROGRAM, FP_FRAME_NAMED, "bpf_prog_0123456789abcdef_on_tick");
	expect_name(PROGRAM + 0x1ff, FP_FRAME_NAMED, "bpf_prog_0123456789abcdef_on_tick");
	expect_name(PROGRAM + 0x200, FP_FRAME_NAMED, "bpf_trampoline_42");
	expect_name(IMAGE - 1, FP_FRAME_ERROR, "[kernel address outside any image]");
	expect_name(IMAGE + 0x2000, FP_FRAME_ERROR, "[kernel address outside any image]");
	expect_name(MODULE_B + 0x100000, FP_FRAME_ERROR, "[kernel address outside any image]");
}

static void test_refresh(void **state)
{
	static const char more[] = "mod_c 4096 0 - Live 0xffffffffc0900000\n";
	static const char symbols[] = "ffffffffc0a00000 t bpf_prog_feed_new\t[bpf]\n";

	expect_name(0xffffffffc0900010u, FP_FRAME_ERROR, "[kernel address outside any image]");
	host_write("proc/modules", more, strlen(more));
	host_write("proc/kallsyms", symbols, strlen(symbols));
	host_write_note("sys/module/mod_c/notes/.note.gnu.build-id", 0x33);
	// Not read again within ten seconds of the last time.
	expect_name(0xffffffffc0900010u, FP_FRAME_ERROR, "[kernel address outside any image]");
	map->refreshed_ns -= FP_KERNEL_REFRESH_NS;
	expect_frame(0xffffffffc0900010u, FP_FRAME_MODULE, "[mod_c]", 0x10, 0x33);
	expect_name(0xffffffffc0a00010u, FP_FRAME_NAMED, "bpf_prog_feed_new");
	expect_name(MODULE_A, FP_FRAME_ERROR, "[kernel address outside any image]");
	expect_frame(IMAGE + 5, FP_FRAME_KERNEL, "[kernel]", 5, 0x11); // the image stays
}

static void test_hidden_addresses(void **state)
{
	static const char hidden[] = "0000000000000000 T _stext\n0000000000000000 T _etext\n";

	fp_kernel_map_freep(&map);
	host_write("proc/kallsyms", hidden, strlen(hidden));
	assert_int_equal(fp_kernel_map_new_from(scratch_directory(), &map), 0);
	assert_false(fp_kernel_map_usable(map));
	expect_name(IMAGE, FP_FRAME_ERROR, "[kernel addresses are hidden]");
	assert_int_equal(fp_kernel_map_tables(map, NULL, NULL), -EPERM);
}

static void test_no_modules(void **state)
{
	char path[256];

	fp_kernel_map_freep(&map);
	snprintf(path, sizeof(path), "%s/proc/modules", scratch_directory());
	assert_int_equal(remove(path), 0);
	assert_int_equal(fp_kernel_map_new_from(scratch_directory(), &map), 0);
	assert_true(fp_kernel_map_usable(map));
}

struct skip_case {
	const char *what;
	uint64_t addresses[18];
	uint32_t count, skip;
};

static const struct skip_case skip_cases[] = {
	{ "a stack taken in the returning task's context",
	  { PROGRAM + 0x80, IMAGE + 0x1150, IMAGE + 0x10a0, IMAGE + 0x1030, IMAGE + 0x1250,
	    IMAGE + 0x1310, IMAGE + 0x1190 },
	  7,
	  4 },
	{ "a return address at the very end of the scheduler",
	  { PROGRAM, IMAGE + 0x1300, IMAGE + 0x1190 },
	  3,
	  1 },
	{ "a stack that begins in the scheduler", { IMAGE + 0x1250, IMAGE + 0x1310 }, 2, 0 },
	{ "glue that is not known before the scheduler",
	  { IMAGE + 0x1410, IMAGE + 0x1410, IMAGE + 0x1250, IMAGE + 0x1310 },
	  4,
	  2 },
	{ "machinery without a scheduler",
	  { PROGRAM + 8, PROGRAM + 0x210, IMAGE + 0x1190, IMAGE + 0x1410 },
	  4,
	  2 },
	{ "machinery after other frames", { IMAGE + 0x1190, PROGRAM + 8 }, 2, 0 },
	{ "a scheduler too deep to be the reason",
	  { IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190,
	    IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190,
	    IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190, IMAGE + 0x1190,
	    IMAGE + 0x1190, IMAGE + 0x1250, IMAGE + 0x1310 },
	  18,
	  0 },
	{ "nothing but machinery", { PROGRAM + 8, PROGRAM + 0x210 }, 2, 0 },
	{ "names that only begin alike", { IMAGE + 0x1390, IMAGE + 0x1190 }, 2, 0 },
	{ "no frames", { 0 }, 0, 0 },
};

static void test_skip(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(skip_cases); i++) {
		const struct skip_case *c = &skip_cases[i];

		print_message("  %s\n", c->what);
		assert_int_equal(fp_kernel_map_skip(map, c->addresses, c->count), c->skip);
	}
}

#define DO_NANOSLEEP  (IMAGE + 0x1190)
#define DEVICE_ENTRY  (IMAGE + 0x1510)
#define TIMER_ENTRY   (IMAGE + 0x1560)
#define FAULT_ENTRY   (IMAGE + 0x15a0)
#define TIMER_HANDLER (IMAGE + 0x1640)
#define STRAY_ENTRY   (IMAGE + 0x16a0)
#define TIMER_WAKES   (IMAGE + 0x16d0)

struct interrupt_case {
	const char *what;
	uint64_t addresses[FP_MAX_FRAMES];
	uint32_t count, interrupt;
};

static const struct interrupt_case interrupt_cases[] = {
	{ "a timer while a program runs",
	  { PROGRAM + 8, TIMER_WAKES, TIMER_HANDLER, TIMER_ENTRY },
	  4,
	  4 },
	{ "a timer while the kernel works for a program",
	  { PROGRAM + 8, TIMER_WAKES, TIMER_HANDLER, TIMER_ENTRY, DO_NANOSLEEP, IMAGE + 0x1250 },
	  6,
	  4 },
	{ "a device", { PROGRAM + 8, TIMER_WAKES, DEVICE_ENTRY, DO_NANOSLEEP }, 4, 3 },
	{ "a stray one", { PROGRAM + 8, TIMER_WAKES, STRAY_ENTRY, DO_NANOSLEEP }, 4, 3 },
	{ "a device that interrupts what a timer left to do: the inner one wakes",
	  { TIMER_WAKES, DEVICE_ENTRY, TIMER_HANDLER, TIMER_ENTRY, DO_NANOSLEEP },
	  5,
	  2 },
	{ "a program's own page fault", { TIMER_WAKES, FAULT_ENTRY, DO_NANOSLEEP }, 3, 0 },
	{ "a page fault below an interrupt",
	  { TIMER_WAKES, TIMER_ENTRY, FAULT_ENTRY, DO_NANOSLEEP },
	  4,
	  2 },
	{ "a system call", { PROGRAM + 8, TIMER_WAKES, DO_NANOSLEEP }, 3, 0 },
	{ "a handler's function is not the entry", { TIMER_WAKES, TIMER_HANDLER }, 2, 0 },
	{ "a name that only ends alike", { TIMER_WAKES, IMAGE + 0x15d0 }, 2, 0 },
	{ "a call that is the entry's last instruction",
	  { TIMER_WAKES, IMAGE + 0x1540, DO_NANOSLEEP },
	  3,
	  2 },
	{ "a call that ends the function before the entry",
	  { TIMER_WAKES, IMAGE + 0x1500, DO_NANOSLEEP },
	  3,
	  0 },
	{ "the entry is the last frame that there is room for",
	  { [0 ... FP_MAX_FRAMES - 2] = TIMER_WAKES, [FP_MAX_FRAMES - 1] = TIMER_ENTRY },
	  FP_MAX_FRAMES,
	  FP_MAX_FRAMES },
	{ "one frame", { TIMER_ENTRY }, 1, 0 }, // who looks stands above it
	{ "no frames", { 0 }, 0, 0 },
};

static void test_interrupt(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(interrupt_cases); i++) {
		const struct interrupt_case *c = &interrupt_cases[i];

		print_message("  %s\n", c->what);
		assert_int_equal(fp_kernel_map_interrupt(map, c->addresses, c->count),
				 c->interrupt);
	}
}

static const char image_table[] = "0 _stext\n0 _text\n"
				  "1010 __traceiter_sched_exit_tp\n"
				  "1090 __bpf_trace_sched_exit_tp\n"
				  "1100 bpf_trace_run1\n"
				  "1180 do_nanosleep\n"
				  "1200 __schedule\n"
				  "1300 schedule\n"
				  "1380 schedule_timeout\n"
				  "1400 arch_stack_walk\n"
				  "1500 asm_common_interrupt\n"
				  "1540 asm_sysvec_apic_timer_interrupt\n"
				  "1580 asm_exc_page_fault\n"
				  "15c0 common_interrupt_return\n"
				  "1600 sysvec_apic_timer_interrupt\n"
				  "1680 asm_spurious_interrupt\n"
				  "16c0 hrtimer_wakeup\n";
static const char module_table[] = "0 a_init\n40 a_run\n";

// The image comes first; the module without a build-ID to be found by does not come.
static int on_table(const char *module, const uint8_t *id, size_t id_len, const char *text,
		    size_t size, void *context)
{
	const char *expected = module ? module_table : image_table;
	int *calls = context;

	if (module)
		assert_string_equal(module, "mod_a");
	assert_int_equal(*calls, module ? 1 : 0);
	assert_int_equal(id_len, 20);
	assert_int_equal(id[0], module ? 0x22 : 0x11);
	assert_int_equal(size, strlen(expected));
	assert_memory_equal(text, expected, size);
	++*calls;
	return 0;
}

static void test_tables(void **state)
{
	int calls = 0;

	assert_int_equal(fp_kernel_map_tables(map, on_table, &calls), 0);
	assert_int_equal(calls, 2);
}

static int refuse_table(const char *module, const uint8_t *id, size_t id_len, const char *text,
			size_t size, void *context)
{
	++*(int *)context;
	return -EIO;
}

static void test_table_refused(void **state)
{
	int calls = 0;

	assert_int_equal(fp_kernel_map_tables(map, refuse_table, &calls), -EIO);
	assert_int_equal(calls, 1);
}

// Whether the image's table has schedule().
static int find_schedule(const char *module, const uint8_t *id, size_t id_len, const char *text,
			 size_t size, void *context)
{
	static const char line[] = " schedule\n";

	if (!module)
		*(bool *)context = memmem(text, size, line, strlen(line)) != NULL;
	return 0;
}

static void test_broken_notes(void **state)
{
	static const uint8_t notes[] = { 4, 0, 0,   0,	 4,   0, 0, 0, 3, 0,
					 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4 };
	uint8_t huge[sizeof(notes)], id[32] = { 0 };
	size_t len = 0;

	assert_int_equal(fp_note_build_id(notes, sizeof(notes), id, sizeof(id), &len), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(id, "\1\2\3\4", 4);
	for (size_t size = 0; size < sizeof(notes); size++) {
		FP_AUTOFREE uint8_t *cut = malloc(size ? size : 1);

		memcpy(cut, notes, size);
		assert_int_equal(fp_note_build_id(cut, size, id, sizeof(id), &len), -ENOENT);
	}
	assert_int_equal(fp_note_build_id(notes, sizeof(notes), id, 3, &len), -ENOENT);
	for (size_t field = 0; field < 8; field += 4) {
		memcpy(huge, notes, sizeof(notes));
		memset(huge + field, 0xff, 4);
		assert_int_equal(fp_note_build_id(huge, sizeof(huge), id, sizeof(id), &len),
				 -ENOENT);
	}
}

// The kernel that the test runs on, if it shows its addresses.
static void test_this_kernel(void **state)
{
	struct fp_kernel_map *own = NULL;
	bool has_schedule = false;
	uint64_t stack[3];
	size_t id_len, entries = 0;

	assert_int_equal(fp_kernel_map_new(&own), 0);
	if (fp_kernel_map_usable(own)) {
		assert_non_null(fp_kernel_map_build_id(own, &id_len));
		assert_int_equal(id_len, 20);
		assert_int_equal(fp_kernel_map_tables(own, find_schedule, &has_schedule), 0);
		assert_true(has_schedule);
		assert_true(own->ranges_count > 10);
		for (size_t i = 0; i < own->ranges_count; i++) {
			assert_true(own->ranges[i].start < own->ranges[i].end);
			assert_true(i == 0 || own->ranges[i - 1].end <= own->ranges[i].start);
			entries += own->ranges[i].part == FP_KERNEL_INTERRUPT;
			if (own->ranges[i].part == FP_KERNEL_SCHEDULER)
				stack[1] = own->ranges[i].start + 1;
			else
				stack[0] = own->ranges[i].start + 1;
		}
		stack[2] = own->text_start;
		assert_int_equal(fp_kernel_map_skip(own, stack, 3), 1);
#if defined(__x86_64__)
		assert_true(entries > 2); // of devices, stray ones, and those that have names
#endif
	} else {
		print_message("  kallsyms shows no addresses here\n");
	}
	fp_kernel_map_free(own);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("an address becomes an offset in its image, module or program", test_frames),
		CASE("an unknown address has modules and programs read again, not too often",
		     test_refresh),
		CASE("hidden addresses are said to be hidden", test_hidden_addresses),
		CASE("a kernel without modules has no list of them", test_no_modules),
		CASE("tracing machinery is left out of an off-CPU stack", test_skip),
		CASE("the frames of an interrupt end at its entry, and nobody else's do",
		     test_interrupt),
		CASE("image and modules with a build-ID have tables of offsets, without padding",
		     test_tables),
		CASE("who refuses a table gets no more", test_table_refused),
		CASE("a build-ID note is never read beyond its bytes", test_broken_notes),
		CASE("the running kernel can be read", test_this_kernel),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
