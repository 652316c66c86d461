# SPDX-License-Identifier: Apache-2.0
fp_unit_test(agent_cpus SOURCES cpus_test.c LIBS fp_agent)
fp_unit_test(agent_busytime SOURCES busytime_test.c LIBS fp_agent)
fp_unit_test(agent_outcomes SOURCES outcomes_test.c LIBS fp_agent)
fp_unit_test(agent_records SOURCES records_test.c LIBS fp_agent)
fp_unit_test(agent_window SOURCES window_test.c LIBS fp_agent)
fp_unit_test(agent_window_pair SOURCES window_pair_test.c LIBS fp_agent)
fp_unit_test(agent_buildprobe SOURCES buildprobe_test.c LIBS fp_agent)
fp_unit_test(agent_quantum SOURCES quantum_test.c LIBS fp_agent)
