# SPDX-License-Identifier: Apache-2.0
# From control groups, log names and rules to label sets.
foreach(noun cgroup_path relabel labels)
  fp_unit_test(agent_${noun} SOURCES ${noun}_test.c LIBS fp_agent)
endforeach()
