// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include "common/clock.h"
#include "control_client.h"
#include "control_request.h"
#include "control_snapshot.h"
#include "control_turns.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define CLIENTS_MAX	     16
#define CLIENTS_MAX_NOT_ROOT 12 // so that root always finds room
#define CLIENTS_MAX_PER_UID  4	// for uids other than 0
#define PEER_GROUPS_MAX	     256
#define SWEEP_NS	     FP_NS_PER_S

struct fp_control {
	struct fp_loop *loop;
	struct fp_loop_source *source, *sweep;
	struct fp_control_handlers handlers;
	struct fp_client *clients;
	struct fp_snapshot *snapshot; // at most one
	struct fp_turns turns;
	uint64_t snapshots;
	gid_t group;
	bool has_group, has_role_uid, paused;
	uid_t role_uid;
	int fd;
	char *path;
};

static void note_end(struct fp_control *control, const struct fp_snapshot *snapshot)
{
	fp_turns_ended(&control->turns, fp_client_peer(fp_snapshot_client(snapshot)),
		       fp_boottime_ns());
}

static void remove_snapshot(struct fp_control *control)
{
	note_end(control, control->snapshot);
	fp_snapshot_free(control->snapshot);
	control->snapshot = NULL;
}

static void remove_client(struct fp_control *control, struct fp_client *client)
{
	struct fp_client *before = NULL;

	if (control->snapshot && fp_snapshot_client(control->snapshot) == client)
		remove_snapshot(control);
	for (struct fp_client *one = control->clients; one != client; one = fp_client_next(one))
		before = one;
	if (before)
		fp_client_set_next(before, fp_client_next(client));
	else
		control->clients = fp_client_next(client);
	fp_client_free(client);
}

static void on_gone(struct fp_client *client, void *context)
{
	remove_client(context, client);
}

static void on_snapshot_done(struct fp_snapshot *snapshot, void *context)
{
	struct fp_control *control = context;

	note_end(control, snapshot);
	control->snapshot = NULL;
	control->snapshots++;
	fp_snapshot_free(snapshot);
}

// Root and the group need not wait for others.
static void preempt(struct fp_control *control)
{
	struct fp_client *client = fp_snapshot_client(control->snapshot);

	remove_snapshot(control);
	fp_client_fail(client, "busy", FP_EXIT_FAILED,
		       "root or the agent's control group asked for a snapshot, which ended this "
		       "one; what was collected is discarded");
}

// False: it is not the client's turn, and it has been told so.
static bool take_turn(struct fp_control *control, struct fp_client *client)
{
	struct fp_client *running =
	    control->snapshot ? fp_snapshot_client(control->snapshot) : NULL;
	uint64_t wait_ns = 0;

	switch (fp_turns_decide(&control->turns, fp_client_peer(client),
				running ? fp_client_peer(running) : NULL, fp_boottime_ns(),
				&wait_ns)) {
	case FP_TURN_START:
		return true;
	case FP_TURN_PREEMPT:
		preempt(control);
		return true;
	case FP_TURN_PAUSE:
		fp_client_fail(
		    client, "busy", FP_EXIT_FAILED,
		    "one snapshot every %u seconds; try again in %u s, or ask as root or as a "
		    "member of the agent's control group",
		    (unsigned int)(FP_TURNS_PAUSE_NS / FP_NS_PER_S),
		    (unsigned int)(wait_ns / FP_NS_PER_S) + 1);
		return false;
	default:
		fp_client_fail(client, "busy", FP_EXIT_FAILED,
			       "the agent is taking another snapshot; try again when it has ended");
		return false;
	}
}

static void serve_snapshot(struct fp_control *control, struct fp_client *client,
			   const struct fp_control_request *request)
{
	struct fp_snapshot *snapshot;

	if (!fp_client_peer(client)->trusted &&
	    request->duration_ns > FP_SNAPSHOT_SECONDS_MAX * FP_NS_PER_S) {
		fp_client_fail(
		    client, "usage", FP_EXIT_USAGE,
		    "a snapshot may last %d seconds; root and the agent's control group may "
		    "take %d",
		    FP_SNAPSHOT_SECONDS_MAX, FP_SNAPSHOT_SECONDS_MAX_TRUSTED);
		return;
	}
	if (fp_snapshot_new(client, request, &control->handlers, &snapshot) < 0)
		return;
	if (!take_turn(control, client)) {
		fp_snapshot_free(snapshot);
		return;
	}
	control->snapshot = snapshot;
	fp_snapshot_on_done(snapshot, on_snapshot_done, control);
	// A start that fails was work as well: the pause holds after it too.
	if (fp_snapshot_start(control->loop, snapshot) < 0)
		remove_snapshot(control);
}

static void serve_status(struct fp_control *control, struct fp_client *client)
{
	struct fp_buf json FP_AUTOBUF = { 0 };

	if (control->handlers.status(fp_client_peer(client)->trusted, &json,
				     control->handlers.context) < 0 ||
	    fp_client_send_line(client, &json) < 0) {
		fp_client_fail(client, "failed", FP_EXIT_FAILED, "out of memory");
		return;
	}
	fp_client_finish(client);
}

static void on_line(struct fp_client *client, const char *line, size_t size, void *context)
{
	struct fp_control *control = context;
	struct fp_control_request request;
	struct fp_buf error FP_AUTOBUF = { 0 };
	bool runs = control->snapshot && fp_snapshot_client(control->snapshot) == client;

	if (fp_control_request_parse(line, size, &request, &error) < 0) {
		fp_client_fail(client, "usage", FP_EXIT_USAGE, "%.*s", (int)error.len,
			       (const char *)error.data);
		if (runs)
			remove_snapshot(control);
		return;
	}
	if (request.verb == FP_CONTROL_STOP && runs)
		fp_snapshot_stop(control->snapshot);
	else if (request.verb == FP_CONTROL_STOP || runs)
		fp_client_fail(client, "usage", FP_EXIT_USAGE,
			       runs ? "a snapshot runs on this connection"
				    : "no snapshot runs on this connection");
	else if (request.verb == FP_CONTROL_STATUS)
		serve_status(control, client);
	else
		serve_snapshot(control, client, &request);
}

static bool is_in_group(int fd, gid_t primary, gid_t wanted)
{
	gid_t groups[PEER_GROUPS_MAX];
	socklen_t size = sizeof(groups);

	if (primary == wanted)
		return true;
	// More groups than we have room for: ERANGE, and no trust.
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (size_t i = 0; i < size / sizeof(groups[0]); i++)
		if (groups[i] == wanted)
			return true;
	return false;
}

static int read_peer(const struct fp_control *control, int fd, struct fp_peer *ret)
{
	struct ucred ucred;
	socklen_t size = sizeof(ucred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) < 0)
		return -errno;
	*ret = (struct fp_peer){ .uid = ucred.uid, .gid = ucred.gid, .pid = (uint32_t)ucred.pid };
	if (ucred.uid == 0)
		ret->trusted = true;
	else if (control->has_role_uid && ucred.uid == control->role_uid)
		ret->trusted = false;
	else
		ret->trusted = control->has_group && is_in_group(fd, ucred.gid, control->group);
	return 0;
}

static bool has_room(const struct fp_control *control, const struct fp_peer *peer)
{
	unsigned int all = 0, same = 0;

	for (struct fp_client *one = control->clients; one; one = fp_client_next(one)) {
		all++;
		same += fp_client_peer(one)->uid == peer->uid;
	}
	if (peer->uid == 0)
		return all < CLIENTS_MAX;
	return all < CLIENTS_MAX_NOT_ROOT && same < CLIENTS_MAX_PER_UID;
}

static void turn_away(int fd)
{
	static const char line[] = "{\"type\":\"error\",\"code\":\"busy\",\"exit\":1,\"message\":"
				   "\"too many connections; try again\"}\n";

	send(fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_connection(struct fp_control *control, int connection)
{
	const struct fp_client_events events = { .line = on_line,
						 .gone = on_gone,
						 .context = control };
	int fd FP_AUTOCLOSE = connection;
	struct fp_client *client;
	struct fp_peer peer;

	if (read_peer(control, fd, &peer) < 0)
		return;
	if (!has_room(control, &peer)) {
		turn_away(fd);
		return;
	}
	if (fp_client_new(control->loop, fp_take_fd(&fd), &peer, &events, &client) < 0)
		return;
	fp_client_set_next(client, control->clients);
	control->clients = client;
}

static int on_connect(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_control *control = context;
	int fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		take_connection(control, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
		// The queue would stay readable and keep the loop busy: look again at the sweep.
		control->paused = fp_loop_set_events(source, 0) == 0;
	}
	return 0;
}

static int on_sweep(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_control *control = context;
	uint64_t now_ns = fp_boottime_ns();
	struct fp_client *next;

	for (struct fp_client *one = control->clients; one; one = next) {
		next = fp_client_next(one);
		if (fp_client_is_stale(one, now_ns))
			remove_client(control, one);
	}
	if (control->paused && fp_loop_set_events(control->source, EPOLLIN) == 0)
		control->paused = false;
	return 0;
}

static int clear_path(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	return unlink(path) < 0 ? -errno : 0;
}

static int listen_at(const char *path)
{
	int fd FP_AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	r = clear_path(path);
	if (r < 0)
		return r;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	// Anyone may connect and is then judged by SO_PEERCRED.
	if (chmod(path, 0666) < 0 || listen(fd, CLIENTS_MAX) < 0)
		return -errno;
	return fp_take_fd(&fd);
}

static void find_group(struct fp_control *control, const char *name)
{
	struct group *entry = name && name[0] ? getgrnam(name) : NULL;

	control->has_group = entry != NULL;
	if (entry)
		control->group = entry->gr_gid;
}

int fp_control_open(struct fp_loop *loop, const struct fp_control_config *config,
		    const struct fp_control_handlers *handlers, struct fp_control **ret)
{
	struct fp_control *control FP_CLEANUP(fp_control_freep) = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->loop = loop;
	control->handlers = *handlers;
	control->has_role_uid = config->has_role_uid;
	control->role_uid = config->role_uid;
	find_group(control, config->group);
	control->fd = listen_at(config->path);
	if (control->fd < 0)
		return control->fd;
	control->path = strdup(config->path);
	r = control->path ? 0 : -ENOMEM;
	if (r == 0)
		r = fp_loop_add_fd(loop, control->fd, EPOLLIN, on_connect, control,
				   &control->source);
	if (r == 0)
		r = fp_loop_add_timer(loop, SWEEP_NS, SWEEP_NS, on_sweep, control, &control->sweep);
	if (r < 0)
		return r;
	*ret = fp_take_ptr(control);
	return 0;
}

void fp_control_free(struct fp_control *control)
{
	if (!control)
		return;
	while (control->clients)
		remove_client(control, control->clients);
	fp_loop_remove(control->source);
	fp_loop_remove(control->sweep);
	fp_close_fd(&control->fd);
	if (control->path)
		unlink(control->path);
	free(control->path);
	free(control);
}

uint64_t fp_control_snapshots(const struct fp_control *control)
{
	return control->snapshots;
}
