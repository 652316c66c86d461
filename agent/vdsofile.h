// SPDX-License-Identifier: Apache-2.0
//
// vdsofile: our own vDSO as a file that the symbols role can read: a copy in a memfd, mapped, so
// that it is had like any other file that a process has mapped.
// Threads: first call initialises, one owner. The copy lives as long as the process.
#pragma once

#include "names.h"

// -ENOENT: there is no vDSO; -errno.
int fp_vdso_file(struct fp_names_file *ret);
