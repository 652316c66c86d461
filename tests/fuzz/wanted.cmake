# SPDX-License-Identifier: Apache-2.0
# The parser's file alone: the agent's library as a whole needs the BPF objects.
fp_fuzz_target(wanted_fuzz SOURCES wanted_fuzz.c ${CMAKE_SOURCE_DIR}/agent/ship_wanted.c
  LIBS fp_proto)
