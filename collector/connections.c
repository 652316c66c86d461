// SPDX-License-Identifier: Apache-2.0
#include "connections.h"

#include "common/clock.h"

#include <stdlib.h>
#include <sys/socket.h>

void fp_connections_init(struct fp_connections *connections)
{
	*connections = (struct fp_connections){ 0 };
	pthread_mutex_init(&connections->lock, NULL);
}

void fp_connections_free(struct fp_connections *connections)
{
	while (connections->first)
		fp_connections_remove(connections, connections->first);
	pthread_mutex_destroy(&connections->lock);
}

struct fp_connection *fp_connections_add(struct fp_connections *connections,
					 struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct fp_connection *added = info ? calloc(1, sizeof(*added)) : NULL;

	if (!added)
		return NULL;
	added->socket = info->connect_fd;
	added->since_ns = fp_monotonic_ns();
	pthread_mutex_lock(&connections->lock);
	added->next = connections->first;
	if (added->next)
		added->next->previous = added;
	connections->first = added;
	pthread_mutex_unlock(&connections->lock);
	return added;
}

void fp_connections_remove(struct fp_connections *connections, struct fp_connection *connection)
{
	if (!connection)
		return;
	pthread_mutex_lock(&connections->lock);
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		connections->first = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	pthread_mutex_unlock(&connections->lock);
	free(connection);
}

struct fp_connection *fp_connections_current(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void set_since(struct fp_connections *connections, struct fp_connection *connection,
		      uint64_t since_ns)
{
	if (!connection)
		return;
	pthread_mutex_lock(&connections->lock);
	connection->since_ns = since_ns;
	pthread_mutex_unlock(&connections->lock);
}

void fp_connection_served(struct fp_connections *connections, struct fp_connection *connection)
{
	set_since(connections, connection, 0);
}

void fp_connection_waiting(struct fp_connections *connections, struct fp_connection *connection)
{
	set_since(connections, connection, fp_monotonic_ns());
}

// The descriptor cannot have been closed and reused: it leaves the table before that.
uint64_t fp_connections_reap(struct fp_connections *connections, uint64_t timeout_ns)
{
	uint64_t now_ns = fp_monotonic_ns(), count = 0;

	pthread_mutex_lock(&connections->lock);
	for (struct fp_connection *at = connections->first; at; at = at->next) {
		if (!at->since_ns || now_ns - at->since_ns < timeout_ns)
			continue;
		shutdown(at->socket, SHUT_RDWR);
		at->since_ns = 0;
		count++;
	}
	pthread_mutex_unlock(&connections->lock);
	return count;
}
