// SPDX-License-Identifier: Apache-2.0
//
// doctor: the rows of `agentctl doctor`: what the kernel allows (agent/preflight.h), whether
// agent and collector answer, which programs' stacks stop short; each with its fix.
// Threads: none.
#pragma once

#include "agent/config.h"
#include "agent/preflight.h"

#include <jansson.h>

#define FP_DOCTOR_ROWS_MAX 48

struct fp_doctor {
	struct fp_preflight_row rows[FP_DOCTOR_ROWS_MAX];
	size_t count;
};

void fp_doctor_add(struct fp_doctor *doctor, const char *name, enum fp_preflight_status status,
		   const char *fix, const char *format, ...) FP_PRINTF(5, 6);
// The agent's answer to status (NULL: none answered, `error` says why) → rows.
void fp_doctor_judge_agent(struct fp_doctor *doctor, const char *socket_path, const json_t *status,
			   int error);
// Asks the collector's /healthz. Any answer at all means that it is reached.
void fp_doctor_judge_collector(struct fp_doctor *doctor, const struct fp_agent_config *config);
