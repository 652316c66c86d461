# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(query_fuzz SOURCES query_fuzz.c
  LIBS fp_collector PkgConfig::ZSTD)
