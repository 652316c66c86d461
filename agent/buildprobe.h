// SPDX-License-Identifier: Apache-2.0
//
// buildprobe: the build-ID of a file that a running process has mapped, as the kernel reads
// it, for kernels without PROCMAP_QUERY (before 6.11). A page of the file is mapped
// executable into this process and unmapped at once; a perf event on this thread alone
// reports the mapping together with the build-ID. So no ELF is parsed here, and no byte
// of the file is read: truncating it under us does no harm.
// Needs PERF_RECORD_MMAP2 with build-IDs (5.12). A file on a noexec mount has no answer.
// Threads: the one that opened the probe.
#pragma once

#include <stdint.h>

struct fp_build_probe;

int fp_build_probe_open(struct fp_build_probe **ret); // -errno of perf_event_open or mmap
void fp_build_probe_free(struct fp_build_probe *probe);
// fd: the file, open for reading. ret_id: 20 bytes; *ret_len 0 when the file has no build-ID.
// Errors: -errno of mmap (-EPERM on noexec mounts), -ENODATA when the kernel said nothing.
int fp_build_probe_read(struct fp_build_probe *probe, int fd, uint8_t ret_id[20], uint8_t *ret_len);
