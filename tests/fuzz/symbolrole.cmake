# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(symbolrole_fuzz SOURCES symbolrole_fuzz.c LIBS fp_agent)
