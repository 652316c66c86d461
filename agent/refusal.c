// SPDX-License-Identifier: Apache-2.0
#include "refusal.h"

#include "common/file.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

static char last_warning[512]; // libbpf's last warning that is not a verifier log

static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char line[sizeof(last_warning)];

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = 0;
	if (line[0] && !strstr(line, "BEGIN PROG LOAD LOG") && !strstr(line, "failed to load"))
		memcpy(last_warning, line, sizeof(last_warning));
	return 0;
}

void fp_refusal_listen(void)
{
	last_warning[0] = 0;
	libbpf_set_print(keep_warning);
}

const char *fp_refusal_log(void)
{
	return last_warning;
}

static bool file_holds(const char *path, const char *text)
{
	struct fp_buf content FP_AUTOBUF = {};

	return !fp_file_read(path, 4096, &content) && !fp_buf_byte(&content, 0) &&
	       strstr((const char *)content.data, text);
}

static void set(struct fp_refusal *ret, const char *cause, const char *fix)
{
	snprintf(ret->cause, sizeof(ret->cause), "%s", cause);
	snprintf(ret->fix, sizeof(ret->fix), "%s", fix);
}

void fp_refusal_explain(int error, const char *step, struct fp_refusal *ret)
{
	ret->error = error;
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return set(ret, "the kernel offers no type information (/sys/kernel/btf/vmlinux)",
			   "use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
	if (file_holds("/sys/kernel/security/lockdown", "[confidentiality]"))
		return set(ret, "kernel lockdown is in confidentiality mode",
			   "boot with lockdown=integrity");
	if (error == -EPERM || error == -EACCES)
		return set(ret, "the kernel refused BPF or perf events for lack of privileges",
			   "run as root, or with CAP_BPF, CAP_PERFMON and, where "
			   "kernel.perf_event_paranoid is above 2, CAP_SYS_ADMIN");
	if (error == -EMFILE || error == -ENFILE)
		return set(
		    ret, "no more file descriptors; each CPU needs two",
		    "raise the limit of open files (LimitNOFILE= of the service, ulimit -n)");
	if (error == -ENOMEM)
		return set(ret, "the kernel had no memory for the BPF maps",
			   "lower limits.stacks or raise the service's memory limit");
	snprintf(ret->cause, sizeof(ret->cause), "%s failed: %s%s%.110s", step, strerror(-error),
		 last_warning[0] ? ": " : "", last_warning);
	snprintf(ret->fix, sizeof(ret->fix), "run 'agentctl doctor'");
}
