// SPDX-License-Identifier: Apache-2.0
#include "elfframes.h"

#include "elfhandle.h"

#include <dwarf.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define SEGMENTS_MAX 256		 // headers looked at; real files have some ten
#define DYNAMIC_MAX  ((uint64_t)1 << 16) // bytes; likewise some 500

bool fp_elf_is_x86_64(const struct fp_elf *elf)
{
	return elf->header.e_machine == EM_X86_64 && elf->header.e_ident[EI_CLASS] == ELFCLASS64 &&
	       elf->header.e_ident[EI_DATA] == ELFDATA2LSB;
}

static int read_section(const struct fp_elf *elf, size_t index, struct fp_elf_frames *ret)
{
	GElf_Shdr header;
	Elf_Data *data;
	int error;

	if (!fp_elf_section(elf, index, &header))
		return -EBADMSG;
	if (header.sh_type == SHT_NOBITS || header.sh_size == 0)
		return 0; // of a file that holds symbols alone
	if (header.sh_size > FP_ELF_FRAMES_MAX)
		return -E2BIG;
	error = fp_elf_section_data(elf, index, &data);
	if (error)
		return error;
	*ret = (struct fp_elf_frames){ data->d_buf, data->d_size, header.sh_addr, false };
	return 0;
}

// ---- without section headers ----

static bool find_segment(const struct fp_elf *elf, uint32_t type, uint64_t address,
			 GElf_Phdr *ret_header)
{
	size_t count;

	if (elf_getphdrnum(elf->elf, &count) != 0)
		return false;
	for (size_t i = 0; i < count && i < SEGMENTS_MAX; i++)
		if (gelf_getphdr(elf->elf, (int)i, ret_header) && ret_header->p_type == type &&
		    (type != PT_LOAD || (address >= ret_header->p_vaddr &&
					 address - ret_header->p_vaddr < ret_header->p_filesz)))
			return true;
	return false;
}

// version, three encodings, then the pointer to .eh_frame. Linkers write it relative to itself.
static bool read_header(const struct fp_elf *elf, const GElf_Phdr *segment, uint64_t *ret_address)
{
	const size_t size = 4 + sizeof(int32_t);
	Elf_Data *data =
	    elf_getdata_rawchunk(elf->elf, (int64_t)segment->p_offset, size, ELF_T_BYTE);
	int32_t distance;

	if (!data || !data->d_buf || data->d_size != size)
		return false;
	if (((const uint8_t *)data->d_buf)[0] != 1 ||
	    ((const uint8_t *)data->d_buf)[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
		return false;
	memcpy(&distance, (const uint8_t *)data->d_buf + 4, sizeof(distance));
	*ret_address = segment->p_vaddr + 4 + (uint64_t)(int64_t)distance;
	return true;
}

static int read_by_segment(const struct fp_elf *elf, struct fp_elf_frames *ret)
{
	GElf_Phdr segment, load;
	uint64_t address, before, size;
	Elf_Data *data;

	if (!find_segment(elf, PT_GNU_EH_FRAME, 0, &segment))
		return 0;
	if (!read_header(elf, &segment, &address) || !find_segment(elf, PT_LOAD, address, &load))
		return -EBADMSG;
	before = address - load.p_vaddr;
	size = load.p_filesz - before;
	if (size > FP_ELF_FRAMES_MAX)
		size = FP_ELF_FRAMES_MAX;
	data = elf_getdata_rawchunk(elf->elf, (int64_t)(load.p_offset + before), size, ELF_T_BYTE);
	if (!data || !data->d_buf)
		return -EBADMSG;
	*ret = (struct fp_elf_frames){ data->d_buf, data->d_size, address, true };
	return 0;
}

int fp_elf_eh_frame(const struct fp_elf *elf, struct fp_elf_frames *ret)
{
	GElf_Shdr header;
	size_t index;

	*ret = (struct fp_elf_frames){ 0 };
	if (elf->sections_count == 0)
		return read_by_segment(elf, ret);
	if (!fp_elf_section_named(elf, ".eh_frame", &index, &header))
		return 0;
	return read_section(elf, index, ret);
}

int fp_elf_plt_code(const struct fp_elf *elf, struct fp_elf_frames *ret)
{
	GElf_Shdr header;
	size_t index;

	*ret = (struct fp_elf_frames){ 0 };
	return fp_elf_section_named(elf, ".plt", &index, &header) ? read_section(elf, index, ret)
								  : 0;
}

static int read_at(const struct fp_elf *elf, uint64_t address, size_t size,
		   struct fp_elf_frames *ret)
{
	uint64_t before, left;
	GElf_Phdr load;
	Elf_Data *data;

	*ret = (struct fp_elf_frames){ 0 };
	if (address == 0 || !find_segment(elf, PT_LOAD, address, &load))
		return 0;
	before = address - load.p_vaddr;
	left = load.p_filesz - before;
	if (left < size)
		size = left;
	data = elf_getdata_rawchunk(elf->elf, (int64_t)(load.p_offset + before), size, ELF_T_BYTE);
	if (!data || !data->d_buf)
		return -EBADMSG;
	*ret = (struct fp_elf_frames){ data->d_buf, data->d_size, address, false };
	return 0;
}

int fp_elf_entry_code(const struct fp_elf *elf, size_t size, struct fp_elf_frames *ret)
{
	return read_at(elf, elf->header.e_entry, size, ret);
}

// ---- what runs first and last ----

static const struct {
	int64_t tag; // in the dynamic section, which files without section headers have as well
	const char *section; // which those have that are linked statically
	bool is_array;
} crt[] = {
	[FP_ELF_CRT_INIT] = { DT_INIT, ".init", false },
	[FP_ELF_CRT_FINI] = { DT_FINI, ".fini", false },
	[FP_ELF_CRT_INIT_ARRAY] = { DT_INIT_ARRAY, ".init_array", true },
	[FP_ELF_CRT_FINI_ARRAY] = { DT_FINI_ARRAY, ".fini_array", true },
};

static uint64_t find_dynamic(const struct fp_elf *elf, int64_t tag)
{
	Elf_Data *data = NULL;
	GElf_Phdr segment;
	GElf_Dyn entry;

	if (find_segment(elf, PT_DYNAMIC, 0, &segment))
		data = elf_getdata_rawchunk(
		    elf->elf, (int64_t)segment.p_offset,
		    segment.p_filesz < DYNAMIC_MAX ? segment.p_filesz : DYNAMIC_MAX, ELF_T_DYN);
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == tag)
			return entry.d_un.d_ptr;
	return 0;
}

int fp_elf_crt_code(const struct fp_elf *elf, enum fp_elf_crt which, size_t size,
		    struct fp_elf_frames *ret)
{
	uint64_t address = find_dynamic(elf, crt[which].tag);
	GElf_Shdr header;
	size_t index;
	int error;

	if (!address && fp_elf_section_named(elf, crt[which].section, &index, &header))
		address = header.sh_addr;
	if (!crt[which].is_array)
		return read_at(elf, address, size, ret);
	error = read_at(elf, address, sizeof(address), ret);
	if (error)
		return error;
	address = 0;
	if (ret->size == sizeof(address))
		memcpy(&address, ret->bytes, sizeof(address));
	return read_at(elf, le64toh(address), size, ret);
}

bool fp_elf_is_go(const struct fp_elf *elf)
{
	GElf_Shdr header;
	size_t index;

	return fp_elf_section_named(elf, ".gopclntab", &index, &header) ||
	       fp_elf_section_named(elf, ".data.rel.ro.gopclntab", &index, &header);
}

// ---- .debug_frame ----

// Decompressed by libelf in its own memory, once its size is known to be bearable.
static int decompress(const struct fp_elf *elf, size_t index)
{
	Elf_Scn *section = elf_getscn(elf->elf, index);
	GElf_Chdr header;

	if (!section || !gelf_getchdr(section, &header))
		return -EBADMSG;
	if (header.ch_size > FP_ELF_FRAMES_MAX)
		return -E2BIG;
	return elf_compress(section, 0, 0) < 0 ? -EBADMSG : 0;
}

// As it was before ELF knew of compression: "ZLIB", the size as 8 bytes big-endian, the stream.
static int decompress_gnu(const struct fp_elf *elf, size_t index)
{
	Elf_Scn *section = elf_getscn(elf->elf, index);
	uint64_t size;
	Elf_Data *data;
	int error = fp_elf_section_data(elf, index, &data);

	if (error)
		return error;
	if (!section || data->d_size < 4 + sizeof(size) || memcmp(data->d_buf, "ZLIB", 4) != 0)
		return -EBADMSG;
	memcpy(&size, (const uint8_t *)data->d_buf + 4, sizeof(size));
	if (be64toh(size) > FP_ELF_FRAMES_MAX)
		return -E2BIG;
	return elf_compress_gnu(section, 0, 0) < 0 ? -EBADMSG : 0;
}

int fp_elf_debug_frame(const struct fp_elf *elf, struct fp_elf_frames *ret)
{
	GElf_Shdr header;
	size_t index;
	int error = 0;

	*ret = (struct fp_elf_frames){ 0 };
	if (fp_elf_section_named(elf, ".debug_frame", &index, &header)) {
		if (header.sh_flags & SHF_COMPRESSED)
			error = decompress(elf, index);
	} else if (fp_elf_section_named(elf, ".zdebug_frame", &index, &header)) {
		error = decompress_gnu(elf, index);
	} else {
		return 0;
	}
	return error ? error : read_section(elf, index, ret);
}
