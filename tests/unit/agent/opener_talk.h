// SPDX-License-Identifier: Apache-2.0
//
// opener_talk: an opener as a fork of the test, what it is asked, and what it sends to the role.
#pragma once

#include "agent/opener.h"
#include "names_bench.h"

struct opener {
	int socket, pid;
	int role[2];	// what is opened arrives at [0]
	uint64_t place; // that it entered last before its answer
	uint64_t hung;	// a place that goes along as a hung one; 0: none
};

void opener_open(struct opener *opener);
void opener_close(struct opener *opener); // it must end well
void opener_ask(struct opener *opener, struct fp_opener_request request, const char *name,
		const char *deny, struct fp_opener_answer *ret);
// What has been sent to the role: the packet as it was given, and the file. -1: nothing.
int opener_receive(struct opener *opener);
void assert_opener_sends(struct opener *opener, const char *content);
struct fp_opener_request opener_request(const struct bench_file *file);
