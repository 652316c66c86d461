// SPDX-License-Identifier: Apache-2.0
//
// ship_symbols: makes sure that the collector has the symbol tables of the spool's symbols/
// directory: HEAD, and PUT when it says 404. What it has is asked again after an hour and
// after an outage, because a collector may lose or forget its files; a table that it asked for
// is removed instead.
// Threads: one owner.
#pragma once

#include "common/hashmap.h"
#include "ship_http.h"
#include "spool.h"

struct fp_ship_symbols {
	struct fp_hashmap checked; // hex id of a table that is kept → boottime of the last yes
};

void fp_ship_symbols_init(struct fp_ship_symbols *symbols);
void fp_ship_symbols_free(struct fp_ship_symbols *symbols);
void fp_ship_symbols_forget(struct fp_ship_symbols *symbols); // all are asked for again

struct fp_ship_symbols_result {
	uint32_t sent;		      // tables that the collector took
	uint64_t bytes;		      // of these
	struct fp_ship_answer answer; // the one that ended the pass, when it failed
};
// One pass over all tables that are due. 0; -EAGAIN: the collector could not be asked or
// did not take one, result->answer says why; -errno of the spool or the token.
int fp_ship_symbols_pass(struct fp_ship_symbols *symbols, struct fp_spool *spool,
			 struct fp_ship_client *client, struct fp_ship_symbols_result *result);
