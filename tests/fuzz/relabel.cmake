# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(relabel_fuzz SOURCES relabel_fuzz.c LIBS fp_agent)
