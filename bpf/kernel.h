/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel: the few kernel types and constants that our programs read, trimmed by hand.
 * Fields are found by name at load time (CO-RE), so only names and types matter here,
 * not offsets. Constants that the kernel keeps stable are spelled out with their source.
 */
#ifndef FLEETPROF_KERNEL_H
#define FLEETPROF_KERNEL_H

#include "bpf/abi.h"

typedef fp_u8 __u8;
typedef fp_u16 __u16;
typedef fp_u32 __u32;
typedef fp_u64 __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_F_USER_STACK = 1 << 8 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

/* include/linux/sched.h: task_struct.flags and task states */
#define PF_IO_WORKER	     0x00000010
#define PF_USER_WORKER	     0x00004000
#define PF_KTHREAD	     0x00200000
#define TASK_INTERRUPTIBLE   0x01
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_STOPPED	     0x04
#define TASK_TRACED	     0x08
#define TASK_DEAD	     0x80
#define TASK_NOLOAD	     0x400 /* an idle kernel thread's TASK_IDLE */

/* arch/x86/include/asm/segment.h: code segment of 32-bit user code */
#define FP_USER32_CS 0x23

/* include/uapi/asm-generic/errno-base.h */
#define FP_E2BIG  7
#define FP_EEXIST 17

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs { /* x86-64 */
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long ip, cs, sp;
};

struct thread_struct {
	unsigned long fsbase;
};

struct maple_tree {
	void *ma_root;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct mm_struct {
	struct maple_tree mm_mt; /* from 6.1 on */
	unsigned long end_code;
	unsigned long start_stack;
	mm_context_t context;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	u64 i_ino;
	u32 i_generation;
	struct super_block *i_sb;
	s64 i_ctime_sec;
	u32 i_ctime_nsec;
};

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

/* before 6.6, and before 6.11 */
struct inode___before_6_6 {
	struct timespec64 i_ctime;
};
struct inode___before_6_11 {
	struct timespec64 __i_ctime;
};

struct file {
	struct inode *f_inode;
};

/* lib/maple_tree.c: the two kinds of node that a mm's tree has */
struct maple_metadata {
	u8 end;
};

struct maple_range_64 {
	unsigned long pivot[15];
	union {
		void *slot[16];
		struct {
			void *pad[15];
			struct maple_metadata meta;
		};
	};
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
	struct maple_metadata meta;
};

struct vm_userfaultfd_ctx {
	void *ctx;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	struct file *vm_file;
	struct vm_userfaultfd_ctx vm_userfaultfd_ctx; /* empty without CONFIG_USERFAULTFD */
};

struct rq {
	u64 clock;
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
	struct cfs_rq *cfs_rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* CGROUP_SUBSYS_COUNT of the running kernel */
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	unsigned int flags;
	unsigned int __state;
	unsigned int in_execve : 1;
	int on_rq;
	int on_cpu;
	struct sched_entity se;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	u64 start_time;
	u64 start_boottime;
	u64 self_exec_id;
	struct mm_struct *mm;
	char comm[FP_COMM_LEN];
	struct css_set *cgroups;
	struct thread_struct thread;
};

/* before 5.14 */
struct task_struct___before_5_14 {
	long state;
};

#pragma clang attribute pop

/* The context of a perf-event program; the verifier rewrites accesses to it. Full layout of
 * struct pt_regs on x86-64, since this one is not relocated. */
struct bpf_perf_event_data {
	struct {
		unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
		unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
	} regs;
	u64 sample_period;
	u64 addr;
};

#endif
