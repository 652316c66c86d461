// SPDX-License-Identifier: Apache-2.0
//
// ship_http: one bounded HTTP request at a time to the collector: 5 s to connect, 60 s in
// all, at least 1 KiB/s, no redirects, no proxy from the environment, TLS 1.2 or later,
// answers cut at 64 KiB. The token is read from its file for each request, so a new one
// counts at once.
// Ownership: the client owns its connection; URLs and file names are borrowed for its life.
// Threads: one owner.
#pragma once

#include "common/buf.h"

struct fp_ship_client;
struct fp_ship_client_config {
	const char *base_url;		    // without a trailing slash, or with one
	const char *token_file;		    // or ""
	const char *ca_file;		    // or ""
	bool (*should_stop)(void *context); // asked while a request runs; true ends it
	void *context;
};

struct fp_ship_request {
	const char *method;	// "POST", "PUT" or "HEAD"
	const char *path;	// "/v1/batches"
	const char *headers[4]; // "Name: value", NULL-terminated
	const void *body;
	size_t body_size;
};

struct fp_ship_answer {
	long status; // 0: no answer, `error` says why
	uint64_t retry_after_ns;
	struct fp_buf wanted; // value of X-Fleetprof-Wanted, foreign; of several the last
	struct fp_buf body;
	char error[256];
};

int fp_ship_client_new(const struct fp_ship_client_config *config, struct fp_ship_client **ret);
void fp_ship_client_free(struct fp_ship_client *client);
static inline void fp_ship_client_freep(struct fp_ship_client **client)
{
	fp_ship_client_free(*client);
	*client = NULL;
}
// 0 whenever the request was made, whatever came of it; -errno when the token cannot be used.
int fp_ship_client_send(struct fp_ship_client *client, const struct fp_ship_request *request,
			struct fp_ship_answer *ret);
void fp_ship_answer_clear(struct fp_ship_answer *answer);
