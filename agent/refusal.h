// SPDX-License-Identifier: Apache-2.0
//
// refusal: why the kernel would not have us, in one line with the fix. Looks at the errno,
// at what libbpf and the verifier said (the last lines are kept, not printed) and at the
// usual suspects: capabilities, lockdown, BTF, perf_event_paranoid.
#pragma once

#include "sampler.h"

void fp_refusal_listen(void); // takes over libbpf's log output; forgets what was kept
// step: what was being done, e.g. "loading the BPF programs".
void fp_refusal_explain(int error, const char *step, struct fp_refusal *ret);
const char *fp_refusal_log(void); // what libbpf said last, "" when nothing
