# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(unwindwalk_fuzz SOURCES unwindwalk_fuzz.c LIBS fp_agent)
