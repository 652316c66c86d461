// SPDX-License-Identifier: Apache-2.0
//
// The walk of a program that nobody has written ranges for: which files are mapped is read from the
// kernel's own tree of mappings (bpf/vma.h). Files are known by what the kernel says of them, so
// this test does as the agent does: it looks what lies where a file was met.
#include <sys/stat.h>

#include "own_stack.h"

#define MAPS_MAX 30000
#define PAGE	 4096u

static uint32_t learnt;

static int begin(void **state)
{
	backtrace(reference, FRAMES_MAX); // its library is mapped with the first call
	load(FP_DEFAULT_USER_FRAMES, false);
	learnt = 0;
	return 0;
}

static int end(void **state)
{
	unload();
	return 0;
}

// What is mapped at the place where it was met has to be as it was met.
static void check_met(const struct fp_unwind_file_key *key, const struct fp_unwind_met *met,
		      const struct kernel_space_place *place)
{
	struct stat info;

	assert_int_equal(place->path[0], '/');
	assert_int_equal(met->offset, met->address - place->start + place->offset);
	assert_int_equal(met->tgid, getpid());
	assert_int_equal(met->exec_id, last->exec_id);
	assert_int_equal(met->start_boottime_ns, last->start_boottime_ns);
	assert_int_equal(met->start_ns, last->start_ns);
	assert_int_equal(key->inode, place->inode);
	assert_int_equal(stat(place->path, &info), 0);
	assert_int_equal(key->changed,
			 (uint64_t)info.st_ctim.tv_sec << 30 | (uint64_t)info.st_ctim.tv_nsec);
}

// What the programs have met since is known from here on. How many they were.
static uint32_t learn(void)
{
	struct kernel_space_place place = { 0 };
	struct fp_unwind_file_key key;
	struct fp_unwind_met met;
	uint32_t count = 0;

	for (; kernel_space_met(&kernel, &key, &met); count++) {
		assert_true(kernel_space_place((uint32_t)getpid(), met.address, &place));
		check_met(&key, &met, &place);
		kernel_space_know(&kernel, &key, place.path);
	}
	learnt += count;
	return count;
}

// Each new stack meets one more file, at which it stops.
static void meet_all(void)
{
	for (int depth = 3; depth < 13; depth++) {
		descend(depth);
		assert_true(ring_buffer__consume(rings) >= 1);
		if (!learn())
			return;
	}
	fail_msg("a file that is known is met again");
}

static void the_files_that_are_mapped_have_tables(void **state)
{
	meet_all();
	assert_true(learnt >= 2); // this program and the C library
	descend(20);
	check_same(FP_UNWIND_BY_FILE, 0);
	descend(40);
	check_same(FP_UNWIND_BY_FILE, 0);
	assert_int_equal(learn(), 0);
}

// The tree of mappings has more levels then, and other nodes.
static void however_many_mappings_there_are(void **state)
{
	static const uint32_t counts[] = { 1, 12, 40, 130, 700, 5000, MAPS_MAX };
	uint32_t before = 0;
	uint8_t *room = mmap(NULL, (size_t)MAPS_MAX * 2 * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(room, MAP_FAILED);
	meet_all();
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (; before < counts[i]; before++)
			assert_int_equal(
			    mprotect(room + (size_t)before * 2 * PAGE, PAGE, PROT_READ), 0);
		descend(30 + (int)i);
		check_same(FP_UNWIND_BY_FILE, 0);
	}
	assert_int_equal(munmap(room, (size_t)MAPS_MAX * 2 * PAGE), 0);
	descend(50);
	check_same(FP_UNWIND_BY_FILE, 0);
}

// A table that covers a part of the file only is not used outside of it.
static void only_as_far_as_the_table_goes(void **state)
{
	int fd;
	struct fp_unwind_file_key key, *previous = NULL;
	struct fp_unwind_file file;

	meet_all();
	fd = kernel_space_fd(&kernel, "unwind_files");
	while (bpf_map_get_next_key(fd, previous, &key) == 0) {
		assert_int_equal(bpf_map_lookup_elem(fd, &key, &file), 0);
		file.size = 1;
		assert_int_equal(bpf_map_update_elem(fd, &key, &file, BPF_ANY), 0);
		previous = &key;
	}
	ask_by_another_name("in_part");
	assert_int_equal(last->by_table, 0);
	assert_int_equal(last->unwind_version, FP_UNWIND_BY_FILE);
	assert_int_not_equal(last->walk_end, FP_WALK_END_OUTERMOST);
	assert_int_equal(learn(), 0);
}

static void ranges_come_first(void **state)
{
	meet_all();
	map_tables(7);
	descend(33);
	check_same(7, 0);
}

// Ranges that have nothing there, of a program that has just mapped it.
static void what_ranges_do_not_have_is_looked_for(void **state)
{
	struct fp_unwind_ranges_key key = { .tgid = (uint32_t)getpid() };
	int fd = kernel_space_fd(&kernel, "unwind_ranges");
	struct fp_unwind_ranges entry;

	meet_all();
	map_tables(7);
	assert_int_equal(bpf_map_lookup_elem(fd, &key, &entry), 0);
	assert_true(entry.count >= 3);
	for (uint32_t i = 1; i < FP_UNWIND_PART_RANGES; i++)
		entry.ranges[i] = (struct fp_unwind_range){ .start = ~0ULL };
	entry.count = 1;
	assert_int_equal(bpf_map_update_elem(fd, &key, &entry, BPF_ANY), 0);
	descend(34);
	check_same(7, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_files_that_are_mapped_have_tables), CASE(however_many_mappings_there_are),
		CASE(only_as_far_as_the_table_goes),	     CASE(ranges_come_first),
		CASE(what_ranges_do_not_have_is_looked_for),
	};

	need_root_and_btf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
