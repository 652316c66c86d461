# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(elfsymbols_fuzz SOURCES elfsymbols_fuzz.c LIBS fp_profile)
