// SPDX-License-Identifier: Apache-2.0
//
// program: the collector's life from its command line to its exit code: options, settings,
// opening store and symbols, serving, the clock's duties (retention, watchdog, slow
// clients), and a clean stop on SIGTERM or SIGINT. This is where the collector logs.
#pragma once

// Exit codes: 0 ok, 1 failed, 2 usage or configuration.
int fp_collector_main(int argc, char **argv);
