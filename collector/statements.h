// SPDX-License-Identifier: Apache-2.0
//
// statements: what the files of the manifest share and nobody else needs.
#pragma once

#include "manifest.h"

// Keeps the database's error text and yields -EIO.
int fp_manifest_fail(struct fp_manifest *manifest);
// Reads the known label sets into the cache, replacing it.
int fp_manifest_load_series(struct fp_manifest *manifest);
