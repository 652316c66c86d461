// SPDX-License-Identifier: Apache-2.0
//
// The facts of preflight.h, each asked of the kernel in the cheapest way that is certain.
#include "preflight.h"

#include "privilege.h"
#include "common/file.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#define SYSCTL_KERNEL	"/proc/sys/kernel/"
#define PROBE_PERIOD_NS 100000000 // never fires: the event stays disabled
// Fixed inode numbers of the initial namespaces (include/linux/proc_ns.h).
#define PID_NAMESPACE_INITIAL  "pid:[4026531836]"
#define USER_NAMESPACE_INITIAL "user:[4026531837]"

static int read_number(const char *path)
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	char *end;
	long number;

	if (fp_file_read(path, 64, &text) < 0 || fp_buf_byte(&text, '\0') < 0)
		return FP_PREFLIGHT_UNREADABLE;
	number = strtol((const char *)text.data, &end, 10);
	return end == (const char *)text.data ? FP_PREFLIGHT_UNREADABLE : (int)number;
}

static void gather_kernel(struct fp_preflight_facts *facts)
{
	struct fp_buf signature FP_AUTOBUF = { 0 };
	struct utsname uts = { 0 };
	bool has_signature;

	uname(&uts);
	snprintf(facts->release, sizeof(facts->release), "%s", uts.release);
	has_signature = fp_file_read("/proc/version_signature", 256, &signature) == 0 &&
			fp_buf_byte(&signature, '\0') == 0;
	fp_kernel_version_parse(uts.release, uts.version,
				has_signature ? (const char *)signature.data : NULL,
				&facts->kernel);
}

static bool is_other_namespace(const char *path, const char *initial)
{
	char link[64];
	ssize_t size = readlink(path, link, sizeof(link) - 1);

	if (size < 0)
		return false;
	link[size] = '\0';
	return strcmp(link, initial) != 0;
}

static enum fp_lockdown read_lockdown(void)
{
	struct fp_buf text FP_AUTOBUF = { 0 };

	if (fp_file_read("/sys/kernel/security/lockdown", 256, &text) < 0 ||
	    fp_buf_byte(&text, '\0') < 0)
		return FP_LOCKDOWN_UNKNOWN;
	if (strstr((const char *)text.data, "[confidentiality]"))
		return FP_LOCKDOWN_CONFIDENTIALITY;
	if (strstr((const char *)text.data, "[integrity]"))
		return FP_LOCKDOWN_INTEGRITY;
	return strstr((const char *)text.data, "[none]") ? FP_LOCKDOWN_NONE : FP_LOCKDOWN_UNKNOWN;
}

static int probe_btf(void)
{
	int fd FP_AUTOCLOSE = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

static int probe_program(void)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd FP_AUTOCLOSE = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "fp_probe", "GPL",
					    instructions, FP_ARRAY_SIZE(instructions), NULL);

	return fd < 0 ? -errno : 0;
}

static int probe_ring_buffer(void)
{
	int fd FP_AUTOCLOSE =
	    bpf_map_create(BPF_MAP_TYPE_RINGBUF, "fp_probe", 0, 0, (uint32_t)getpagesize(), NULL);

	return fd < 0 ? -errno : 0;
}

// The stack walk loops through it. An error of the probe itself is no verdict: then the
// program check above has already failed for the same cause.
static int probe_bpf_loop(void)
{
	int found = libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL);

	return found == 0 ? -EOPNOTSUPP : 0;
}

static int probe_perf_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PROBE_PERIOD_NS,
		.disabled = 1,
	};
	int cpu = sched_getcpu();
	int fd FP_AUTOCLOSE = (int)syscall(SYS_perf_event_open, &attr, -1, cpu < 0 ? 0 : cpu, -1,
					   PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

static void gather_perf(struct fp_preflight_facts *facts)
{
	fp_privilege_admin(false);
	facts->perf_event_plain = probe_perf_event();
	fp_privilege_admin(true);
	facts->perf_event = probe_perf_event();
	facts->perf_event_paranoid = read_number(SYSCTL_KERNEL "perf_event_paranoid");
	facts->perf_event_max_sample_rate = read_number(SYSCTL_KERNEL "perf_event_max_sample_rate");
	facts->perf_event_max_stack = read_number(SYSCTL_KERNEL "perf_event_max_stack");
}

// Some leading symbols are per-CPU offsets that are truly zero: look at a good stretch.
static bool kallsyms_show_addresses(void)
{
	FILE *file FP_AUTOFCLOSE = fopen("/proc/kallsyms", "re");
	char line[512];

	for (int i = 0; file && i < 2000 && fgets(line, sizeof(line), file); i++)
		if (strtoull(line, NULL, 16) > 0xffffffffULL)
			return true;
	return false;
}

// Loads and attaches a program that does nothing at the end of schedule: lockdown, or a kernel
// without trampolines, refuses one or the other.
static int probe_fexit(void)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FEXIT);
	int id = libbpf_find_vmlinux_btf_id("schedule", BPF_TRACE_FEXIT);
	int program FP_AUTOCLOSE = -1, link FP_AUTOCLOSE = -1;

	if (id < 0)
		return id;
	options.attach_btf_id = (uint32_t)id;
	program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "fp_probe", "GPL", instructions,
				FP_ARRAY_SIZE(instructions), &options);
	if (program < 0)
		return -errno;
	link = bpf_raw_tracepoint_open(NULL, program);
	return link < 0 ? -errno : 0;
}

static void gather_hooks(enum fp_offcpu_hook hook, struct fp_preflight_facts *facts)
{
	struct btf *btf = facts->btf == 0 ? btf__load_vmlinux_btf() : NULL;

	facts->hook_irq_work = -EOPNOTSUPP;
	if (!btf)
		return;
	facts->hook_switch =
	    btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF) > 0;
	facts->hook_sched_exit =
	    btf__find_by_name_kind(btf, "btf_trace_sched_exit_tp", BTF_KIND_TYPEDEF) > 0;
	btf__free(btf);
	if (facts->bpf_program == 0)
		facts->hook_irq_work = fp_sampler_try_irq_work();
	if (hook == FP_HOOK_AUTO && (facts->hook_sched_exit || facts->hook_irq_work == 0))
		return; // nobody attaches to schedule for nothing
	if (hook == FP_HOOK_AUTO || hook == FP_HOOK_FEXIT)
		facts->hook_fexit = probe_fexit();
}

static bool is_cgroup2(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static enum fp_cgroup_mode read_cgroup_mode(void)
{
	if (is_cgroup2("/sys/fs/cgroup"))
		return FP_CGROUP_V2;
	if (is_cgroup2("/sys/fs/cgroup/unified"))
		return FP_CGROUP_HYBRID;
	return access("/sys/fs/cgroup/memory", F_OK) == 0 ||
		       access("/sys/fs/cgroup/systemd", F_OK) == 0
		   ? FP_CGROUP_V1
		   : FP_CGROUP_NONE;
}

void fp_preflight_gather(enum fp_offcpu_hook hook, struct fp_preflight_facts *ret)
{
	struct fp_preflight_facts facts = { .uid = geteuid() };

	gather_kernel(&facts);
	fp_privilege_effective(&facts.capabilities);
	facts.user_namespace = is_other_namespace("/proc/self/ns/user", USER_NAMESPACE_INITIAL);
	facts.pid_namespace = is_other_namespace("/proc/self/ns/pid", PID_NAMESPACE_INITIAL);
	facts.btf = probe_btf();
	facts.lockdown = read_lockdown();
	facts.bpf_program = probe_program();
	facts.ring_buffer = probe_ring_buffer();
	facts.bpf_loop = probe_bpf_loop();
	gather_perf(&facts);
	facts.kptr_restrict = read_number(SYSCTL_KERNEL "kptr_restrict");
	facts.kernel_symbols = kallsyms_show_addresses();
	gather_hooks(hook, &facts);
	facts.cgroup = read_cgroup_mode();
	*ret = facts;
}
