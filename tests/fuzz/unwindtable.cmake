# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(unwindtable_fuzz SOURCES unwindtable_fuzz.c LIBS fp_agent)
