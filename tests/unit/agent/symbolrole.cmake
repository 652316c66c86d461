# SPDX-License-Identifier: Apache-2.0
# What the symbols role reads, its protocol, and its confinement.
fp_unit_test(agent_perfmap SOURCES perfmap_test.c LIBS fp_agent)
fp_unit_test(agent_perfmap_sealed SOURCES perfmap_sealed_test.c LIBS fp_agent)
foreach(noun symbolrole symbolrole_confine)
  fp_unit_test(agent_${noun} SOURCES ${noun}_test.c role_talk.c LIBS fp_agent)
endforeach()
