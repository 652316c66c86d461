// SPDX-License-Identifier: Apache-2.0
//
// Visits of all tasks by the task iterator (bpf/blocked.h): marking those that are away when
// sampling begins, cutting their intervals when a window closes.
//
// The iterator reads other processes' stacks, and memory can be made such that a reader waits for
// ever (a file on a server that never answers, userfaultfd). The program reads anonymous memory
// alone, but what it has just looked at may change under it. So the reading is done by a child
// that is killed when it takes too long over one stack, and then no user stacks are read for some
// visits.
#include "sampler_state.h"

#include "common/clock.h"
#include "common/log.h"
#include "fleetprof_bpf.skel.h"
#include "quantum.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define VISIT_TIMEOUT_MS 2000 // and as long again where it is not clear that it hangs
#define HANG_MS		 500  // one stack takes microseconds
#define KILL_TIMEOUT_MS	 1000
#define VISITS_WITHOUT	 20 // visits without user stacks after one that hung
// Walks of one cut: its share of the budget of the time since the last, within these.
#define SHARE_OF_CUTS 0.2
#define CUT_WALKS_MIN 50.0
#define CUT_WALKS_MAX 2000.0

static volatile struct fp_visit *visit_of(struct fp_sampler *sampler)
{
	return &sampler->skeleton->bss->fp_visit;
}

// The child: runs the program over all tasks.
_Noreturn static void read_iterator(int fd)
{
	char nothing[64];
	ssize_t size;

	// What it is left with when the agent ends before it must not keep programs attached.
	syscall(SYS_close_range, 0, (unsigned int)fd - 1, 0);
	syscall(SYS_close_range, (unsigned int)fd + 1, ~0U, 0);
	do
		size = read(fd, nothing, sizeof(nothing));
	while (size > 0 || (size < 0 && (errno == EINTR || errno == EAGAIN)));
	_exit(size == 0 ? 0 : 1);
}

static bool ended_within(int pidfd, int timeout_ms)
{
	uint64_t end_ns = fp_monotonic_ns() + (uint64_t)timeout_ms * FP_NS_PER_MS;
	struct pollfd wanted = { .fd = pidfd, .events = POLLIN };
	uint64_t now_ns;
	int r;

	do {
		now_ns = fp_monotonic_ns();
		r = poll(&wanted, 1, now_ns < end_ns ? (int)((end_ns - now_ns) / FP_NS_PER_MS) : 0);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

// Whether it has been reading one stack for long, as opposed to having had little time.
static bool reads_for_long(struct fp_sampler *sampler, int pidfd)
{
	uint32_t tgid = visit_of(sampler)->tgid;

	return tgid && !ended_within(pidfd, HANG_MS) && visit_of(sampler)->tgid == tgid;
}

static void end_visit(struct fp_sampler *sampler, int pidfd)
{
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	if (ended_within(pidfd, KILL_TIMEOUT_MS))
		return;
	sampler->visits_hang = true; // it may write when nobody expects it: no more of them
	fp_warn("a visit of blocked threads cannot be stopped: they are counted when they come "
		"back from now on");
}

// A visit that a busy host lets wait is given more time; what hangs is not tried for a while.
static bool finish_visit(struct fp_sampler *sampler, int pidfd)
{
	uint32_t tgid;

	if (ended_within(pidfd, VISIT_TIMEOUT_MS))
		return true;
	tgid = visit_of(sampler)->tgid;
	if (reads_for_long(sampler, pidfd)) {
		sampler->visits_without = VISITS_WITHOUT;
		fp_warn("reading the stack of process %u takes too long: for a while, what is "
			"blocked when a window ends is shown with its kernel stack alone",
			tgid);
	} else if (ended_within(pidfd, VISIT_TIMEOUT_MS)) {
		return true;
	}
	end_visit(sampler, pidfd);
	return false;
}

static int run_visit(struct fp_sampler *sampler)
{
	int fd FP_AUTOCLOSE = -1, pidfd FP_AUTOCLOSE = -1;
	siginfo_t info = {};
	pid_t child;

	if (!sampler->visit_link || sampler->visits_hang)
		return -EOPNOTSUPP;
	fd = bpf_iter_create(bpf_link__fd(sampler->visit_link));
	if (fd < 0)
		return -errno;
	child = fork();
	if (child == 0)
		read_iterator(fd);
	if (child < 0)
		return -errno;
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	if (pidfd < 0) {
		kill(child, SIGKILL);
		waitid(P_PID, (id_t)child, &info, WEXITED);
		return -ESRCH;
	}
	if (!finish_visit(sampler, pidfd) && sampler->visits_hang)
		return -ETIMEDOUT;
	if (waitid(P_PID, (id_t)child, &info, WEXITED) || info.si_status != 0)
		return -EIO;
	return 0;
}

static int visit(struct fp_sampler *sampler, enum fp_visit_kind kind, uint64_t now_ns)
{
	visit_of(sampler)->kind = kind;
	visit_of(sampler)->now_ns = now_ns;
	visit_of(sampler)->tgid = 0;
	visit_of(sampler)->kernel_only = sampler->visits_without > 0;
	if (sampler->visits_without)
		sampler->visits_without--;
	return run_visit(sampler);
}

void fp_sampler_mark(struct fp_sampler *sampler)
{
	sampler->cut_ns = fp_monotonic_ns();
	visit_of(sampler)->weight = 1;
	sampler->cut_missed += visit(sampler, FP_VISIT_MARK, sampler->cut_ns) != 0;
}

// On the way out every task that is away may be walked for the part that begins: one in `weight`.
static void choose_quantum(struct fp_sampler *sampler, uint64_t end_ns)
{
	volatile struct fp_visit *state = visit_of(sampler);
	double seconds = (double)(end_ns - sampler->cut_ns) / FP_NS_PER_S;
	double walks = fp_sampler_walk_budget(sampler) * SHARE_OF_CUTS * seconds;
	struct fp_durations open = {};
	uint64_t away = 0;

	walks = walks < CUT_WALKS_MIN ? CUT_WALKS_MIN : walks;
	walks = walks > CUT_WALKS_MAX ? CUT_WALKS_MAX : walks;
	for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
		open.count[i] = state->open.count[i];
		open.sum_ns[i] = state->open.sum_ns[i];
		away += open.count[i];
	}
	state->quantum_ns = fp_quantum_for(&open, walks);
	if (sampler->config.quantum_ns)
		state->quantum_ns = sampler->config.quantum_ns;
	state->weight = (double)away > walks ? (uint64_t)((double)away / walks) + 1 : 1;
}

void fp_sampler_cut(struct fp_sampler *sampler, uint64_t end_ns)
{
	volatile struct fp_visit *state = visit_of(sampler);
	int error;

	if (!sampler->config.off_cpu || end_ns <= sampler->cut_ns)
		return;
	for (int i = 0; i < FP_DURATION_BUCKETS; i++)
		state->open.count[i] = state->open.sum_ns[i] = 0;
	error = visit(sampler, FP_VISIT_SUM, end_ns);
	if (!error) {
		choose_quantum(sampler, end_ns);
		error = visit(sampler, FP_VISIT_CUT, end_ns);
	}
	if (!error && sampler->config.run_queue) // what was cut at its wake-up, from there on
		error = visit(sampler, FP_VISIT_CUT, end_ns);
	sampler->cut_missed += error != 0;
	sampler->cut_ns = end_ns;
}

bool fp_sampler_visit_hangs(const struct fp_sampler *sampler)
{
	return sampler->visits_hang;
}
