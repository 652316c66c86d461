# SPDX-License-Identifier: Apache-2.0
fp_unit_test(agent_unwindpool SOURCES unwindpool_test.c LIBS fp_agent)
fp_unit_test(agent_unwindcompact SOURCES unwindcompact_test.c LIBS fp_agent)
fp_unit_test(agent_unwindranges SOURCES unwindranges_test.c LIBS fp_agent)
fp_unit_test(agent_unwinddemand SOURCES unwinddemand_test.c LIBS fp_agent)
# Not sanitized as well: maps of the kernel, as tests/bpf has them.
if(NOT (FP_FUZZ OR FP_SANITIZE))
  fp_unit_test(agent_unwindknown SOURCES unwindknown_test.c names_bench.c LIBS fp_agent LABELS live)
  set_tests_properties(agent_unwindknown PROPERTIES SKIP_RETURN_CODE 77)
endif()
