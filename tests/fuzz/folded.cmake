# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(folded_fuzz SOURCES folded_fuzz.c LIBS fp_profile)
