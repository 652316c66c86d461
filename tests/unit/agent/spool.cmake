# SPDX-License-Identifier: Apache-2.0
foreach(part spool spool_bounds spool_wanted)
  fp_unit_test(agent_${part}_test SOURCES ${part}_test.c spool_place.c
    LIBS fp_agent fp_test_examples PkgConfig::ZSTD)
endforeach()
foreach(part ship ship_role ship_wanted)
  fp_unit_test(agent_${part}_test SOURCES ${part}_test.c ship_bench.c ship_server.c
    LIBS fp_agent fp_test_examples PkgConfig::MICROHTTPD PkgConfig::ZSTD)
endforeach()
fp_unit_test(agent_ship_policy_test SOURCES ship_policy_test.c LIBS fp_agent)
fp_unit_test(agent_agentmetrics_test SOURCES agentmetrics_test.c LIBS fp_agent PkgConfig::CURL)
