# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(cgrouppath_fuzz SOURCES cgrouppath_fuzz.c LIBS fp_agent)
