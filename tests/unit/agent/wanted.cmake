# SPDX-License-Identifier: Apache-2.0
# Symbol tables that a collector asks for, on the sampler's side.
fp_unit_test(agent_process_find_test SOURCES process_find_test.c LIBS fp_agent)
fp_unit_test(agent_daemon_symbols_test SOURCES daemon_symbols_test.c spool_place.c
  LIBS fp_agent fp_test_examples)
