# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(selector_fuzz SOURCES selector_fuzz.c LIBS fp_collector)
