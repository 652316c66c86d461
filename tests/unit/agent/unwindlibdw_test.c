// SPDX-License-Identifier: Apache-2.0
// Tables of programs that this machine has, against libdw: at every row's first byte and the
// bytes beside it, both are asked for the caller's registers, given the same made-up registers and
// memory. They must come to the same numbers, or the table must say why it has none.
#include "unwind_callers.h"

#include "agent/unwindtable.h"
#include "common/cleanup.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAMS    FP_PROGRAMS_DIR // with unwindcases_*.so
#define STATES	    2		    // made-up ones, at each place
#define UNEXPLAINED 20		    // shown of one file
// Of larger tables only some rows are looked at; sanitizers take their time.
#ifdef __SANITIZE_ADDRESS__
#define ROWS_WHOLE 15000
#else
#define ROWS_WHOLE 120000
#endif
#define ANYWHERE (ROWS_WHOLE / 6) // places in the code besides those at rows

enum verdict {
	SAME_NUMBERS,
	BOTH_SILENT,	  // neither has an entry
	BOTH_OUTERMOST,	  // the return address is undefined
	BOTH_REFUSE,	  // libdw finds the entry malformed, the table says that it cannot
	RBX_BY_ABI,	  // nothing is said of rbx: libdw has it undefined, the psABI (3.2.1) kept
	BY_CODE,	  // of a PLT or an entry point, which libdw does not look at
	BY_FRAME_POINTER, // Go's, where they have a frame: see unwindtable.c
	SAID_CANNOT,	  // the table refuses what libdw would do, and says so
	LOST_RBP,	  // the table knows that it does not know what libdw knows
	LOST_RBX,
	DIFFERENT,
	VERDICTS
};
static const char *const verdict_names[] = {
	"same numbers", "both silent",	       "both outermost", "both refuse",	   "rbx by abi",
	"by its code",	"go by frame pointer", "said: cannot",	 "said: rbp lost", "said: rbx lost",
	"DIFFERENT"
};

static bool is_same(const struct said *ours, const struct said *theirs)
{
	return ours->what == theirs->what && (ours->what != KNOWN || ours->value == theirs->value);
}

// Ours may be silent (-> lost) where theirs is not.
static bool agrees(const struct said *ours, const struct said *theirs, bool *ret_lost)
{
	*ret_lost = ours->what == NOT_SAID && theirs->what == KNOWN;
	return ours->what == NOT_SAID || is_same(ours, theirs);
}

static enum verdict compare_callers(const struct caller *ours, const struct caller *theirs,
				    uint64_t rbx)
{
	bool lost_rbp, lost_rbx;

	if (!is_same(&ours->cfa, &theirs->cfa) || !is_same(&ours->rip, &theirs->rip) ||
	    !agrees(&ours->rbp, &theirs->rbp, &lost_rbp))
		return DIFFERENT;
	if (theirs->rbx.what == UNDEFINED && ours->rbx.what == KNOWN && ours->rbx.value == rbx)
		return RBX_BY_ABI;
	if (!agrees(&ours->rbx, &theirs->rbx, &lost_rbx))
		return DIFFERENT;
	return lost_rbp ? LOST_RBP : lost_rbx ? LOST_RBX : SAME_NUMBERS;
}

struct file {
	const char *path;
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *eh, *debug;
	GElf_Shdr plt;		// size 0: none
	uint64_t entry, crt[4]; // what runs first and last; 0: none
	bool is_go;
	struct fp_buf bytes;
	struct fp_unwind_view view;
	uint64_t counts[VERDICTS];
};

static enum verdict compare_frame(const struct fp_unwind_rule *rule, Dwarf_Frame *frame,
				  uint64_t address)
{
	enum verdict worst = SAME_NUMBERS;

	for (uint64_t state = 0; state < STATES; state++) {
		struct machine machine = callers_machine(address, state);
		struct caller theirs = callers_by_libdw(frame, &machine), ours;
		enum verdict verdict;

		if (rule->cfa == FP_UNWIND_GAP)
			return DIFFERENT;
		if (rule->cfa == FP_UNWIND_END)
			return theirs.rip.what == UNDEFINED ? BOTH_OUTERMOST : DIFFERENT;
		if (rule->cfa == FP_UNWIND_CANNOT)
			return SAID_CANNOT;
		ours = callers_by_rule(rule, &machine);
		verdict = compare_callers(&ours, &theirs, machine.regs[RBX]);
		if (verdict > worst)
			worst = verdict;
	}
	return worst;
}

static enum verdict compare_by(const struct fp_unwind_rule *rule, Dwarf_CFI *cfi, uint64_t address,
			       bool *ret_has_entry)
{
	FP_AUTOFREE Dwarf_Frame *frame = NULL;
	const char *said;

	*ret_has_entry = true;
	if (cfi && dwarf_cfi_addrframe(cfi, address, &frame) == 0)
		return compare_frame(rule, frame, address);
	said = cfi ? dwarf_errmsg(dwarf_errno()) : "no matching address range";
	*ret_has_entry = strcmp(said, "no matching address range") != 0;
	if (*ret_has_entry)
		return rule->cfa == FP_UNWIND_CANNOT ? BOTH_REFUSE : DIFFERENT;
	return rule->cfa == FP_UNWIND_GAP ? BOTH_SILENT : DIFFERENT;
}

// File offset → address, in executable segments.
static bool address_of(Elf *elf, uint64_t offset, uint64_t *ret)
{
	size_t count;

	assert_int_equal(elf_getphdrnum(elf, &count), 0);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		assert_non_null(gelf_getphdr(elf, (int)i, &header));
		if (header.p_type != PT_LOAD || !(header.p_flags & PF_X) ||
		    offset < header.p_offset || offset - header.p_offset >= header.p_filesz)
			continue;
		*ret = header.p_vaddr + (offset - header.p_offset);
		return true;
	}
	return false;
}

static bool begins_crt(const struct file *file, uint64_t address)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(file->crt); i++)
		if (file->crt[i] && file->crt[i] == address)
			return true;
	return false;
}

static bool is_known_code(const struct file *file, uint32_t offset)
{
	uint64_t entry = 0;

	for (uint32_t before = 0; before < 64 && before <= offset; before++)
		if (address_of(file->elf, offset - before, &entry) &&
		    (entry == file->entry || begins_crt(file, entry)))
			return true;
	return offset >= file->plt.sh_offset && offset - file->plt.sh_offset < file->plt.sh_size;
}

static void compare_at(struct file *file, uint32_t offset)
{
	const struct fp_unwind_rule *rule = fp_unwind_view_find(&file->view, offset);
	enum verdict verdict;
	uint64_t address;
	bool has_entry;

	if (!address_of(file->elf, offset, &address))
		return;
	verdict = compare_by(rule, file->eh, address, &has_entry);
	if (!has_entry) // what .eh_frame does not tell .debug_frame may
		verdict = compare_by(rule, file->debug, address, &has_entry);
	if (!has_entry && verdict == DIFFERENT && is_known_code(file, offset))
		verdict = BY_CODE;
	if (has_entry && verdict == DIFFERENT && file->is_go && rule->cfa == FP_UNWIND_GAP)
		verdict = BY_FRAME_POINTER;
	if (verdict == DIFFERENT && file->counts[DIFFERENT] < UNEXPLAINED)
		print_error("%s: at offset %#x kind %u %+d %+d\n", file->path, offset, rule->cfa,
			    rule->offset, rule->add);
	file->counts[verdict]++;
}

static void note_crt(struct file *file, Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	static const char *const names[] = { ".init", ".fini", ".init_array", ".fini_array" };
	Elf_Data *data;

	for (size_t i = 0; i < FP_ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		file->crt[i] = header->sh_addr;
		if (i < 2)
			continue;
		data = elf_rawdata(section, NULL);
		assert_true(data && data->d_size >= sizeof(file->crt[i]));
		memcpy(&file->crt[i], data->d_buf, sizeof(file->crt[i]));
	}
}

static void find_sections(struct file *file)
{
	Elf_Scn *section = NULL;
	GElf_Ehdr header;
	size_t names;

	assert_non_null(gelf_getehdr(file->elf, &header));
	file->entry = header.e_entry;
	assert_int_equal(elf_getshdrstrndx(file->elf, &names), 0);
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr found;
		const char *name;

		assert_non_null(gelf_getshdr(section, &found));
		name = elf_strptr(file->elf, names, found.sh_name);
		if (name && strcmp(name, ".plt") == 0)
			file->plt = found;
		note_crt(file, section, &found, name ? name : "");
		if (name && strcmp(name, ".gopclntab") == 0)
			file->is_go = true;
	}
}

static bool file_open(struct file *file, const char *path)
{
	*file = (struct file){ .path = path, .fd = open(path, O_RDONLY | O_CLOEXEC) };
	if (file->fd < 0) {
		print_message("%s: not here\n", path);
		return false;
	}
	elf_version(EV_CURRENT);
	file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	assert_non_null(file->elf);
	find_sections(file);
	file->eh = dwarf_getcfi_elf(file->elf);
	file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	file->debug = file->dwarf ? dwarf_getcfi(file->dwarf) : NULL;
	assert_int_equal(fp_unwind_table_make(file->fd, NULL, &file->bytes), 0);
	assert_int_equal(fp_unwind_table_check(file->bytes.data, file->bytes.len, &file->view), 0);
	return true;
}

static void file_close(struct file *file)
{
	dwarf_cfi_end(file->eh);
	dwarf_end(file->dwarf);
	elf_end(file->elf);
	fp_buf_free(&file->bytes);
	fp_close_fd(&file->fd);
}

static void compare_rows(struct file *file)
{
	const struct fp_unwind_view *view = &file->view;
	uint32_t step = view->head->rows / ROWS_WHOLE + 1;

	for (uint32_t i = 0; i < view->head->rows; i += step)
		for (uint32_t beside = 0; beside < 3; beside++)
			compare_at(file, view->offsets[i] + beside - 1);
}

// Where the table has no row and should have one.
static void compare_anywhere(struct file *file)
{
	const struct fp_unwind_view *view = &file->view;
	uint64_t first = view->offsets[0], size = view->offsets[view->head->rows - 1] - first;

	for (uint64_t i = 0; i < ANYWHERE; i++)
		compare_at(file, (uint32_t)(first + callers_mix(i) % size));
}

static uint64_t sum(const uint64_t *counts)
{
	uint64_t all = 0;

	for (size_t i = 0; i < VERDICTS; i++)
		all += counts[i];
	return all;
}

static void compare_file(const char *path)
{
	struct file file;

	if (!file_open(&file, path))
		return;
	compare_rows(&file);
	compare_anywhere(&file);
	print_message("%s: %u rows, %u rules, %u entries, %u rejected;", path, file.view.head->rows,
		      file.view.head->rules, file.view.head->entries, file.view.head->rejected);
	for (size_t i = 0; i < VERDICTS; i++)
		if (file.counts[i] > 0)
			print_message(" %s %lu", verdict_names[i], file.counts[i]);
	print_message("\n");
	assert_int_equal(file.counts[DIFFERENT], 0);
	assert_true(file.counts[SAME_NUMBERS] > 0 || file.is_go);
	// What compilers emit is walked: of one place in a thousand at most it is said that it is not.
	if (strncmp(path, PROGRAMS, strlen(PROGRAMS)) != 0)
		assert_true(file.counts[SAID_CANNOT] <= sum(file.counts) / 1000);
	assert_int_equal(file.view.head->rejected, 0);
	file_close(&file);
}

static void compare_pattern(const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) != 0) {
		print_message("%s: not here\n", pattern);
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		compare_file(found.gl_pathv[i]);
	globfree(&found);
}

static void tables_and_libdw_come_to_the_same_callers(void **state)
{
	static const char *const patterns[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/ld-linux-x86-64.so.2",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
		"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
		"/usr/lib/gcc/x86_64-linux-gnu/*/cc1",
		"/usr/lib/postgresql/*/bin/postgres",
		"/usr/lib/chromium/chromium",
		"/usr/bin/python3.11",
		"/usr/bin/bash",
		"/usr/bin/node",
		"/usr/lib/x86_64-linux-gnu/libnode.so.*",
		"/proc/self/exe",
		PROGRAMS "/unwindcases_eh.so",
		PROGRAMS "/unwindcases_debug.so",
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(patterns); i++)
		compare_pattern(patterns[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_and_libdw_come_to_the_same_callers),
	};

	if (argc == 1)
		return cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 1; i < argc; i++) // files to be looked at by hand
		compare_pattern(argv[i]);
	return 0;
}
