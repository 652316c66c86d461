// SPDX-License-Identifier: Apache-2.0
#include "agent/preflight.h"

#include "agent/config.h"
#include "agent/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

// A host on which everything is in order.
static struct fp_preflight_facts good_host(void)
{
	struct fp_preflight_facts facts = {
		.release = "6.12.1",
		.kernel = { { 6, 12, 1 } },
		.lockdown = FP_LOCKDOWN_INTEGRITY,
		.perf_event_paranoid = 2,
		.perf_event_max_sample_rate = 100000,
		.perf_event_max_stack = 127,
		.kernel_symbols = true,
		.hook_switch = true,
		.hook_irq_work = -EOPNOTSUPP,
		.hook_sched_exit = true,
		.cgroup = FP_CGROUP_V2,
	};

	for (size_t i = 0; i < FP_CAPABILITY_COUNT; i++)
		facts.capabilities |= 1ULL << fp_capabilities[i].capability;
	return facts;
}

static struct fp_preflight_facts facts;
static struct fp_preflight_options options;

static void nothing(void) {}
static void not_root(void)
{
	facts.uid = 65534;
	facts.capabilities = 0;
	facts.bpf_program = facts.ring_buffer = -EPERM;
	facts.perf_event = facts.perf_event_plain = -EACCES;
	facts.kernel_symbols = false;
}
static void no_syslog(void)
{
	facts.capabilities &= ~(1ULL << CAP_SYSLOG);
}
static void only_admin(void)
{
	facts.capabilities &= ~(1ULL << CAP_BPF | 1ULL << CAP_PERFMON);
	facts.capabilities |= 1ULL << CAP_SYS_ADMIN;
}
static void user_namespace(void)
{
	facts.user_namespace = true;
	facts.bpf_program = -EPERM;
}
static void no_btf(void)
{
	facts.btf = -ENOENT;
	facts.hook_switch = facts.hook_sched_exit = false;
}
static void confidentiality(void)
{
	facts.lockdown = FP_LOCKDOWN_CONFIDENTIALITY;
}
static void no_bpf_loop(void)
{
	facts.bpf_loop = -EOPNOTSUPP;
}
static void no_ring_buffer(void)
{
	facts.ring_buffer = -EINVAL;
}
static void ring_buffer_forbidden(void)
{
	facts.ring_buffer = -EPERM;
}
static void no_bpf(void)
{
	facts.bpf_program = facts.ring_buffer = -ENOSYS;
}
static void debian_paranoid(void)
{
	facts.perf_event_paranoid = 3;
	facts.perf_event_plain = -EACCES;
}
static void debian_paranoid_without_admin(void)
{
	debian_paranoid();
	facts.perf_event = -EACCES;
}
static void rate_lowered(void)
{
	facts.perf_event_max_sample_rate = 10;
}
static void depth_lowered(void)
{
	facts.perf_event_max_stack = 64;
}
static void symbols_hidden(void)
{
	facts.kernel_symbols = false;
	facts.kptr_restrict = 2;
}
static void older_kernel(void)
{
	facts.hook_sched_exit = false;
	facts.hook_fexit = 0;
}
static void older_kernel_locked(void)
{
	facts.hook_sched_exit = false;
	facts.hook_fexit = -EPERM;
}
static void interrupt_does_not_come(void)
{
	facts.hook_irq_work = -ETIME;
}
static void fexit_forced(void)
{
	options.hook = FP_HOOK_FEXIT;
	facts.hook_fexit = -EPERM;
}
static void way_out_forced(void)
{
	options.hook = FP_HOOK_WAY_OUT;
	facts.hook_fexit = -EPERM;
}
static void irq_work_forced_in_vain(void)
{
	options.hook = FP_HOOK_IRQ_WORK;
	interrupt_does_not_come();
}
static void forced_but_off(void)
{
	fexit_forced();
	options.off_cpu = false;
}
static void denied_kernel(void)
{
	facts.kernel = (struct fp_kernel_version){ { 4, 19, 300 } };
}
static void denied_kernel_allowed(void)
{
	denied_kernel();
	options.allow_unsafe_kernel = true;
}
static void freezing_kernel(void)
{
	facts.kernel = (struct fp_kernel_version){ { 6, 1, 20 } };
}
static void other_pids(void)
{
	facts.pid_namespace = true;
}

static const struct {
	const char *sentence;
	void (*change)(void);
	const char *row; // that is not PASS; NULL: none
	enum fp_preflight_status status;
	const char *finding, *fix; // parts of them
} table[] = {
	{ "a good host passes", nothing, NULL, FP_PREFLIGHT_PASS, "", "" },
	{ "without root the first failure names the capabilities", not_root, "privileges",
	  FP_PREFLIGHT_FAIL, "CAP_BPF, CAP_PERFMON", "run as root" },
	{ "one capability less costs what it is for", no_syslog, "privileges", FP_PREFLIGHT_WARN,
	  "CAP_SYSLOG", "" },
	{ "CAP_SYS_ADMIN stands for the two it once was", only_admin, NULL, FP_PREFLIGHT_PASS, "",
	  "" },
	{ "a user namespace is the cause, not what follows from it", user_namespace,
	  "user_namespace", FP_PREFLIGHT_FAIL, "user namespace", "hostUsers" },
	{ "no BTF is refused", no_btf, "btf", FP_PREFLIGHT_FAIL, "/sys/kernel/btf/vmlinux",
	  "CONFIG_DEBUG_INFO_BTF" },
	{ "lockdown confidentiality is refused", confidentiality, "lockdown", FP_PREFLIGHT_FAIL,
	  "confidentiality", "lockdown=integrity" },
	{ "a kernel without bpf_loop is refused", no_bpf_loop, "bpf_loop", FP_PREFLIGHT_FAIL,
	  "no bpf_loop", "5.17" },
	{ "a kernel without ring buffers is refused", no_ring_buffer, "ring_buffer",
	  FP_PREFLIGHT_FAIL, "no BPF ring buffers", "5.8" },
	{ "ring buffers that are forbidden are another matter", ring_buffer_forbidden,
	  "ring_buffer", FP_PREFLIGHT_FAIL, "Operation not permitted", "CAP_BPF" },
	{ "a kernel without BPF is refused", no_bpf, "bpf", FP_PREFLIGHT_FAIL, "not implemented",
	  "CONFIG_BPF_SYSCALL" },
	{ "Debian's paranoid level 3 keeps CAP_SYS_ADMIN", debian_paranoid, "perf_events",
	  FP_PREFLIGHT_WARN, "CAP_SYS_ADMIN", "perf_event_paranoid=2" },
	{ "without CAP_SYS_ADMIN it is refused", debian_paranoid_without_admin, "perf_events",
	  FP_PREFLIGHT_FAIL, "Permission denied", "CAP_SYS_ADMIN" },
	{ "a lower rate limit is said", rate_lowered, "sample_rate", FP_PREFLIGHT_WARN, "allows 10",
	  "perf_event_max_sample_rate" },
	{ "a lower depth limit is said", depth_lowered, "stack_depth", FP_PREFLIGHT_WARN, "64",
	  "perf_event_max_stack=127" },
	{ "hidden kernel addresses are said", symbols_hidden, "kernel_symbols", FP_PREFLIGHT_WARN,
	  "no kernel frames", "kptr_restrict=1" },
	{ "without sched_exit_tp the end of schedule serves", older_kernel, NULL, FP_PREFLIGHT_PASS,
	  "", "" },
	{ "without either, fewer stacks for the same cost", older_kernel_locked, "off_cpu",
	  FP_PREFLIGHT_WARN, "Operation not permitted", "walk_budget" },
	{ "an interrupt that does not come gives way to the next hook", interrupt_does_not_come,
	  NULL, FP_PREFLIGHT_PASS, "", "" },
	{ "a hook that is asked for and refused is an error", fexit_forced, "off_cpu",
	  FP_PREFLIGHT_FAIL, "off_cpu.hook = fexit", "off_cpu.hook = auto" },
	{ "but not where there is nothing to profile", forced_but_off, "off_cpu", FP_PREFLIGHT_WARN,
	  "Operation not permitted", "off_cpu.hook = auto" },
	{ "nor where it works, whatever others do", way_out_forced, NULL, FP_PREFLIGHT_PASS, "",
	  "" },
	{ "nor does an interrupt that does not come become one by asking for it",
	  irq_work_forced_in_vain, "off_cpu", FP_PREFLIGHT_FAIL, "off_cpu.hook = irq_work",
	  "off_cpu.hook = auto" },
	{ "a denied kernel is refused", denied_kernel, "kernel", FP_PREFLIGHT_FAIL, "kernel_deny",
	  "allow_unsafe_kernel" },
	{ "and runs when it is allowed", denied_kernel_allowed, "kernel", FP_PREFLIGHT_WARN,
	  "kernel_deny", "" },
	{ "a kernel that freezes on user reads is said", freezing_kernel, "kernel",
	  FP_PREFLIGHT_WARN, "may freeze", "update" },
	{ "a PID namespace hides processes", other_pids, "pid_namespace", FP_PREFLIGHT_WARN,
	  "PID namespace", "hostPID" },
};

static const struct fp_preflight_row *first_worst(const struct fp_preflight_row *rows, size_t count)
{
	const struct fp_preflight_row *worst = NULL;

	for (size_t i = 0; i < count; i++)
		if (rows[i].status != FP_PREFLIGHT_PASS &&
		    (!worst || rows[i].status > worst->status))
			worst = &rows[i];
	return worst;
}

static void test_table(void **state)
{
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };

	assert_int_equal(fp_settings_defaults(&fp_agent_settings, &config, NULL), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(table); i++) {
		struct fp_preflight_row rows[FP_PREFLIGHT_ROWS_MAX];
		const struct fp_preflight_row *worst;

		print_message("  %s\n", table[i].sentence);
		facts = good_host();
		options = (struct fp_preflight_options){
			.cpu_hz = 19,
			.off_cpu = true,
			.kernel_deny = config.agent_kernel_deny,
			.kernel_warn = config.agent_kernel_warn,
			.kernel_no_user_read = config.agent_kernel_no_user_read,
		};
		table[i].change();
		worst = first_worst(rows, fp_preflight_judge(&facts, &options, rows));
		if (!table[i].row) {
			assert_null(worst);
			continue;
		}
		assert_non_null(worst);
		assert_string_equal(worst->name, table[i].row);
		assert_int_equal(worst->status, table[i].status);
		assert_non_null(strstr(worst->finding, table[i].finding));
		assert_non_null(strstr(worst->fix, table[i].fix));
		assert_true(worst->fix[0]);
		assert_null(strchr(worst->finding, '\n'));
	}
}

// Which hook the row says when all is well.
static void test_hook_named(void **state)
{
	static const struct {
		int irq_work;
		enum fp_offcpu_hook wanted;
		const char *finding;
	} cases[] = {
		{ 0, FP_HOOK_AUTO, "by sched_switch, stacks by irq_work" },
		{ -EOPNOTSUPP, FP_HOOK_AUTO, "by sched_switch and sched_exit_tp" },
		{ -ETIME, FP_HOOK_AUTO, "its interrupt does not come here" },
		{ 0, FP_HOOK_WAY_OUT, "on the way out, as off_cpu.hook = way_out wants it" },
	};
	struct fp_preflight_row rows[FP_PREFLIGHT_ROWS_MAX];

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		const struct fp_preflight_row *row = rows;
		size_t count;

		facts = good_host();
		facts.hook_irq_work = cases[i].irq_work;
		options = (struct fp_preflight_options){ .off_cpu = true,
							 .hook = cases[i].wanted,
							 .kernel_deny = "",
							 .kernel_warn = "",
							 .kernel_no_user_read = "" };
		count = fp_preflight_judge(&facts, &options, rows);
		while (row < rows + count && strcmp(row->name, "off_cpu") != 0)
			row++;
		assert_true(row < rows + count);
		assert_int_equal(row->status, FP_PREFLIGHT_PASS);
		assert_non_null(strstr(row->finding, cases[i].finding));
	}
}

static void test_needs_admin(void **state)
{
	facts = good_host();
	assert_false(fp_preflight_needs_admin(&facts));
	debian_paranoid();
	assert_true(fp_preflight_needs_admin(&facts));
	debian_paranoid_without_admin();
	assert_false(fp_preflight_needs_admin(&facts)); // keeping it would not help
}

static const struct {
	const char *sentence, *release, *version, *signature;
	uint32_t parts[3];
} versions[] = {
	{ "upstream's release is the version", "6.18.44-custom", "#1 SMP", NULL, { 6, 18, 44 } },
	{ "Debian's is in uname's version",
	  "6.1.0-37-amd64",
	  "#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)",
	  NULL,
	  { 6, 1, 140 } },
	{ "Ubuntu's is in its signature",
	  "6.8.0-31-generic",
	  "#31-Ubuntu SMP",
	  "Ubuntu 6.8.0-31.31-generic 6.8.1\n",
	  { 6, 8, 1 } },
	{ "two numbers are enough", "7.0-rc3", "#1", NULL, { 7, 0, 0 } },
};

static void test_versions(void **state)
{
	struct fp_kernel_version version = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(versions); i++) {
		print_message("  %s\n", versions[i].sentence);
		assert_int_equal(fp_kernel_version_parse(versions[i].release, versions[i].version,
							 versions[i].signature, &version),
				 0);
		assert_memory_equal(version.parts, versions[i].parts, sizeof(version.parts));
	}
	assert_int_equal(fp_kernel_version_parse("strange", "#1", NULL, &version), -EINVAL);
}

static const struct {
	const char *list;
	uint32_t parts[3];
	bool has;
} lists[] = {
	{ "", { 6, 1, 1 }, false },
	{ "4.19", { 4, 19, 200 }, true },
	{ "4.19", { 4, 20, 0 }, false },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 5, 19, 0 }, true },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 6, 0, 19 }, true },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 6, 1, 35 }, true },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 6, 1, 36 }, false },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 6, 3, 10 }, false },
	{ "5.19-6.0, 6.1.0-6.1.35, 6.2, 6.3.0-6.3.9", { 5, 18, 99 }, false },
	{ "6.16-6.17.7", { 6, 17, 8 }, false },
	{ "6.16-6.17.7", { 6, 17, 0 }, true },
	{ "5", { 5, 10, 3 }, true },
};

static void test_lists(void **state)
{
	static const char *const bad[] = {
		"x", "6.1-", "-6.1", "6.1;6.2", "6.1 6.2", ",", "6.1.2.3"
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(lists); i++) {
		struct fp_kernel_version version;

		memcpy(version.parts, lists[i].parts, sizeof(version.parts));
		assert_int_equal(fp_kernel_list_check(lists[i].list), 0);
		assert_int_equal(fp_kernel_list_has(lists[i].list, &version), lists[i].has);
	}
	for (size_t i = 0; i < FP_ARRAY_SIZE(bad); i++)
		assert_int_equal(fp_kernel_list_check(bad[i]), -EINVAL);
}

// The probes themselves, on this host: everything is filled, whatever the answers are.
static void test_gather(void **state)
{
	struct fp_preflight_facts here = { 0 };

	fp_preflight_gather(FP_HOOK_AUTO, &here);
	assert_true(here.release[0]);
	assert_true(here.kernel.parts[0] >= 4);
	assert_int_equal(here.uid, geteuid());
	assert_true(here.perf_event_max_sample_rate > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),	    cmocka_unit_test(test_hook_named),
		cmocka_unit_test(test_needs_admin), cmocka_unit_test(test_versions),
		cmocka_unit_test(test_lists),	    cmocka_unit_test(test_gather),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
