// SPDX-License-Identifier: Apache-2.0
//
// daemon_exit: exit codes of fleetprof-agent and agentctl; also in the control socket's
// answers, so that agentctl ends as the agent says.
#pragma once

enum fp_exit {
	FP_EXIT_OK = 0,
	FP_EXIT_FAILED = 1,
	FP_EXIT_USAGE = 2,	 // command line or configuration
	FP_EXIT_NOT_RUNNING = 3, // no agent answers
	FP_EXIT_PERMISSION = 4,
	FP_EXIT_UNSUPPORTED = 5, // this kernel, or these privileges
	FP_EXIT_TIMEOUT = 6,
	FP_EXIT_RUNNING = 75, // another agent runs on this host
};
