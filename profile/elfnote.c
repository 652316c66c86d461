// SPDX-License-Identifier: Apache-2.0
#include "elfhandle.h"

#include <string.h>

// Bytes of notes looked at in one file. Real files have some hundred; many sections that all
// point at one large area must not add up.
#define NOTES_MAX ((uint64_t)1 << 20)

struct note_search {
	const struct fp_elf_note_kind *kind;
	uint64_t budget;
	struct fp_elf_bytes found; // size 0: not yet
};

static bool is_wanted(const struct fp_elf_note_kind *kind, const GElf_Nhdr *note, const char *owner)
{
	size_t owner_size = strlen(kind->owner) + 1;

	// Padding may be counted as part of the owner's name, as Go's linker does.
	return note->n_type == kind->type && note->n_namesz >= owner_size &&
	       note->n_namesz < owner_size + 4 && memcmp(owner, kind->owner, owner_size) == 0;
}

// One note section or segment. gelf_getnote checks that name and descriptor lie inside.
static void search_notes(Elf_Data *notes, struct note_search *search)
{
	GElf_Nhdr note;
	size_t offset = 0, name, descriptor;

	while ((offset = gelf_getnote(notes, offset, &note, &name, &descriptor)) > 0) {
		const uint8_t *bytes = notes->d_buf;

		if (!is_wanted(search->kind, &note, (const char *)bytes + name))
			continue;
		if (note.n_descsz > 0 && note.n_descsz <= search->kind->size_max)
			search->found = (struct fp_elf_bytes){ bytes + descriptor, note.n_descsz };
		return;
	}
}

static bool spend(struct note_search *search, uint64_t size)
{
	if (size == 0 || size > search->budget)
		return false;
	search->budget -= size;
	return true;
}

static void search_sections(const struct fp_elf *elf, struct note_search *search)
{
	for (size_t i = 1; search->found.size == 0 && i < elf->sections_count; i++) {
		GElf_Shdr header;
		Elf_Data *data;

		if (fp_elf_section(elf, i, &header) && header.sh_type == SHT_NOTE &&
		    spend(search, header.sh_size) && fp_elf_section_data(elf, i, &data) == 0)
			search_notes(data, search);
	}
}

static void search_segments(const struct fp_elf *elf, struct note_search *search)
{
	size_t count;

	if (elf_getphdrnum(elf->elf, &count) != 0)
		return;
	if (count > FP_ELF_SECTIONS_MAX)
		count = FP_ELF_SECTIONS_MAX;
	for (size_t i = 0; search->found.size == 0 && i < count; i++) {
		GElf_Phdr header;
		Elf_Data *data;

		if (!gelf_getphdr(elf->elf, (int)i, &header) || header.p_type != PT_NOTE ||
		    !spend(search, header.p_filesz))
			continue;
		data = elf_getdata_rawchunk(elf->elf, (int64_t)header.p_offset, header.p_filesz,
					    header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (data && data->d_buf)
			search_notes(data, search);
	}
}

bool fp_elf_note(const struct fp_elf *elf, const struct fp_elf_note_kind *kind,
		 struct fp_elf_bytes *ret_bytes)
{
	struct note_search search = { .kind = kind, .budget = NOTES_MAX };

	search_sections(elf, &search);
	if (search.found.size == 0) {
		search.budget = NOTES_MAX;
		search_segments(elf, &search);
	}
	if (search.found.size == 0)
		return false;
	*ret_bytes = search.found;
	return true;
}

size_t fp_elf_build_id(const struct fp_elf *elf, uint8_t ret_id[FP_ELF_ID_MAX])
{
	static const struct fp_elf_note_kind gnu = { ELF_NOTE_GNU, NT_GNU_BUILD_ID, FP_ELF_ID_MAX };
	struct fp_elf_bytes id;

	if (!fp_elf_note(elf, &gnu, &id))
		return 0;
	memcpy(ret_id, id.bytes, id.size);
	return id.size;
}
