# SPDX-License-Identifier: Apache-2.0
# The daemon's settings, identity, preflight, privileges and control socket; agentctl.
foreach(noun config identity preflight privilege control_request control_access control_turns control observe)
  fp_unit_test(agent_${noun} SOURCES ${noun}_test.c LIBS fp_agent)
endforeach()
fp_unit_test(agent_agentctl SOURCES agentctl_test.c LIBS fp_agentctl)
