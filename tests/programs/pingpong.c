// SPDX-License-Identifier: Apache-2.0
//
// pingpong: two threads (or, with --processes, two processes) hand a byte to and fro
// through two pipes, on two CPUs or with --same-cpu on one: a context switch per hand-over
// and hardly anything else. Runs --round-trips, or for --seconds when that is not given.
#include "reference.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct game {
	const struct options *options;
	int there[2], back[2];
	uint64_t round_trips;
	uint64_t wall_ns;
};

FRAME static void pong(struct game *game)
{
	char byte;

	pin_to_cpu(game->options->same_cpu ? 0 : 1);
	while (read(game->there[0], &byte, 1) == 1 && byte != 'e') {
		if (write(game->back[1], &byte, 1) != 1)
			die("write");
	}
}

FRAME static void ping(struct game *game)
{
	uint64_t start, end;
	char byte = 'p';

	pin_to_cpu(0);
	start = clock_ns(CLOCK_MONOTONIC);
	end = start + (uint64_t)(game->options->seconds * 1e9);
	while (game->options->round_trips > 0 ? game->round_trips < game->options->round_trips
					      : clock_ns(CLOCK_MONOTONIC) < end) {
		if (write(game->there[1], &byte, 1) != 1 || read(game->back[0], &byte, 1) != 1)
			die("pipe");
		game->round_trips++;
	}
	game->wall_ns = clock_ns(CLOCK_MONOTONIC) - start;
	if (write(game->there[1], "e", 1) != 1)
		die("write");
}

static void *pong_main(void *argument)
{
	pong(argument);
	return NULL;
}

static void play_threads(struct game *game)
{
	pthread_t partner;

	if (pthread_create(&partner, NULL, pong_main, game) != 0)
		die("pthread_create");
	ping(game);
	pthread_join(partner, NULL);
}

static void play_processes(struct game *game)
{
	pid_t partner = fork();

	if (partner < 0)
		die("fork");
	if (partner == 0) {
		close(game->there[1]); // else it would never see that the other side has died
		close(game->back[0]);
		pong(game);
		_exit(0);
	}
	ping(game);
	waitpid(partner, NULL, 0);
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };
	struct game game = { .options = &options };

	options_parse(argc, argv, &options);
	if (pipe(game.there) != 0 || pipe(game.back) != 0)
		die("pipe");
	gate_enter(&options);
	if (options.processes)
		play_processes(&game);
	else
		play_threads(&game);
	printf("{\"program\":\"pingpong\",\"pid\":%d,\"round_trips\":%llu,\"wall_ns\":%llu,"
	       "\"us_per_round_trip\":%.3f}\n",
	       (int)getpid(), (unsigned long long)game.round_trips,
	       (unsigned long long)game.wall_ns,
	       (double)game.wall_ns / 1e3 / (double)(game.round_trips > 0 ? game.round_trips : 1));
	gate_leave(&options);
	return 0;
}
