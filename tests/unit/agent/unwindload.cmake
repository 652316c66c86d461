# SPDX-License-Identifier: Apache-2.0
fp_unit_test(agent_unwindpool SOURCES unwindpool_test.c LIBS fp_agent)
fp_unit_test(agent_unwindranges SOURCES unwindranges_test.c LIBS fp_agent)
fp_unit_test(agent_unwinddemand SOURCES unwinddemand_test.c LIBS fp_agent)
