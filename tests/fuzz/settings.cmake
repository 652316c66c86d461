# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(settings_fuzz SOURCES settings_fuzz.c LIBS fp_common)
