// SPDX-License-Identifier: Apache-2.0
//
// ship_server: a collector for tests: it answers what the script says and otherwise keeps
// batches and symbol tables as a real one would, so that a test can compare what was put
// with what arrived.
#pragma once

#include "proto/batch.h"

struct ship_reply {		 // one answer that does not follow from the content
	unsigned int status;	 // 0: cut the connection after the request was read
	bool store_first;	 // the batch is committed before the answer goes wrong
	const char *body;	 // NULL: none
	const char *retry_after; // NULL: none
	const char *location;	 // NULL: none
	const char *wanted;	 // X-Fleetprof-Wanted; NULL: none
};

struct ship_server;
struct ship_server *ship_server_start(void);
void ship_server_stop(struct ship_server *server);
static inline void ship_server_stopp(struct ship_server **server)
{
	if (*server)
		ship_server_stop(*server);
	*server = NULL;
}
#define AUTOSERVER FP_CLEANUP(ship_server_stopp) struct ship_server *
const char *ship_server_url(const struct ship_server *server);
// The next `times` requests whose path begins with `path` get this reply.
void ship_server_script(struct ship_server *server, const char *path, struct ship_reply reply,
			unsigned int times);

struct ship_seen {
	uint64_t requests;    // of all kinds
	uint64_t batches;     // stored, each id once
	uint64_t samples;     // in them
	uint64_t duplicates;  // ids that came again
	uint64_t malformed;   // bodies that do not decode, or ids that do not fit their header
	uint64_t heads, puts; // symbol tables
	char path_header[64]; // X-Fleetprof-Path of the last table
	char token[64];	      // Authorization of the last request
	char symbols[256];    // text of the last table
};
struct ship_seen ship_server_seen(struct ship_server *server);
void ship_server_forget_symbols(struct ship_server *server);
