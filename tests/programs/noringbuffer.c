// SPDX-License-Identifier: Apache-2.0
//
// noringbuffer: a library to preload that makes this kernel answer like one from before 5.8:
// bpf(2) knows no map type BPF_MAP_TYPE_RINGBUF and says EINVAL. Everything else passes.
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <sys/syscall.h>

long syscall(long number, ...);

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long words[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && words[0] == BPF_MAP_CREATE &&
	    ((const union bpf_attr *)words[1])->map_type == BPF_MAP_TYPE_RINGBUF) {
		errno = EINVAL;
		return -1;
	}
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
