# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(elfident_fuzz SOURCES elfident_fuzz.c LIBS fp_profile)
