// SPDX-License-Identifier: Apache-2.0
//
// names_played: the names client as a test plays it: it notes what it is asked and told, as text,
// and has the answers in a table. Tests include it once each.
#pragma once

#include "../cases.h"

#include "agent/names.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>

#define JIT 0x7f0000200000u

static struct {
	char identities[512], watches[256], addresses[256]; // questions, as text
	char ends[256];
	enum fp_names_state state;
	enum fp_build_kind kind;
	const char *jit_name; // of the function at JIT + 0x100, and 0x80 bytes on
} names;

static void note(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(char *text, size_t size, const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, size - length, format, arguments);
	va_end(arguments);
}

int fp_names_want_identity(struct fp_names *client, const struct fp_names_file *file)
{
	note(names.identities, sizeof(names.identities), "%u/%u %s %llx-%llx %llu:%llu;",
	     file->tgid, file->parent_tgid, file->name, (unsigned long long)file->start,
	     (unsigned long long)file->end, (unsigned long long)file->device,
	     (unsigned long long)file->inode);
	return 0;
}

enum fp_names_state fp_names_identity(const struct fp_names *client,
				      const struct fp_names_file *file, struct fp_build *ret_build)
{
	if (names.state == FP_NAMES_KNOWN) {
		ret_build->kind = (uint8_t)names.kind;
		ret_build->id_len = 20;
		memset(ret_build->id, 7, 20);
	}
	return names.state;
}

int fp_names_watch_jit(struct fp_names *client, const struct fp_names_process *process)
{
	note(names.watches, sizeof(names.watches), "%u %llu %llu;", process->tgid,
	     (unsigned long long)process->start_ns / FP_NS_PER_MS,
	     (unsigned long long)process->exec_ns / FP_NS_PER_MS);
	return 0;
}

void fp_names_end_process(struct fp_names *client, uint32_t tgid, uint64_t time_ns, bool exec)
{
	note(names.ends, sizeof(names.ends), "%u %s %llu;", tgid, exec ? "exec" : "exit",
	     (unsigned long long)time_ns / FP_NS_PER_MS);
}

int fp_names_want_jit(struct fp_names *client, const struct fp_names_process *process,
		      uint64_t address)
{
	note(names.addresses, sizeof(names.addresses), "%llx;", (unsigned long long)address);
	return 0;
}

const char *fp_names_jit(const struct fp_names *client, const struct fp_names_process *process,
			 uint64_t address, size_t *ret_size)
{
	if (!names.jit_name || address < JIT + 0x100 || address >= JIT + 0x180)
		return NULL;
	*ret_size = strlen(names.jit_name);
	return names.jit_name;
}
