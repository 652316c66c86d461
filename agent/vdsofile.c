// SPDX-License-Identifier: Apache-2.0
#include "vdsofile.h"

#include "common/file.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define IMAGE_MAX ((size_t)64 << 10)

// The image's size is not told; its section headers stand at its end.
static size_t image_size(const ElfW(Ehdr) * header)
{
	size_t end = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;

	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && end <= IMAGE_MAX ? end : 0;
}

static int make_file(const void *image, size_t size, struct fp_names_file *ret)
{
	FP_AUTOCLOSE int fd = memfd_create("fleetprof-vdso", MFD_CLOEXEC);
	struct stat info = { 0 };
	void *mapped;
	int r = fd < 0 ? -errno : fp_write_all(fd, image, size);

	if (r == 0 && fstat(fd, &info) < 0)
		r = -errno;
	if (r < 0)
		return r;
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	*ret = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = (uintptr_t)mapped,
		.end = (uintptr_t)mapped + (size + 4095) / 4096 * 4096,
		.device = (uint64_t)major(info.st_dev) << 32 | minor(info.st_dev),
		.inode = info.st_ino,
		.name = "/memfd:fleetprof-vdso (deleted)",
	};
	return 0;
}

int fp_vdso_file(struct fp_names_file *ret)
{
	static struct fp_names_file file;
	// The address is an integer by the interface of getauxval.
	const void *image = // NOLINTNEXTLINE(performance-no-int-to-ptr)
	    (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size = image ? image_size(image) : 0;
	int r = file.name ? 0 : size ? make_file(image, size, &file) : -ENOENT;

	if (r == 0)
		*ret = file;
	return r;
}
