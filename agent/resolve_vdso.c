// SPDX-License-Identifier: Apache-2.0
#include "resolve_vdso.h"

#include "kernelmap_note.h"

#include <link.h>
#include <stdbool.h>
#include <sys/auxv.h>

struct vdso {
	uint8_t id[20];
	size_t len;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct vdso *vdso = context;

	// Linked at 0, so the image begins where it is loaded.
	if (info->dlpi_addr != getauxval(AT_SYSINFO_EHDR))
		return 0;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_NOTE &&
		    fp_note_build_id((const void *)(info->dlpi_addr + header->p_vaddr),
				     header->p_memsz, vdso->id, sizeof(vdso->id), &vdso->len) == 0)
			return 1;
	}
	return 1;
}

const uint8_t *fp_vdso_build_id(size_t *ret_len)
{
	static struct vdso vdso;
	static bool known;

	if (!known && getauxval(AT_SYSINFO_EHDR) != 0)
		dl_iterate_phdr(on_object, &vdso);
	known = true;
	*ret_len = vdso.len;
	return vdso.len ? vdso.id : NULL;
}
