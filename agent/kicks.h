// SPDX-License-Identifier: Apache-2.0
//
// kicks: the ring buffers through which the BPF programs make their CPU interrupt itself
// (bpf/offcpu.bpf.c, kick): one for each possible CPU, always empty. Linux 6.1.
#pragma once

#include <stdint.h>

struct fp_kicks {
	int *fds;
	uint32_t count;
};

// How many the map of maps must have room for: CPUs are numbered with gaps on some hosts.
uint32_t fp_kicks_needed(void);
// Makes the rings and puts them into the map of maps. 0 or -errno; fp_kicks_free in any case.
int fp_kicks_open(int outer_fd, uint32_t cpus, struct fp_kicks *ret);
void fp_kicks_free(struct fp_kicks *kicks);
