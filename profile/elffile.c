// SPDX-License-Identifier: Apache-2.0
#include "elfhandle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void fp_elf_free(struct fp_elf *elf)
{
	if (!elf)
		return;
	elf_end(elf->elf);
	free(elf);
}

// Takes the libelf handle over, also on failure.
static int elf_check(Elf *handle, struct fp_elf **ret_elf)
{
	FP_AUTOELF struct fp_elf *elf = calloc(1, sizeof(*elf));

	if (!elf) {
		elf_end(handle);
		return -ENOMEM;
	}
	elf->elf = handle;
	if (!handle || elf_kind(handle) != ELF_K_ELF || !gelf_getehdr(handle, &elf->header))
		return -ENOEXEC;
	if (elf->header.e_type != ET_EXEC && elf->header.e_type != ET_DYN)
		return -ENOEXEC;
	if (elf_getshdrnum(handle, &elf->sections_count) != 0 ||
	    elf->sections_count > FP_ELF_SECTIONS_MAX)
		elf->sections_count = 0;
	*ret_elf = fp_take_ptr(elf);
	return 0;
}

int fp_elf_open(int fd, struct fp_elf **ret_elf)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -ENOEXEC;
	elf_version(EV_CURRENT);
	// Read, not mmap: a file that is truncated meanwhile must not raise SIGBUS.
	return elf_check(elf_begin(fd, ELF_C_READ, NULL), ret_elf);
}

int fp_elf_open_image(const void *image, size_t size, struct fp_elf **ret_elf)
{
	elf_version(EV_CURRENT);
	if (size < EI_NIDENT)
		return -ENOEXEC;
	return elf_check(elf_memory((char *)image, size), ret_elf);
}

bool fp_elf_section(const struct fp_elf *elf, size_t index, GElf_Shdr *ret_header)
{
	Elf_Scn *section = index < elf->sections_count ? elf_getscn(elf->elf, index) : NULL;

	return section && gelf_getshdr(section, ret_header);
}

int fp_elf_section_data(const struct fp_elf *elf, size_t index, Elf_Data **ret_data)
{
	GElf_Shdr header;
	Elf_Data *data;

	if (!fp_elf_section(elf, index, &header) || header.sh_type == SHT_NOBITS ||
	    (header.sh_flags & SHF_COMPRESSED))
		return -EBADMSG;
	if (header.sh_size > FP_ELF_SECTION_MAX)
		return -E2BIG;
	data = elf_getdata(elf_getscn(elf->elf, index), NULL);
	if (!data || (!data->d_buf && data->d_size > 0))
		return -EBADMSG;
	*ret_data = data;
	return 0;
}

const char *fp_elf_string(const Elf_Data *strings, uint64_t offset, size_t *ret_size)
{
	const char *string;
	size_t room;

	if (!strings->d_buf || offset >= strings->d_size)
		return NULL;
	string = (const char *)strings->d_buf + offset;
	room = strings->d_size - offset;
	if (room > FP_SYMBOL_NAME_MAX)
		room = FP_SYMBOL_NAME_MAX;
	*ret_size = strnlen(string, room);
	return string;
}

bool fp_elf_section_named(const struct fp_elf *elf, const char *wanted, size_t *ret_index,
			  GElf_Shdr *ret_header)
{
	size_t names, size;
	Elf_Data *strings;

	if (elf_getshdrstrndx(elf->elf, &names) != 0 || fp_elf_section_data(elf, names, &strings))
		return false;
	for (size_t i = 1; i < elf->sections_count; i++) {
		const char *name;

		if (!fp_elf_section(elf, i, ret_header))
			continue;
		name = fp_elf_string(strings, ret_header->sh_name, &size);
		if (name && size == strlen(wanted) && memcmp(name, wanted, size) == 0) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}
