# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(perfmap_fuzz SOURCES perfmap_fuzz.c LIBS fp_agent)
