// SPDX-License-Identifier: Apache-2.0
//
// symbolrole: the symbols role. A child without capabilities, network, file system and
// privileges (seccomp allow-list, its own user where possible): it gets descriptors over a
// SOCK_SEQPACKET socket, parses ELF files and perf maps, and answers with build identities, JIT
// names and symbol tables. A hostile file can make it die or answer nonsense, nothing more.
// This header is the protocol that agent/names.c speaks with it. One request, one answer, in
// order; both are one packet: struct fp_role_packet and `size` bytes of payload.
// Trust: requests trusted, files foreign. Threads: one.
#pragma once

#include "proto/profile.h"

#define FP_SYMBOLS_ROLE_ARGUMENT "--symbols-role"
#define FP_ROLE_PAYLOAD_MAX	 ((size_t)160 << 10)
#define FP_ROLE_ADDRESSES_MAX	 32 // of one MAP_LOOKUP

enum fp_role_request {
	FP_ROLE_IDENTIFY = 1, // fd: the file. Answer: payload struct fp_role_identity
	FP_ROLE_TABLE, // fds: the file, a memfd to write to; payload: struct fp_role_identity
	// that the file must have. Answer: argument = bytes written
	FP_ROLE_MAP_ADD, // fd: a perf map; argument: handle chosen by the client; a handle in
	// use gets the new file
	FP_ROLE_MAP_DROP,   // argument: handle
	FP_ROLE_MAP_LOOKUP, // argument: handle; payload: uint64_t addresses[]. What the file has
	// grown by is read first. Answer: for each address uint16_t length
	// (0: no name) and the bytes. Errors: -EAGAIN the file is large and being read in
	// steps, ask again; -EFBIG over a bound; -ENOENT no such handle; -ESTALE the map is sealed
	// and its names are gone, or the file changes faster than it can be read
	FP_ROLE_UNWIND, // as TABLE, but what is written is a struct fp_unwind_table with what
	// belongs to it (agent/unwindtable.h, which has the errors)
	FP_ROLE_MAP_SEAL, // argument: handle; payload: uint64_t, when the program that writes
	// the map ended, in ns of CLOCK_REALTIME, 0: not known. From now on nothing that is
	// written to the file counts (fp_perf_map_seal in agent/perfmap.h). No payload in the
	// answer. Errors: -EAGAIN being read in steps, ask again; -ESTALE it was written to by
	// somebody else: the map has no names; -EFBIG, -ENOENT as above
	FP_ROLE_REQUESTS
};

struct fp_role_packet {
	uint32_t kind; // enum fp_role_request, the same in the answer
	int32_t error; // answers: 0 or -errno
	uint64_t argument;
	uint32_t size;	 // of the payload
	uint32_t serial; // of the request, repeated in the answer
};

struct fp_role_identity {
	uint8_t kind; // enum fp_build_kind; FP_BUILD_NONE: nothing identifies the file
	uint8_t id_len;
	uint8_t id[FP_BUILD_ID_MAX];
	uint8_t padding[2];
};

// main() of the executed role; its socket is descriptor 3. Returns the exit code.
int fp_symbol_role_main(void);
// The role's loop on a socket, without any confinement, for tests and fuzzing. Returns when the
// peer has closed. 0 or -errno.
int fp_symbol_role_serve(int socket_fd);
