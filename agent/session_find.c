// SPDX-License-Identifier: Apache-2.0
#include "process_find.h"
#include "session_state.h"

int fp_session_find_build(const struct fp_session *session, const struct fp_build *wanted,
			  const struct fp_process_tried *tried, struct fp_process_find *ret)
{
	return fp_process_table_find_build(session->processes, session->config.names, wanted, tried,
					   ret);
}
