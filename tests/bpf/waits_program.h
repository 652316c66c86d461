// SPDX-License-Identifier: Apache-2.0
//
// waits_program: tests/programs/waits as a child that stands at its gate, works when told so and
// then prints its truth.
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct program {
	pid_t pid;
	int in, out;
};

static inline void read_line(const struct program *program, char *line, size_t size)
{
	size_t used = 0;

	while (used + 1 < size && read(program->out, line + used, 1) == 1) {
		if (line[used++] == '\n')
			break;
	}
	line[used] = '\0';
	assert_true(used > 0 && line[used - 1] == '\n');
}

static inline struct program start_program(double seconds, uint32_t seed)
{
	struct program program;
	char length[32], number[16], line[64];
	int in[2], out[2];

	snprintf(length, sizeof(length), "%.1f", seconds);
	snprintf(number, sizeof(number), "%u", seed);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	program = (struct program){ .pid = fork(), .in = in[1], .out = out[0] };
	if (!program.pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(FP_PROGRAMS_DIR "/waits", "waits", "--gate", "--seconds", length, "--seed",
		      number, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	read_line(&program, line, sizeof(line));
	assert_int_equal(strncmp(line, "ready ", 6), 0);
	return program;
}

static inline void end_program(const struct program *program)
{
	int status;

	close(program->in);
	close(program->out);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	assert_int_equal(status, 0);
}
