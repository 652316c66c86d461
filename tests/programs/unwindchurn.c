// SPDX-License-Identifier: Apache-2.0
//
// The program of unwindchurn.h:
//   unwindchurn_N MODE SECONDS ARGUMENT…
//   dlopen LIBRARY…   loads each in turn, works in it, unloads it
//   fork LIBRARY…     children without exec, each working in another library
//   jit LIBRARY…      as dlopen, with code made at the addresses where the library was
//   replace LIBRARY…  loads one file of the working directory, which is replaced by each library
//                     in turn: by another file while it is loaded, in place while it is not
//   exec PROGRAM      becomes the program (its sibling, at the same addresses), which becomes it…
// What code there may be at which time is written to the file $FP_CHURN_STATES: see struct state.
#include "unwindchurn.h"

#include "reference.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOIN2(a, b)   a##b
#define JOIN(a, b)    JOIN2(a, b)
#define SPIN_ROUNDS   60000
#define CODE_BYTES    4096u
#define GENERATION_NS 30000000u // between two execs, and a child's life
#define NAPPING	      4		// of so many turns one waits
#define LENGTHS	      8 // a library stays for 4, 8, … 512 turns: 0.5 ms up to some tens of ms
#define PLACE	      "./replaced.so"
#define NEXT	      "./next.so"

// Code is put down as here before it can be, and as gone when it is; of a child what its parent
// had. So at any time what is there is among what is put down, and that is hardly ever more.
enum { GONE, HERE, CHILD_OF };
enum { MADE = 100, MADE_BARE }; // numbers of code that is no library and no program
struct state {
	uint32_t pid, number, what, zero;
	uint64_t time_ns; // CLOCK_MONOTONIC
};

extern const char __start_churncode[], __stop_churncode[];
extern const char __start_churnbare[], __stop_churnbare[];

static volatile uint64_t sink;
static int states = -1;

// The innermost: computes, or waits a little without the C library.
FRAME static uint64_t churn_spin(uint64_t x)
{
	struct timespec nap = { 0, 200000 };

	if (x % NAPPING == 0)
		raw_syscall4(SYS_nanosleep, (long)&nap, 0, 0, 0);
	for (int i = 0; i < SPIN_ROUNDS; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return x;
}

// What is copied into anonymous memory: with a frame pointer, as JIT compilers keep one.
__attribute__((section("churncode"), used, optimize("no-omit-frame-pointer"))) FRAME static uint64_t
churn_made(churn_inner_fn inner, uint64_t x)
{
	KEEP_FRAME();
	return inner(x * 3) + 1;
}

// And without: nothing says how to go on from there.
__attribute__((section("churnbare"), used)) FRAME static uint64_t churn_bare(churn_inner_fn inner,
									     uint64_t x)
{
	return inner(x * 5) + 1;
}

FRAME static void churn_work(churn_enter_fn enter)
{
	sink = sink + enter(churn_spin, sink);
	sink = sink + 1; // no tail call
}

// Two frames of the program itself, of other sizes in its sibling.
FRAME static uint64_t JOIN(churn_middle_, VARIANT)(churn_inner_fn inner, uint64_t x)
{
	volatile uint64_t room[5 * VARIANT + 1];

	room[x % (5 * VARIANT + 1)] = x;
	return inner(x) + room[x % (5 * VARIANT + 1)];
}

FRAME static uint64_t JOIN(churn_enter_, VARIANT)(churn_inner_fn inner, uint64_t x)
{
	volatile uint64_t room[30 - 3 * VARIANT];

	room[x % 2] = x;
	return JOIN(churn_middle_, VARIANT)(inner, x) + room[x % 2];
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void put_down_of(uint64_t time_ns, uint32_t number, uint32_t what)
{
	const struct state state = {
		.pid = (uint32_t)getpid(), .number = number, .what = what, .time_ns = time_ns
	};

	if (states >= 0 && write(states, &state, sizeof(state)) != sizeof(state))
		die("states");
}

static void put_down(uint32_t number, uint32_t what)
{
	put_down_of(now_ns(), number, what);
}

static uint32_t number_of(const char *path)
{
	const char *end = strrchr(path, '_');

	return end != NULL ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
}

// number: the library's that lies at the path.
static void *library_open(const char *path, uint32_t number, churn_enter_fn *ret_enter)
{
	void *library, *symbol;

	put_down(number, HERE);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = library != NULL ? dlsym(library, "churn_enter") : NULL;

	if (symbol == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	memcpy(ret_enter, &symbol, sizeof(symbol));
	return library;
}

static void library_close(void *library, uint32_t number)
{
	if (dlclose(library) != 0)
		die("dlclose");
	put_down(number, GONE);
}

static void work_for(churn_enter_fn enter, int turn)
{
	for (int i = 0; i < NAPPING << turn % LENGTHS; i++)
		churn_work(enter);
}

static void load_and_work(const char *path, int turn)
{
	churn_enter_fn enter;
	void *library = library_open(path, number_of(path), &enter);

	work_for(enter, turn);
	library_close(library, number_of(path));
}

// The code is copied to the page.
static void make_at(void *place, const char *start, const char *stop)
{
	size_t size = (size_t)(stop - start);
	void *memory = mmap(place, CODE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED || size > CODE_BYTES)
		die("code where a library was");
	memcpy(memory, start, size);
	if (mprotect(memory, CODE_BYTES, PROT_READ | PROT_EXEC) < 0)
		die("mprotect");
}

static void make_and_work(const char *path, int turn)
{
	uint32_t number = turn % 3 ? MADE : MADE_BARE;
	churn_enter_fn enter;
	void *library = library_open(path, number_of(path), &enter), *place;

	work_for(enter, turn);
	memcpy(&place, &enter, sizeof(place));
	place = (void *)((uintptr_t)place & ~(uintptr_t)(CODE_BYTES - 1));
	library_close(library, number_of(path));
	put_down(number, HERE);
	if (number == MADE)
		make_at(place, __start_churncode, __stop_churncode);
	else
		make_at(place, __start_churnbare, __stop_churnbare);
	memcpy(&enter, &place, sizeof(enter));
	work_for(enter, turn);
	munmap(place, CODE_BYTES);
	put_down(number, GONE);
}

// Every other child stays with the library that its parent had; to the others another one comes
// where that lay, over and over.
static void child_works(char **paths, int count, int turn, void *library, churn_enter_fn enter)
{
	uint64_t end = now_ns() + GENERATION_NS;
	bool stays = turn % 2;

	while (now_ns() < end) {
		work_for(enter, 0);
		if (stays)
			continue;
		library_close(library, number_of(paths[turn % count]));
		turn++;
		library = library_open(paths[turn % count], number_of(paths[turn % count]), &enter);
	}
	_exit(0);
}

static void fork_and_work(char **paths, int count, int turn)
{
	const char *path = paths[turn % count];
	churn_enter_fn enter;
	void *library = library_open(path, number_of(path), &enter);
	uint64_t forked_ns = now_ns();
	pid_t child = fork();

	if (child == 0) {
		put_down_of(forked_ns, (uint32_t)getppid(), CHILD_OF);
		child_works(paths, count, turn, library, enter);
	}
	churn_work(enter);
	library_close(library, number_of(path));
	if (child < 0 || waitpid(child, NULL, 0) != child)
		die("fork");
}

// What lay at `to` before stays what it was, or becomes the other.
static void copy(const char *from, const char *to, bool in_place)
{
	int input = open(from, O_RDONLY | O_CLOEXEC);
	int output = open(in_place ? to : NEXT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRWXU);
	off_t size = lseek(input, 0, SEEK_END);

	if (size <= 0 || lseek(input, 0, SEEK_SET) != 0 ||
	    sendfile(output, input, NULL, (size_t)size) != size)
		die(from);
	close(input);
	close(output);
	if (!in_place && rename(NEXT, to) < 0)
		die(to);
}

static void replace_and_work(char **paths, int count, int turn)
{
	const char *path = paths[turn % count], *next = paths[(turn + 1) % count];
	churn_enter_fn enter;
	void *library;

	if (turn == 0)
		copy(path, PLACE, false);
	library = library_open(PLACE, number_of(path), &enter);
	work_for(enter, turn);
	if (turn % 2)
		copy(next, PLACE, false);
	work_for(enter, turn);
	library_close(library, number_of(path));
	if (turn % 2 == 0)
		copy(next, PLACE, true);
}

static void become(char **argv, uint64_t end)
{
	char *sibling = argv[3], rest[32];
	char *arguments[] = { sibling, argv[1], rest, argv[0], NULL };
	uint64_t generation_end = now_ns() + GENERATION_NS;

	while (now_ns() < generation_end)
		churn_work(JOIN(churn_enter_, VARIANT));
	if (now_ns() > end)
		exit(0);
	snprintf(rest, sizeof(rest), "%.9f", (double)(end - now_ns()) / 1e9);
	put_down(number_of(sibling), HERE);
	execv(sibling, arguments);
	die(sibling);
}

static void begin(const char *program, const char *sibling)
{
	const char *path = getenv("FP_CHURN_STATES");

	if (path != NULL) {
		states = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
		if (states < 0)
			die(path);
	}
	put_down(number_of(program), HERE);
	if (sibling != NULL)
		put_down(number_of(sibling), GONE);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[1] : "";
	uint64_t end = now_ns() + (uint64_t)((argc > 3 ? strtod(argv[2], NULL) : 0) * 1e9);
	char **paths = argv + 3;
	int count = argc - 3;

	begin(argv[0], strcmp(mode, "exec") == 0 ? argv[3] : NULL);
	for (int turn = 0; now_ns() < end; turn++) {
		if (strcmp(mode, "dlopen") == 0)
			load_and_work(paths[turn % count], turn);
		else if (strcmp(mode, "jit") == 0)
			make_and_work(paths[turn % count], turn);
		else if (strcmp(mode, "fork") == 0)
			fork_and_work(paths, count, turn);
		else if (strcmp(mode, "replace") == 0)
			replace_and_work(paths, count, turn);
		else if (strcmp(mode, "exec") == 0)
			become(argv, end);
		else
			return 2;
	}
	return 0;
}
