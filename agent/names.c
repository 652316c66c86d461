// SPDX-License-Identifier: Apache-2.0
#include "names.h"

#include "names_run.h"

#include "common/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define DEADLINE_NS	   (2 * FP_NS_PER_S)
#define PERF_MAP_MAX_BYTES ((uint64_t)64 << 20)
#define EVENTS_MAX	   8
#define OVERDUE_NS	   (50 * FP_NS_PER_MS)

static int start_opener(int socket_fd, void *context)
{
	struct fp_role role = fp_opener_role();

	role.fds[0] = socket_fd;
	role.fds_count = 1;
	return fp_role_start(&role);
}

static int start_role(int socket_fd, void *context)
{
	const struct fp_names *names = context;
	struct fp_role role = { .name = "fleetprof-symb",
				.argument = FP_SYMBOLS_ROLE_ARGUMENT,
				.end_signal = SIGKILL,
				.apart = true,
				.fds = { socket_fd },
				.fds_count = 1 };

	fp_role_account_find("the symbols role", names->role_user, &role.account);
	return fp_role_start(&role);
}

int fp_names_set_options(struct fp_names *names, const struct fp_names_options *options)
{
	char *deny FP_AUTOFREE =
	    strdup(options->deny_file_systems ? options->deny_file_systems : "");

	if (!deny)
		return -ENOMEM;
	if (strlen(deny) > FP_OPENER_TEXT_MAX / 4)
		return -E2BIG;
	free(names->deny);
	names->deny = fp_take_ptr(deny);
	names->options = *options;
	names->options.role_user = names->options.deny_file_systems = NULL; // kept elsewhere
	if (names->options.request_deadline_ns == 0)
		names->options.request_deadline_ns = DEADLINE_NS;
	if (names->options.perf_map_max_bytes == 0)
		names->options.perf_map_max_bytes = PERF_MAP_MAX_BYTES;
	return 0;
}

static int open_parts(struct fp_names *names, const struct fp_names_options *options)
{
	struct epoll_event event = { .events = EPOLLIN };

	names->role_user = strdup(options->role_user ? options->role_user : "");
	names->packet = malloc(FP_NAMES_PACKET_MAX);
	if (!names->role_user || !names->packet)
		return -ENOMEM;
	names->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	names->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	event.data.fd = names->timer_fd;
	if (names->epoll_fd < 0 || names->timer_fd < 0 ||
	    epoll_ctl(names->epoll_fd, EPOLL_CTL_ADD, names->timer_fd, &event) < 0)
		return -errno;
	return fp_names_set_options(names, options);
}

int fp_names_open_with(const struct fp_names_options *options, fp_names_start_fn opener,
		       fp_names_start_fn role, void *context, struct fp_names **ret)
{
	struct fp_names *names FP_CLEANUP(fp_names_freep) = calloc(1, sizeof(*names));
	int r;

	if (!names)
		return -ENOMEM;
	names->epoll_fd = names->timer_fd = -1;
	names->table.memory_fd = names->unwind.memory_fd = -1;
	TAILQ_INIT(&names->by_use);
	TAILQ_INIT(&names->queue);
	TAILQ_INIT(&names->watch_list);
	TAILQ_INIT(&names->needy);
	TAILQ_INIT(&names->to_seal);
	names->identities = FP_HASHMAP_INIT(struct fp_identity_key, struct fp_identity_entry *);
	names->hung_places = FP_HASHMAP_INIT(uint64_t, struct fp_blame);
	names->watches = FP_HASHMAP_INIT(uint32_t, struct fp_watch *);
	names->jit_names = FP_HASHMAP_INIT(struct fp_jit_key, struct fp_jit_name);
	names->scan_ns = UINT64_MAX;
	r = open_parts(names, options);
	fp_names_child_init(&names->opener, names->epoll_fd, opener, context ? context : names);
	fp_names_child_init(&names->role, names->epoll_fd, role, context ? context : names);
	if (r < 0)
		return r;
	// The opener waits until it is needed: it is to have the rights that the sampler then
	// has, and the role those that it can only be given now.
	if (!fp_names_child_ensure(&names->role, fp_monotonic_ns()))
		return -EAGAIN;
	*ret = fp_take_ptr(names);
	return 0;
}

int fp_names_open(const struct fp_names_options *options, struct fp_names **ret)
{
	return fp_names_open_with(options, start_opener, start_role, NULL, ret);
}

void fp_names_free(struct fp_names *names)
{
	if (!names)
		return;
	fp_names_child_free(&names->opener);
	fp_names_child_free(&names->role);
	fp_names_identity_free(names);
	fp_names_jit_free(names);
	fp_names_table_free(names);
	fp_close_fd(&names->timer_fd);
	fp_close_fd(&names->epoll_fd);
	free(names->packet);
	free(names->role_user);
	free(names->deny);
	free(names);
}

int fp_names_fd(const struct fp_names *names)
{
	return names->epoll_fd;
}

static void clear_timer(struct fp_names *names)
{
	uint64_t times;

	if (read(names->timer_fd, &times, sizeof(times)) == sizeof(times))
		names->timer_ns = 0; // it has gone off: to be set anew
}

static void take_event(struct fp_names *names, int fd, uint64_t now_ns)
{
	if (fd == names->timer_fd)
		clear_timer(names);
	else if (fd == names->opener.socket_fd)
		fp_names_take_opener(names, now_ns);
	else if (fd == names->role.socket_fd)
		fp_names_take_role(names, now_ns);
	else if (fd == names->opener.pid_fd && fp_names_child_has_died(&names->opener, now_ns))
		fp_names_opener_died(names, now_ns);
	else if (fd == names->role.pid_fd && fp_names_child_has_died(&names->role, now_ns))
		fp_names_role_died(names, now_ns);
}

// Last words before deaths: a child that answered and then died has answered.
static int take_events(struct fp_names *names, uint64_t now_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(names->epoll_fd, events, EVENTS_MAX, 0);

	if (count < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < count; i++)
		if (events[i].data.fd != names->opener.pid_fd &&
		    events[i].data.fd != names->role.pid_fd)
			take_event(names, events[i].data.fd, now_ns);
	for (int i = 0; i < count; i++)
		if (events[i].data.fd == names->opener.pid_fd ||
		    events[i].data.fd == names->role.pid_fd)
			take_event(names, events[i].data.fd, now_ns);
	return count;
}

static bool needs_opener(const struct fp_names *names, uint64_t now_ns)
{
	return names->queue_count || names->table.wanted || names->unwind.wanted ||
	       !TAILQ_EMPTY(&names->needy) || names->scan_ns <= now_ns;
}

// Whatever can be begun, in this order: names are wanted by a drain, tables by nobody soon. One
// that is not there costs stacks, so it comes before one that is sent away.
static bool begin(struct fp_names *names, uint64_t now_ns)
{
	if (!TAILQ_EMPTY(&names->to_seal)) // in a hurry, and it takes no opener
		return fp_names_jit_begin(names, now_ns);
	return fp_names_jit_begin(names, now_ns) || fp_names_identity_begin(names, now_ns) ||
	       fp_names_table_begin(names, now_ns);
}

static void go_on(struct fp_names *names, uint64_t now_ns)
{
	bool has_role, has_opener;

	fp_names_enforce_deadline(names, now_ns);
	if (names->operation.kind != FP_NAMES_IDLE)
		return;
	has_role = fp_names_child_ensure(&names->role, now_ns);
	if (!needs_opener(names, now_ns) && !names->drops && TAILQ_EMPTY(&names->to_seal))
		return;
	has_opener = fp_names_child_ensure(&names->opener, now_ns);
	if ((has_opener || !TAILQ_EMPTY(&names->to_seal)) && has_role && begin(names, now_ns))
		names->operation.deadline_ns = now_ns + names->options.request_deadline_ns;
}

static uint64_t next_due_ns(const struct fp_names *names, uint64_t now_ns)
{
	uint64_t due_ns = names->scan_ns;

	if (names->operation.kind != FP_NAMES_IDLE)
		return names->operation.deadline_ns;
	if (!fp_names_child_runs(&names->role) && names->role.due_ns < due_ns)
		due_ns = names->role.due_ns;
	if (needs_opener(names, now_ns) && !fp_names_child_runs(&names->opener) &&
	    names->opener.due_ns < due_ns)
		due_ns = names->opener.due_ns;
	return due_ns;
}

// One that is overdue, since a child that is needed cannot be started, is looked at again soon.
static void set_timer(struct fp_names *names, uint64_t now_ns)
{
	uint64_t due_ns = next_due_ns(names, now_ns);
	struct itimerspec time = { 0 };

	if (due_ns <= now_ns)
		due_ns = now_ns + OVERDUE_NS;
	// Set later than wanted, it is set anew; set earlier, it will be when it goes off.
	if (due_ns == UINT64_MAX || (names->timer_ns && names->timer_ns <= due_ns))
		return;
	time.it_value.tv_sec = (time_t)(due_ns / FP_NS_PER_S);
	time.it_value.tv_nsec = (long)(due_ns % FP_NS_PER_S);
	if (timerfd_settime(names->timer_fd, TFD_TIMER_ABSTIME, &time, NULL) == 0)
		names->timer_ns = due_ns;
}

int fp_names_pump(struct fp_names *names)
{
	uint64_t now_ns = fp_monotonic_ns();
	int r = take_events(names, now_ns);

	go_on(names, now_ns);
	set_timer(names, now_ns);
	return r < 0 ? r : 0;
}

static uint32_t count_outstanding(const struct fp_names *names)
{
	const struct fp_watch *watch;
	uint32_t count = names->queue_count;

	TAILQ_FOREACH(watch, &names->needy, needing)
	count += watch->addresses_count;
	TAILQ_FOREACH(watch, &names->to_seal, sealing)
	count++;
	if (names->operation.kind == FP_NAMES_MAP_LOOKUP ||
	    names->operation.kind == FP_NAMES_MAP_OPEN)
		count++;
	return count;
}

// Nothing will come of waiting when a child is to be started only after that time.
static bool is_hopeless(const struct fp_names *names, uint64_t end_ns)
{
	return (!fp_names_child_runs(&names->role) && names->role.due_ns > end_ns) ||
	       (!fp_names_child_runs(&names->opener) && names->opener.due_ns > end_ns);
}

uint32_t fp_names_settle(struct fp_names *names, uint64_t budget_ns)
{
	uint64_t now_ns = fp_monotonic_ns(), end_ns = now_ns + budget_ns;

	for (;;) {
		struct pollfd fd = { .fd = names->epoll_fd, .events = POLLIN };
		struct timespec left;
		uint32_t count;

		fp_names_pump(names);
		count = count_outstanding(names);
		now_ns = fp_monotonic_ns();
		if (count == 0 || now_ns >= end_ns || is_hopeless(names, end_ns))
			return count;
		left.tv_sec = (time_t)((end_ns - now_ns) / FP_NS_PER_S);
		left.tv_nsec = (long)((end_ns - now_ns) % FP_NS_PER_S);
		if (ppoll(&fd, 1, &left, NULL) < 0 && errno != EINTR)
			return count;
	}
}

void fp_names_stats(const struct fp_names *names, struct fp_names_stats *ret)
{
	*ret = names->stats;
	ret->opener_starts = names->opener.starts;
	ret->role_starts = names->role.starts;
}
