// SPDX-License-Identifier: Apache-2.0
//
// role_talk: the client's end of the symbols role's protocol, for its tests: one request, one
// answer, both checked for what every answer must hold.
#pragma once

#include "agent/symbolrole.h"

struct role_answer {
	int error;
	uint64_t argument;
	uint32_t size;
	uint8_t payload[FP_ROLE_PAYLOAD_MAX];
};

struct role_question {
	uint32_t kind;
	uint64_t argument;
	const void *payload;
	uint32_t size;
	int fds[4]; // ended by -1 or the end
};

// One answer at a time, in static storage.
const struct role_answer *role_ask(int socket_fd, const struct role_question *question);
// A memfd with the bytes.
int role_file(const void *bytes, size_t size);
int role_text_file(const char *text);
struct role_question role_lookup(uint64_t handle, const uint64_t *addresses, uint32_t count);
// The answer to a lookup is these names, "" for none.
void role_assert_names(const struct role_answer *answer, const char *const *names, size_t count);
