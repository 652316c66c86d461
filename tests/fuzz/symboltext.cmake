# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(symboltext_fuzz SOURCES symboltext_fuzz.c LIBS fp_profile)
