# SPDX-License-Identifier: Apache-2.0
fp_fuzz_target(batch_fuzz SOURCES batch_fuzz.c LIBS fp_proto PkgConfig::ZSTD)
