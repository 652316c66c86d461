// SPDX-License-Identifier: Apache-2.0
// Files made byte by byte: what identifies them, and that nothing they claim is believed.
#include "profile/elfident.h"

#include "common/file.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define GO_TYPE 4

struct note {
	const char *owner; // NULL: no more notes
	uint32_t owner_size, type;
	const char *text;
	uint32_t claimed; // size of the descriptor as it is written, 0: what it is
};

struct made_file {
	const char *sentence;
	enum { IN_SECTION = 1, IN_SEGMENT = 2 } where;
	struct note notes[3];
	uint64_t claimed;  // size of the area of notes as it is written, 0: what it is
	uint64_t offset;   // of the area, 0: where it is
	uint16_t segments; // claimed
	enum fp_build_kind kind;
	const char *id; // hexadecimal; NULL for a hash: any
};

#define TWENTY	   "aaaabbbbccccddddeeee"
#define TWENTY_HEX "6161616162626262636363636464646465656565"
#define GO_TEXT	   "abcdefgh/ijkl"
#define GO_HEX	   "6c684e37b2ddcc1f3df49b267550d8c0b49e7821"
#define GNU(text)                                                                                  \
	{                                                                                          \
		"GNU", 4, NT_GNU_BUILD_ID, text, 0                                                 \
	}
#define GO(text)                                                                                   \
	{                                                                                          \
		"Go\0", 4, GO_TYPE, text, 0                                                        \
	}
#define FORTY_LETTERS "0123456789012345678901234567890123456789"

static const struct made_file made_files[] = {
	{ "a GNU note in a section",
	  IN_SECTION,
	  { GNU(TWENTY) },
	  0,
	  0,
	  0,
	  FP_BUILD_GNU,
	  TWENTY_HEX },
	{ "a GNU note in a segment of a file without sections",
	  IN_SEGMENT,
	  { GNU(TWENTY) },
	  0,
	  0,
	  0,
	  FP_BUILD_GNU,
	  TWENTY_HEX },
	{ "a Go note in a section", IN_SECTION, { GO(GO_TEXT) }, 0, 0, 0, FP_BUILD_GO, GO_HEX },
	{ "a Go note in a segment", IN_SEGMENT, { GO(GO_TEXT) }, 0, 0, 0, FP_BUILD_GO, GO_HEX },
	{ "of both ids the GNU one",
	  IN_SECTION | IN_SEGMENT,
	  { GO(GO_TEXT), GNU(TWENTY) },
	  0,
	  0,
	  0,
	  FP_BUILD_GNU,
	  TWENTY_HEX },
	{ "a note behind others",
	  IN_SECTION,
	  { { "GNU", 4, NT_GNU_ABI_TAG, "0123456789abcdef", 0 },
	    { "x", 2, 3, "odd", 0 },
	    GNU(TWENTY) },
	  0,
	  0,
	  0,
	  FP_BUILD_GNU,
	  TWENTY_HEX },
	{ "the right type of another owner is none",
	  IN_SECTION,
	  { { "Xen", 4, NT_GNU_BUILD_ID, TWENTY, 0 } },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "Bazel's placeholder is no Go build ID",
	  IN_SECTION,
	  { GO("redacted") },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "an empty Go build ID is none", IN_SECTION, { GO("") }, 0, 0, 0, FP_BUILD_HASH, NULL },
	{ "an empty GNU build-ID is none", IN_SECTION, { GNU("") }, 0, 0, 0, FP_BUILD_HASH, NULL },
	{ "a GNU build-ID that is too long is none",
	  IN_SEGMENT,
	  { GNU(FORTY_LETTERS) },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "a file without notes",
	  IN_SECTION,
	  { { NULL, 0, 0, NULL, 0 } },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "a descriptor that reaches behind the notes",
	  IN_SECTION | IN_SEGMENT,
	  { { "GNU", 4, NT_GNU_BUILD_ID, TWENTY, 24 } },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "a descriptor whose size wraps",
	  IN_SECTION | IN_SEGMENT,
	  { { "GNU", 4, NT_GNU_BUILD_ID, TWENTY, UINT32_MAX } },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "an owner whose size wraps",
	  IN_SECTION | IN_SEGMENT,
	  { { "GNU", UINT32_MAX - 3, NT_GNU_BUILD_ID, TWENTY, 0 } },
	  0,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "notes that reach behind the file",
	  IN_SECTION | IN_SEGMENT,
	  { GNU(TWENTY) },
	  65536,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "notes of all sizes there are",
	  IN_SECTION | IN_SEGMENT,
	  { GNU(TWENTY) },
	  UINT64_MAX,
	  0,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "notes that lie behind the file",
	  IN_SECTION | IN_SEGMENT,
	  { GNU(TWENTY) },
	  0,
	  UINT64_MAX - 8,
	  0,
	  FP_BUILD_HASH,
	  NULL },
	{ "more segments than the file has bytes for",
	  IN_SEGMENT,
	  { GNU(TWENTY) },
	  0,
	  0,
	  60000,
	  FP_BUILD_HASH,
	  NULL },
	{ "as many segments as need another place for their number",
	  IN_SEGMENT,
	  { GNU(TWENTY) },
	  0,
	  0,
	  PN_XNUM,
	  FP_BUILD_HASH,
	  NULL },
};

static void add_note(struct fp_buf *notes, const struct note *note)
{
	uint32_t text_size = (uint32_t)strlen(note->text);
	Elf64_Nhdr header = { .n_namesz = note->owner_size,
			      .n_descsz = note->claimed ? note->claimed : text_size,
			      .n_type = note->type };

	fp_buf_append(notes, &header, sizeof(header));
	fp_buf_append(notes, note->owner, note->owner_size < 8 ? note->owner_size : 4);
	while (notes->len % 4)
		fp_buf_byte(notes, 0);
	fp_buf_append(notes, note->text, text_size);
	while (notes->len % 4)
		fp_buf_byte(notes, 0);
}

// Header, one program header, the notes, two section headers.
static void make_elf(const struct made_file *made, struct fp_buf *file)
{
	FP_AUTOBUF struct fp_buf notes = { 0 };
	Elf64_Ehdr header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					   ELFDATA2LSB, EV_CURRENT },
			      .e_type = ET_DYN,
			      .e_machine = EM_X86_64,
			      .e_version = EV_CURRENT,
			      .e_ehsize = sizeof(Elf64_Ehdr),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_shentsize = sizeof(Elf64_Shdr) };
	Elf64_Phdr segment = { .p_type = PT_NOTE, .p_align = 4 };
	Elf64_Shdr sections[2] = { { 0 }, { .sh_type = SHT_NOTE, .sh_addralign = 4 } };
	uint64_t place = sizeof(header) + sizeof(segment);

	for (size_t i = 0; i < FP_ARRAY_SIZE(made->notes) && made->notes[i].owner; i++)
		add_note(&notes, &made->notes[i]);
	segment.p_offset = sections[1].sh_offset = made->offset ? made->offset : place;
	segment.p_filesz = sections[1].sh_size = made->claimed ? made->claimed : notes.len;
	if (made->where & IN_SEGMENT) {
		header.e_phoff = sizeof(header);
		header.e_phnum = made->segments ? made->segments : 1;
	}
	if (made->where & IN_SECTION) {
		header.e_shoff = place + notes.len;
		header.e_shnum = 2;
	}
	fp_buf_append(file, &header, sizeof(header));
	fp_buf_append(file, &segment, sizeof(segment));
	fp_buf_append(file, notes.data, notes.len);
	if (made->where & IN_SECTION)
		fp_buf_append(file, sections, sizeof(sections));
	assert_int_equal(file->error, 0);
}

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fp_write_all(fd, bytes, size), 0);
	return fd;
}

static void assert_id(const struct fp_build *build, enum fp_build_kind kind, const char *hex)
{
	char found[2 * FP_BUILD_ID_MAX + 1] = "";

	assert_int_equal(build->kind, kind);
	for (size_t i = 0; i < build->id_len; i++)
		snprintf(found + 2 * i, 3, "%02x", build->id[i]);
	if (hex)
		assert_string_equal(found, hex);
	else
		assert_int_equal(strlen(found), 32);
}

static void a_file_has_the_first_id_that_is_one(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(made_files); i++) {
		const struct made_file *made = &made_files[i];
		FP_AUTOBUF struct fp_buf bytes = { 0 };
		FP_AUTOCLOSE int fd = -1;
		struct fp_build build = { 0 };
		bool same = false;

		print_message("  %s\n", made->sentence);
		make_elf(made, &bytes);
		fd = file_of(bytes.data, bytes.len);
		assert_int_equal(fp_elf_identify(fd, &build), 0);
		assert_id(&build, made->kind, made->id);
		assert_int_equal(fp_elf_is_build(fd, &build, &same), 0);
		assert_true(same);
	}
}

// Every cut of a file is one that was truncated while it was read.
static void a_truncated_file_is_some_other_file(void **state)
{
	static const struct made_file whole = {
		"", IN_SECTION | IN_SEGMENT, { GNU(TWENTY) }, 0, 0, 0, FP_BUILD_GNU, TWENTY_HEX
	};
	FP_AUTOBUF struct fp_buf bytes = { 0 };

	make_elf(&whole, &bytes);
	for (size_t size = 1; size < bytes.len; size++) {
		FP_AUTOCLOSE int fd = file_of(bytes.data, size);
		struct fp_build build = { 0 };

		assert_int_equal(fp_elf_identify(fd, &build), 0);
		if (size < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 36)
			assert_id(&build, FP_BUILD_HASH, NULL);
		else // the segment's note is whole
			assert_id(&build, FP_BUILD_GNU, TWENTY_HEX);
	}
}

struct hash_case {
	size_t size;
	const char *id;
};

// Bytes i mod 251; the hashes are those of Python's hashlib.
static const struct hash_case hash_cases[] = {
	{ 1, "52807a4607ea5debf0b7d4ccb452f4af" },
	{ 4096, "6c3376bc183b0a4994bc0b2c2c9d8b05" },
	{ 4097, "5caa6d2c6348b199ee7902cd00aa97b0" },
	{ 10000, "29e3194e821b97b5565d43a5156ad97a" },
};

static void other_files_have_the_hash_of_their_ends_and_length(void **state)
{
	static const uint8_t known[] = { 0x7f, 'E', 'L', 'F', 0, 1, 2, 3, 4 };
	FP_AUTOCLOSE int fd = file_of(known, sizeof(known));
	struct fp_build build = { 0 };

	// The example in the tests of OpenTelemetry's profiler.
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_id(&build, FP_BUILD_HASH, "caf6e5907166ac76eef618e5f7f59cd9");
	for (size_t i = 0; i < FP_ARRAY_SIZE(hash_cases); i++) {
		uint8_t bytes[10000];
		FP_AUTOCLOSE int other = -1;

		for (size_t j = 0; j < sizeof(bytes); j++)
			bytes[j] = (uint8_t)(j % 251);
		other = file_of(bytes, hash_cases[i].size);
		assert_int_equal(fp_elf_identify(other, &build), 0);
		assert_id(&build, FP_BUILD_HASH, hash_cases[i].id);
	}
}

static void nothing_identifies_an_empty_file(void **state)
{
	FP_AUTOCLOSE int fd = file_of("", 0);
	struct fp_build build = { .kind = FP_BUILD_HASH, .id_len = 16 };
	bool same = true;

	assert_int_equal(fp_elf_is_build(fd, &build, &same), 0);
	assert_false(same);
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_id(&build, FP_BUILD_NONE, "");
}

static void what_is_no_regular_file_is_not_read(void **state)
{
	struct fp_build build = { .kind = FP_BUILD_HASH, .id_len = 16 };
	bool same;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fp_elf_identify(ends[0], &build), -EINVAL);
	assert_int_equal(fp_elf_is_build(ends[0], &build, &same), -EINVAL);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(fp_elf_identify(-1, &build), -EBADF);
}

static void a_file_is_no_build_of_another_kind_or_id(void **state)
{
	static const struct made_file both = {
		"", IN_SECTION, { GO(GO_TEXT), GNU(TWENTY) }, 0, 0, 0, FP_BUILD_GNU, TWENTY_HEX
	};
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	FP_AUTOCLOSE int fd = -1, text = file_of("text", 4);
	struct fp_build gnu, go, hash;
	bool same = false;

	make_elf(&both, &bytes);
	fd = file_of(bytes.data, bytes.len);
	assert_int_equal(fp_elf_identify(fd, &gnu), 0);
	assert_int_equal(fp_elf_identify(text, &hash), 0);
	// An id of any kind that the file has identifies it.
	go = (struct fp_build){ .kind = FP_BUILD_GO, .id_len = 20 };
	for (size_t i = 0; i < 20; i++)
		sscanf(&GO_HEX[2 * i], "%2hhx", &go.id[i]);
	assert_int_equal(fp_elf_is_build(fd, &go, &same), 0);
	assert_true(same);
	go.id[19] ^= 1;
	assert_int_equal(fp_elf_is_build(fd, &go, &same), 0);
	assert_false(same);
	assert_int_equal(fp_elf_is_build(text, &gnu, &same), 0);
	assert_false(same);
	assert_int_equal(fp_elf_is_build(fd, &hash, &same), 0);
	assert_false(same);
	gnu.id_len = 19;
	assert_int_equal(fp_elf_is_build(fd, &gnu, &same), 0);
	assert_false(same);
	gnu = (struct fp_build){ .kind = FP_BUILD_NONE };
	assert_int_equal(fp_elf_is_build(fd, &gnu, &same), 0);
	assert_false(same);
}

// 60,000 sections that all point at the same megabyte of notes would be 60 GB to read.
static void sections_that_share_their_notes_do_not_add_up(void **state)
{
	enum { SECTIONS = 60000, AREA = 1 << 20 };
	FP_AUTOFREE Elf64_Shdr *sections = calloc(SECTIONS, sizeof(*sections));
	FP_AUTOFREE uint8_t *area = calloc(1, AREA);
	Elf64_Ehdr header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					   ELFDATA2LSB, EV_CURRENT },
			      .e_type = ET_DYN,
			      .e_version = EV_CURRENT,
			      .e_shoff = sizeof(header) + AREA,
			      .e_shnum = SECTIONS,
			      .e_shentsize = sizeof(*sections),
			      .e_ehsize = sizeof(header) };
	FP_AUTOCLOSE int fd = file_of(&header, sizeof(header));
	struct fp_build build;

	assert_non_null(sections);
	assert_non_null(area);
	for (size_t i = 1; i < SECTIONS; i++)
		sections[i] = (Elf64_Shdr){ .sh_type = SHT_NOTE,
					    .sh_offset = sizeof(header),
					    .sh_size = AREA,
					    .sh_addralign = 4 };
	assert_int_equal(fp_write_all(fd, area, AREA), 0);
	assert_int_equal(fp_write_all(fd, sections, SECTIONS * sizeof(*sections)), 0);
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_id(&build, FP_BUILD_HASH, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_has_the_first_id_that_is_one),
		cmocka_unit_test(a_truncated_file_is_some_other_file),
		cmocka_unit_test(other_files_have_the_hash_of_their_ends_and_length),
		cmocka_unit_test(nothing_identifies_an_empty_file),
		cmocka_unit_test(what_is_no_regular_file_is_not_read),
		cmocka_unit_test(a_file_is_no_build_of_another_kind_or_id),
		cmocka_unit_test(sections_that_share_their_notes_do_not_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
