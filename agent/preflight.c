// SPDX-License-Identifier: Apache-2.0
#include "preflight.h"

#include "privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <string.h>

const char *fp_preflight_status_name(enum fp_preflight_status status)
{
	static const char *const names[] = { "PASS", "WARN", "FAIL" };

	return names[status];
}

struct judge {
	const struct fp_preflight_facts *facts;
	const struct fp_preflight_options *options;
	struct fp_preflight_row *row;
};

static void finding(struct judge *judge, enum fp_preflight_status status, const char *format, ...)
    FP_PRINTF(3, 4);
static void finding(struct judge *judge, enum fp_preflight_status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(judge->row->finding, sizeof(judge->row->finding), format, arguments);
	va_end(arguments);
	judge->row->status = status;
}

static void fix(struct judge *judge, const char *text)
{
	snprintf(judge->row->fix, sizeof(judge->row->fix), "%s", text);
}

static void judge_user_namespace(struct judge *judge)
{
	if (!judge->facts->user_namespace) {
		finding(judge, FP_PREFLIGHT_PASS, "in the initial user namespace");
		return;
	}
	finding(
	    judge, FP_PREFLIGHT_FAIL,
	    "running in a user namespace, whose capabilities do not reach the kernel's tracing");
	fix(judge, "run outside of it: no PrivateUsers=, no rootless container, hostUsers: true");
}

static bool has_capability(const struct fp_preflight_facts *facts, int capability)
{
	// Before 5.8, and still, CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON.
	bool by_admin = (capability == CAP_BPF || capability == CAP_PERFMON) &&
			facts->capabilities & 1ULL << CAP_SYS_ADMIN;

	return by_admin || facts->capabilities & 1ULL << capability;
}

static void judge_privileges(struct judge *judge)
{
	char missing[160] = "";
	const char *loss = "";
	bool required = false;

	for (size_t i = FP_CAPABILITY_COUNT; i-- > 0;) {
		const struct fp_capability *one = &fp_capabilities[i];
		char before[160];

		if (has_capability(judge->facts, one->capability))
			continue;
		memcpy(before, missing, sizeof(before));
		snprintf(missing, sizeof(missing), "%s%s%.120s", one->name, before[0] ? ", " : "",
			 before);
		loss = one->loss;
		required |= one->required;
	}
	if (!missing[0]) {
		finding(judge, FP_PREFLIGHT_PASS, "uid %u has the six capabilities",
			judge->facts->uid);
		return;
	}
	finding(judge, required ? FP_PREFLIGHT_FAIL : FP_PREFLIGHT_WARN, "uid %u lacks %s: %s",
		judge->facts->uid, missing, loss);
	fix(judge, "run as root, or give these capabilities to the service or the container");
}

static void judge_kernel(struct judge *judge)
{
	const struct fp_preflight_facts *facts = judge->facts;
	const struct fp_preflight_options *options = judge->options;

	if (fp_kernel_list_has(options->kernel_deny, &facts->kernel)) {
		finding(judge, options->allow_unsafe_kernel ? FP_PREFLIGHT_WARN : FP_PREFLIGHT_FAIL,
			"kernel %s is on the list agent.kernel_deny", facts->release);
		fix(judge,
		    "update the kernel, or set agent.allow_unsafe_kernel = yes at your own risk");
	} else if (fp_kernel_list_has(options->kernel_warn, &facts->kernel)) {
		finding(judge, FP_PREFLIGHT_WARN,
			"kernel %s is on the list agent.kernel_warn: trouble in sampling is known",
			facts->release);
		fix(judge, "update the kernel to the newest of its series");
	} else if (fp_kernel_list_has(options->kernel_no_user_read, &facts->kernel)) {
		finding(
		    judge, FP_PREFLIGHT_WARN,
		    "kernel %s may freeze when a sample reads user memory: its own helper walks "
		    "the stacks, which costs more",
		    facts->release);
		fix(judge, "update the kernel to the newest of its series");
	} else {
		finding(judge, FP_PREFLIGHT_PASS, "kernel %s (%u.%u.%u)", facts->release,
			facts->kernel.parts[0], facts->kernel.parts[1], facts->kernel.parts[2]);
	}
}

static void judge_btf(struct judge *judge)
{
	if (judge->facts->btf == 0) {
		finding(judge, FP_PREFLIGHT_PASS, "the kernel describes its types (BTF)");
		return;
	}
	finding(judge, FP_PREFLIGHT_FAIL,
		"the kernel does not describe its types: '/sys/kernel/btf/vmlinux': %s",
		strerror(-judge->facts->btf));
	fix(judge,
	    judge->facts->btf == -ENOENT
		? "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, and show /sys to the agent"
		: "make it readable to the agent");
}

static void judge_lockdown(struct judge *judge)
{
	switch (judge->facts->lockdown) {
	case FP_LOCKDOWN_CONFIDENTIALITY:
		finding(
		    judge, FP_PREFLIGHT_FAIL,
		    "kernel lockdown is in confidentiality mode, which forbids BPF to read memory");
		fix(judge, "boot with lockdown=integrity");
		return;
	case FP_LOCKDOWN_INTEGRITY:
		finding(judge, FP_PREFLIGHT_PASS, "kernel lockdown is in integrity mode");
		return;
	case FP_LOCKDOWN_NONE:
		finding(judge, FP_PREFLIGHT_PASS, "kernel lockdown is off");
		return;
	case FP_LOCKDOWN_UNKNOWN:
		break;
	}
	finding(judge, FP_PREFLIGHT_PASS, "the kernel names no lockdown mode (no securityfs)");
}

static void judge_bpf(struct judge *judge)
{
	int error = judge->facts->bpf_program;

	if (error == 0) {
		finding(judge, FP_PREFLIGHT_PASS, "BPF programs load");
		return;
	}
	finding(judge, FP_PREFLIGHT_FAIL, "the kernel refuses to load a BPF program: %s",
		strerror(-error));
	if (error == -ENOSYS)
		fix(judge, "use a kernel built with CONFIG_BPF_SYSCALL=y");
	else if (error == -ENOMEM)
		fix(judge, "raise the memory limit (LimitMEMLOCK=infinity)");
	else
		fix(judge, "give CAP_BPF and CAP_PERFMON, and let the seccomp filter pass bpf(2)");
}

static void judge_ring_buffer(struct judge *judge)
{
	int error = judge->facts->ring_buffer;

	if (error == 0) {
		finding(judge, FP_PREFLIGHT_PASS, "the kernel has BPF ring buffers");
		return;
	}
	if (error == -EINVAL) {
		finding(judge, FP_PREFLIGHT_FAIL, "kernel %s has no BPF ring buffers",
			judge->facts->release);
		fix(judge, "use a kernel of 5.8 or newer");
		return;
	}
	finding(judge, FP_PREFLIGHT_FAIL, "no BPF ring buffer could be made: %s", strerror(-error));
	fix(judge, error == -EPERM ? "give CAP_BPF, and let the seccomp filter pass bpf(2)"
				   : "raise the memory limit (LimitMEMLOCK=infinity)");
}

static void judge_loop(struct judge *judge)
{
	if (judge->facts->bpf_loop == 0) {
		finding(judge, FP_PREFLIGHT_PASS, "BPF programs may loop over a stack's frames");
		return;
	}
	finding(judge, FP_PREFLIGHT_FAIL, "kernel %s has no bpf_loop, by which stacks are walked",
		judge->facts->release);
	fix(judge, "use a kernel of 5.17 or newer");
}

static void judge_perf(struct judge *judge)
{
	const struct fp_preflight_facts *facts = judge->facts;

	if (facts->perf_event == 0 && !fp_preflight_needs_admin(facts)) {
		finding(judge, FP_PREFLIGHT_PASS, "perf events open (perf_event_paranoid is %d)",
			facts->perf_event_paranoid);
		return;
	}
	if (facts->perf_event == 0) {
		finding(judge, FP_PREFLIGHT_WARN,
			"perf_event_paranoid is %d and this kernel then wants CAP_SYS_ADMIN, which "
			"the agent keeps for that one call",
			facts->perf_event_paranoid);
		fix(judge, "to do without it: sysctl kernel.perf_event_paranoid=2");
		return;
	}
	finding(judge, FP_PREFLIGHT_FAIL, "no perf event opens: %s (perf_event_paranoid is %d)",
		strerror(-facts->perf_event), facts->perf_event_paranoid);
	if (facts->perf_event_paranoid >= 3)
		fix(judge, "give CAP_SYS_ADMIN, or sysctl kernel.perf_event_paranoid=2");
	else if (facts->perf_event == -ENOSYS)
		fix(judge, "use a kernel built with CONFIG_PERF_EVENTS=y");
	else
		fix(judge, "give CAP_PERFMON, and let the seccomp filter pass perf_event_open(2)");
}

static void judge_rate(struct judge *judge)
{
	int limit = judge->facts->perf_event_max_sample_rate;

	if (limit == FP_PREFLIGHT_UNREADABLE || (uint32_t)limit >= judge->options->cpu_hz) {
		finding(judge, FP_PREFLIGHT_PASS, "%u samples per second and CPU are allowed",
			judge->options->cpu_hz);
		return;
	}
	finding(judge, FP_PREFLIGHT_WARN,
		"%u samples per second are asked for, the kernel allows %d: that rate is used",
		judge->options->cpu_hz, limit);
	fix(judge, "raise kernel.perf_event_max_sample_rate, or lower cpu.hz");
}

static void judge_depth(struct judge *judge)
{
	int depth = judge->facts->perf_event_max_stack;

	if (depth == FP_PREFLIGHT_UNREADABLE || depth >= 127) {
		finding(judge, FP_PREFLIGHT_PASS, "kernel stacks are taken to full depth");
		return;
	}
	finding(judge, FP_PREFLIGHT_WARN, "kernel stacks are cut at %d frames", depth);
	fix(judge, "sysctl kernel.perf_event_max_stack=127");
}

static void judge_symbols(struct judge *judge)
{
	if (judge->facts->kernel_symbols) {
		finding(judge, FP_PREFLIGHT_PASS, "/proc/kallsyms shows the kernel's addresses");
		return;
	}
	finding(
	    judge, FP_PREFLIGHT_WARN,
	    "/proc/kallsyms hides the kernel's addresses (kptr_restrict is %d): no kernel frames",
	    judge->facts->kptr_restrict);
	fix(judge, judge->facts->kptr_restrict >= 2
		       ? "sysctl kernel.kptr_restrict=1"
		       : "give CAP_SYSLOG, no ProtectKernelLogs=, no ProtectKernelTunables=");
}

static int hook_error(const struct fp_preflight_facts *facts, enum fp_offcpu_hook hook)
{
	switch (hook) {
	case FP_HOOK_IRQ_WORK:
		return facts->hook_irq_work;
	case FP_HOOK_SCHED_EXIT:
		return facts->hook_sched_exit ? 0 : -EOPNOTSUPP;
	case FP_HOOK_FEXIT:
		return facts->hook_fexit;
	default:
		return 0;
	}
}

static const char *hook_text(enum fp_offcpu_hook hook)
{
	static const char *const texts[FP_HOOK_COUNT] = {
		[FP_HOOK_IRQ_WORK] = "sched_switch, stacks by irq_work",
		[FP_HOOK_SCHED_EXIT] = "sched_switch and sched_exit_tp",
		[FP_HOOK_FEXIT] = "sched_switch and fexit of schedule",
		[FP_HOOK_WAY_OUT] = "sched_switch, stacks on the way out",
	};

	return texts[hook];
}

// off_cpu.hook names one: that or nothing.
static void judge_forced_hook(struct judge *judge, enum fp_offcpu_hook hook)
{
	int error = hook_error(judge->facts, hook);

	if (!error) {
		finding(judge, FP_PREFLIGHT_PASS,
			"blocked time is measured by %s, as off_cpu.hook = %s wants it",
			hook_text(hook), fp_offcpu_hook_name(hook));
		return;
	}
	finding(judge, judge->options->off_cpu ? FP_PREFLIGHT_FAIL : FP_PREFLIGHT_WARN,
		"off_cpu.hook = %s, which does not work on this kernel (%s)",
		fp_offcpu_hook_name(hook), strerror(-error));
	fix(judge, "set off_cpu.hook = auto, which takes the first hook that the kernel has");
}

static void judge_off_cpu(struct judge *judge)
{
	const struct fp_preflight_facts *facts = judge->facts;
	enum fp_offcpu_hook hook = FP_HOOK_IRQ_WORK;

	if (!facts->hook_switch && facts->btf == 0) {
		finding(judge, judge->options->off_cpu ? FP_PREFLIGHT_FAIL : FP_PREFLIGHT_WARN,
			"the kernel has no sched_switch tracepoint: no off-CPU profiles");
		fix(judge,
		    "set off_cpu.enabled = no, or use a kernel built with CONFIG_TRACEPOINTS=y");
		return;
	}
	if (judge->options->hook != FP_HOOK_AUTO) {
		judge_forced_hook(judge, judge->options->hook);
		return;
	}
	while (hook_error(facts, hook) != 0)
		hook++;
	if (hook != FP_HOOK_WAY_OUT) {
		finding(judge, FP_PREFLIGHT_PASS, "blocked time is measured by %s%s",
			hook_text(hook),
			facts->hook_irq_work == -ETIME
			    ? "; irq_work was tried, and its interrupt does not come here"
			    : "");
		return;
	}
	finding(judge, FP_PREFLIGHT_WARN,
		"the kernel has neither irq_work_entry nor sched_exit_tp and refuses fexit "
		"programs (%s): blocked "
		"stacks are taken on the way out, so fewer of them are kept for the same cost",
		strerror(-facts->hook_fexit));
	fix(judge, "none needed; a larger off_cpu.walk_budget makes the estimates sharper");
}

static void judge_pids(struct judge *judge)
{
	if (!judge->facts->pid_namespace) {
		finding(judge, FP_PREFLIGHT_PASS, "in the initial PID namespace");
		return;
	}
	finding(judge, FP_PREFLIGHT_WARN,
		"running in a PID namespace: processes outside of it cannot be looked up");
	fix(judge, "run with the host's: hostPID: true, --pid=host");
}

static void judge_cgroup(struct judge *judge)
{
	static const char *const texts[] = { "no cgroups are mounted", "cgroup v1",
					     "cgroup v1 and v2 (hybrid)", "cgroup v2" };

	finding(judge, FP_PREFLIGHT_PASS, "%s", texts[judge->facts->cgroup]);
}

static const struct check {
	const char *name;
	void (*judge)(struct judge *judge);
	bool of_caller;
} checks[] = {
	{ "user_namespace", judge_user_namespace, true },
	{ "privileges", judge_privileges, true },
	{ "kernel", judge_kernel, false },
	{ "btf", judge_btf, false },
	{ "lockdown", judge_lockdown, false },
	{ "bpf", judge_bpf, true },
	{ "ring_buffer", judge_ring_buffer, true },
	{ "bpf_loop", judge_loop, false },
	{ "perf_events", judge_perf, true },
	{ "sample_rate", judge_rate, false },
	{ "stack_depth", judge_depth, false },
	{ "kernel_symbols", judge_symbols, true },
	{ "off_cpu", judge_off_cpu, false },
	{ "pid_namespace", judge_pids, false },
	{ "cgroup", judge_cgroup, false },
};
_Static_assert(FP_ARRAY_SIZE(checks) <= FP_PREFLIGHT_ROWS_MAX, "room for every check");

size_t fp_preflight_judge(const struct fp_preflight_facts *facts,
			  const struct fp_preflight_options *options,
			  struct fp_preflight_row ret_rows[FP_PREFLIGHT_ROWS_MAX])
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(checks); i++) {
		struct judge judge = { .facts = facts, .options = options, .row = &ret_rows[i] };

		ret_rows[i] = (struct fp_preflight_row){ .name = checks[i].name,
							 .of_caller = checks[i].of_caller };
		checks[i].judge(&judge);
	}
	return FP_ARRAY_SIZE(checks);
}

bool fp_preflight_needs_admin(const struct fp_preflight_facts *facts)
{
	return facts->perf_event == 0 && facts->perf_event_plain != 0;
}
