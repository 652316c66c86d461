# SPDX-License-Identifier: Apache-2.0
fp_unit_test(agent_spool_test SOURCES spool_test.c LIBS fp_agent fp_test_examples PkgConfig::ZSTD)
fp_unit_test(agent_ship_policy_test SOURCES ship_policy_test.c LIBS fp_agent)
fp_unit_test(agent_ship_test SOURCES ship_test.c ship_server.c LIBS fp_agent fp_test_examples
  PkgConfig::MICROHTTPD PkgConfig::ZSTD)
fp_unit_test(agent_agentmetrics_test SOURCES agentmetrics_test.c LIBS fp_agent PkgConfig::CURL)
