// SPDX-License-Identifier: Apache-2.0
//
// kicks: the ring buffers through which the BPF programs make their CPU interrupt itself
// (bpf/offcpu.bpf.c, kick). Their records are empty and nobody waits for them; only room has to
// be made now and then.
// Threads: one owner.
#pragma once

#include <stdint.h>

struct fp_kicks;

// A ring for each possible CPU, put into the map of maps. 0 or -errno.
int fp_kicks_new(int outer_fd, uint32_t cpus, struct fp_kicks **ret);
void fp_kicks_free(struct fp_kicks *kicks);
// Makes room again: at least once for every 512 kicks of a CPU.
void fp_kicks_clear(struct fp_kicks *kicks);
uint32_t fp_kicks_count(const struct fp_kicks *kicks);
int fp_kicks_fd(const struct fp_kicks *kicks, uint32_t cpu);
