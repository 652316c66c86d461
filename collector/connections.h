// SPDX-License-Identifier: Apache-2.0
//
// connections: how long each client has been sending the request it is at. libmicrohttpd's
// timeout counts from the last byte, so a client that drips bytes would never run into it.
// Threads: any; the table locks itself.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct fp_connection {
	struct fp_connection *next, *previous;
	int socket;
	uint64_t since_ns; // CLOCK_MONOTONIC; 0 while a request is being served
};

struct fp_connections {
	pthread_mutex_t lock;
	struct fp_connection *first;
};

void fp_connections_init(struct fp_connections *connections);
void fp_connections_free(struct fp_connections *connections);
struct fp_connection *fp_connections_add(struct fp_connections *connections,
					 struct MHD_Connection *connection); // or NULL
void fp_connections_remove(struct fp_connections *connections, struct fp_connection *connection);
struct fp_connection *fp_connections_current(struct MHD_Connection *connection);
// The whole request is there; the clock stops. Then the next one is waited for.
void fp_connection_served(struct fp_connections *connections, struct fp_connection *connection);
void fp_connection_waiting(struct fp_connections *connections, struct fp_connection *connection);
// Shuts down those that have been sending for longer; returns how many.
uint64_t fp_connections_reap(struct fp_connections *connections, uint64_t timeout_ns);
