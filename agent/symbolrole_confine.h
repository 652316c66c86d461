// SPDX-License-Identifier: Apache-2.0
//
// symbolrole_confine: what the symbols role takes away from itself before it reads a byte of a
// foreign file: capabilities, the way back to privileges, all descriptors but its socket and
// stderr, memory, files and cores beyond a bound, and all system calls but those that reading
// given descriptors and answering take. Any other ends the process.
// Trust: what comes after it. Threads: one.
#pragma once

// Errors: -errno of the step that failed; the role must not go on then.
int fp_symbol_role_confine(int socket_fd);
