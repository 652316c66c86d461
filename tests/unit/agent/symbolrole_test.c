// SPDX-License-Identifier: Apache-2.0
// The protocol, with the role's loop in a child that is not confined. This very program is the
// ELF file that is asked about.
#include "role_talk.h"

#include "agent/symbolrole_maps.h"
#include "agent/unwindtable.h"
#include "common/clock.h"
#include "common/file.h"
#include "profile/elfident.h"
#include "profile/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

struct bench {
	int socket;
	pid_t role;
};

static int set_up(void **state)
{
	static struct bench bench;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	bench.role = fork();
	if (bench.role == 0) {
		close(ends[0]);
		_exit(-fp_symbol_role_serve(ends[1]));
	}
	close(ends[1]);
	bench.socket = ends[0];
	*state = &bench;
	return bench.role < 0 ? -1 : 0;
}

static int end_of_role(struct bench *bench)
{
	int status;

	fp_close_fd(&bench->socket);
	if (waitpid(bench->role, &status, 0) != bench->role || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	return bench->socket < 0 ? 0 : end_of_role(bench);
}

static int open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void a_program_is_identified(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = open_self();
	const struct role_answer *answer = role_ask(
	    bench->socket, &(struct role_question){ .kind = FP_ROLE_IDENTIFY, .fds = { fd } });
	struct fp_role_identity identity;
	struct fp_build build;

	assert_int_equal(answer->error, 0);
	assert_int_equal(answer->size, sizeof(identity));
	memcpy(&identity, answer->payload, sizeof(identity));
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_int_equal(identity.kind, build.kind);
	assert_int_equal(identity.id_len, build.id_len);
	assert_memory_equal(identity.id, build.id, build.id_len);
}

static void what_is_no_regular_file_is_not_read(void **state)
{
	struct bench *bench = *state;
	static const uint32_t kinds[] = { FP_ROLE_IDENTIFY, FP_ROLE_MAP_ADD };
	int ends[2];

	assert_int_equal(pipe(ends), 0); // nobody writes: reading would wait for ever
	for (size_t i = 0; i < FP_ARRAY_SIZE(kinds); i++)
		assert_int_equal(role_ask(bench->socket,
					  &(struct role_question){
					      .kind = kinds[i], .argument = 7, .fds = { ends[0] } })
				     ->error,
				 -EINVAL);
	close(ends[0]);
	close(ends[1]);
}

static struct fp_role_identity identity_of(int fd)
{
	struct fp_role_identity identity = { 0 };
	struct fp_build build;

	assert_int_equal(fp_elf_identify(fd, &build), 0);
	identity.kind = build.kind;
	identity.id_len = build.id_len;
	memcpy(identity.id, build.id, sizeof(identity.id));
	return identity;
}

static const struct role_answer *ask_table(int socket_fd, const struct fp_role_identity *identity,
					   int in_fd, int out_fd)
{
	return role_ask(socket_fd, &(struct role_question){ .kind = FP_ROLE_TABLE,
							    .payload = identity,
							    .size = sizeof(*identity),
							    .fds = { in_fd, out_fd } });
}

static void a_table_names_the_functions_of_the_file(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = open_self();
	FP_AUTOCLOSE int out = role_file("", 0);
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_role_identity identity = identity_of(fd);
	const struct role_answer *answer = ask_table(bench->socket, &identity, fd, out);
	char path[64];

	assert_int_equal(answer->error, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	assert_int_equal(fp_file_read(path, 64 << 20, &text), 0);
	assert_int_equal(text.len, answer->argument);
	assert_non_null(strstr((const char *)text.data, " fp_symbol_role_serve\n"));
}

static void a_table_is_made_of_no_other_build(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = open_self();
	FP_AUTOCLOSE int out = role_file("", 0);
	FP_AUTOCLOSE int no_elf = role_text_file("#!/bin/sh\n");
	struct fp_role_identity identity = identity_of(fd);
	struct fp_role_identity script = identity_of(no_elf);
	struct stat info;

	identity.id[0] ^= 1;
	assert_int_equal(ask_table(bench->socket, &identity, fd, out)->error, -EBADMSG);
	identity.id[0] ^= 1;
	assert_int_equal(ask_table(bench->socket, &identity, no_elf, out)->error, -EBADMSG);
	assert_int_equal(ask_table(bench->socket, &script, no_elf, out)->error, -EBADMSG);
	identity.id_len = 255;
	assert_int_equal(ask_table(bench->socket, &identity, fd, out)->error, -EINVAL);
	assert_int_equal(fstat(out, &info), 0);
	assert_int_equal(info.st_size, 0);
}

static void an_unwind_table_is_made_of_the_build_and_no_other(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = open_self();
	FP_AUTOCLOSE int out = role_file("", 0);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	struct fp_role_identity identity = identity_of(fd);
	struct role_question question = { .kind = FP_ROLE_UNWIND,
					  .payload = &identity,
					  .size = sizeof(identity),
					  .fds = { fd, out } };
	const struct role_answer *answer = role_ask(bench->socket, &question);
	struct fp_unwind_view view;
	char path[64];

	assert_int_equal(answer->error, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	assert_int_equal(fp_file_read(path, 64 << 20, &bytes), 0);
	assert_int_equal(bytes.len, answer->argument);
	assert_int_equal(fp_unwind_table_check(bytes.data, bytes.len, &view), 0);
	assert_true(view.head->entries > 0);
	identity.id[0] ^= 1;
	assert_int_equal(role_ask(bench->socket, &question)->error, -ENOENT);
}

static int add_map(struct bench *bench, uint64_t handle, int fd)
{
	return role_ask(bench->socket, &(struct role_question){ .kind = FP_ROLE_MAP_ADD,
								.argument = handle,
								.fds = { fd } })
	    ->error;
}

static void names_are_looked_up_by_handle_and_follow_the_file(void **state)
{
	struct bench *bench = *state;
	static const uint64_t addresses[] = { 0x1008, 0x5000, 0x2000 };
	FP_AUTOCLOSE int one = role_text_file("1000 10 one\n");
	FP_AUTOCLOSE int two = role_text_file("1000 10 other\n5000 1 five\n");
	struct role_question in_one = role_lookup(1, addresses, 3);
	struct role_question in_two = role_lookup(2, addresses, 3);

	assert_int_equal(add_map(bench, 1, one), 0);
	assert_int_equal(add_map(bench, 2, two), 0);
	role_assert_names(role_ask(bench->socket, &in_one), (const char *[]){ "one", "", "" }, 3);
	role_assert_names(role_ask(bench->socket, &in_two), (const char *[]){ "other", "five", "" },
			  3);
	assert_int_equal(fp_write_all(one, "2000 4 later\n1000 10 newer\n", 27), 0);
	role_assert_names(role_ask(bench->socket, &in_one),
			  (const char *[]){ "newer", "", "later" }, 3);
	assert_int_equal(add_map(bench, 1, two), 0); // the handle gets another file
	role_assert_names(role_ask(bench->socket, &in_one), (const char *[]){ "other", "five", "" },
			  3);
	assert_int_equal(role_ask(bench->socket, &(struct role_question){ .kind = FP_ROLE_MAP_DROP,
									  .argument = 1 })
			     ->error,
			 0);
	assert_int_equal(role_ask(bench->socket, &in_one)->error, -ENOENT);
	assert_int_equal(role_ask(bench->socket, &(struct role_question){ .kind = FP_ROLE_MAP_DROP,
									  .argument = 1 })
			     ->error,
			 -ENOENT);
}

static int seal(struct bench *bench, uint64_t handle, uint64_t ended_ns)
{
	return role_ask(bench->socket, &(struct role_question){ .kind = FP_ROLE_MAP_SEAL,
								.argument = handle,
								.payload = &ended_ns,
								.size = sizeof(ended_ns) })
	    ->error;
}

static void write_anew(int fd, const char *text)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
}

static void a_sealed_map_names_what_it_held_whatever_becomes_of_its_file(void **state)
{
	struct bench *bench = *state;
	static const uint64_t addresses[] = { 0x1008, 0x2000 };
	FP_AUTOCLOSE int kept = role_text_file("1000 10 one\n");
	FP_AUTOCLOSE int late = role_text_file("1000 10 one\n");
	struct role_question in_kept = role_lookup(1, addresses, 2);
	struct role_question in_late = role_lookup(2, addresses, 2);

	assert_int_equal(add_map(bench, 1, kept), 0);
	assert_int_equal(add_map(bench, 2, late), 0);
	assert_int_equal(fp_write_all(kept, "2000 10 two\n", 12), 0);
	assert_int_equal(seal(bench, 1, fp_realtime_ns()), 0);
	write_anew(kept, "1000 10 wrong\n2000 10 wrong\n");
	role_assert_names(role_ask(bench->socket, &in_kept), (const char *[]){ "one", "two" }, 2);
	assert_int_equal(seal(bench, 1, 0), 0); // it is already
	write_anew(late, "1000 10 wrong\n2000 10 wrong\n");
	assert_int_equal(seal(bench, 2, fp_realtime_ns() - 3600 * FP_NS_PER_S), -ESTALE);
	assert_int_equal(role_ask(bench->socket, &in_late)->error, -ESTALE);
	assert_int_equal(add_map(bench, 2, late), 0); // the handle gets another program's
	role_assert_names(role_ask(bench->socket, &in_late), (const char *[]){ "wrong", "wrong" },
			  2);
}

static int name_in(struct fp_role_maps *maps, uint64_t handle)
{
	FP_AUTOBUF struct fp_buf answer = { 0 };
	static const uint64_t address = 0x1000;

	return fp_role_maps_lookup(maps, handle, &address, 1, &answer);
}

static void kept_text_is_under_the_bound_of_all_maps(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_role_maps maps;
	size_t one = 0;

	fp_role_maps_init(&maps);
	for (int i = 0; i < 1000; i++)
		fp_buf_printf(&text, "%x 10 function\n", 0x1000 + 16 * i);
	for (uint64_t handle = 0; handle < 2; handle++) {
		assert_int_equal(fp_role_maps_add(&maps, handle, role_file(text.data, text.len)),
				 0);
		assert_int_equal(fp_role_maps_seal(&maps, handle, fp_realtime_ns()), 0);
		one = handle ? one : maps.bytes;
	}
	assert_true(one > text.len);
	assert_int_equal(maps.bytes, 2 * one);
	assert_int_equal(name_in(&maps, 0), 0);
	maps.bytes_max = one;
	assert_int_equal(name_in(&maps, 0), 0); // and so the other makes room
	assert_int_equal(maps.bytes, one);
	assert_int_equal(name_in(&maps, 1), -ESTALE);
	assert_int_equal(name_in(&maps, 0), 0);
	assert_int_equal(fp_role_maps_drop(&maps, 0), 0);
	assert_int_equal(maps.bytes, 0);
	assert_int_equal(fp_role_maps_seal(&maps, 0, 0), -ENOENT);
	fp_role_maps_free(&maps);
}

static void the_longest_names_fit_one_answer(void **state)
{
	struct bench *bench = *state;
	uint64_t addresses[FP_ROLE_ADDRESSES_MAX];
	const char *names[FP_ROLE_ADDRESSES_MAX];
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOCLOSE int fd = -1;
	char name[FP_STRING_MAX + 1];
	struct role_question question;

	memset(name, 'n', FP_STRING_MAX);
	name[FP_STRING_MAX] = '\0';
	fp_buf_printf(&text, "1000 100 %s\n", name);
	for (size_t i = 0; i < FP_ROLE_ADDRESSES_MAX; i++) {
		addresses[i] = 0x1000 + i;
		names[i] = name;
	}
	fd = role_file(text.data, text.len);
	assert_int_equal(add_map(bench, 3, fd), 0);
	question = role_lookup(3, addresses, FP_ROLE_ADDRESSES_MAX);
	role_assert_names(role_ask(bench->socket, &question), names, FP_ROLE_ADDRESSES_MAX);
}

struct bad_question {
	const char *sentence;
	uint32_t kind, size;
	int fds;
	int error;
};

static const struct bad_question bad_questions[] = {
	{ "kind 0", 0, 0, 0, -EOPNOTSUPP },
	{ "a kind that is none", FP_ROLE_REQUESTS, 0, 0, -EOPNOTSUPP },
	{ "the largest kind", UINT32_MAX, 0, 0, -EOPNOTSUPP },
	{ "no descriptor where one is due", FP_ROLE_IDENTIFY, 0, 0, -EINVAL },
	{ "two descriptors where one is due", FP_ROLE_IDENTIFY, 0, 2, -EINVAL },
	{ "four descriptors", FP_ROLE_TABLE, sizeof(struct fp_role_identity), 4, -EMFILE },
	{ "a table without its identity", FP_ROLE_TABLE, 0, 2, -EINVAL },
	{ "an unwind table without its identity", FP_ROLE_UNWIND, 0, 2, -EINVAL },
	{ "a descriptor where none is due", FP_ROLE_MAP_DROP, 0, 1, -EINVAL },
	{ "half an address", FP_ROLE_MAP_LOOKUP, 12, 0, -EINVAL },
	{ "too many addresses", FP_ROLE_MAP_LOOKUP, 8 * (FP_ROLE_ADDRESSES_MAX + 1), 0, -EINVAL },
	{ "a handle nobody gave", FP_ROLE_MAP_LOOKUP, 8, 0, -ENOENT },
	{ "a handle nobody gave, to be sealed", FP_ROLE_MAP_SEAL, 8, 0, -ENOENT },
	{ "an end without its time", FP_ROLE_MAP_SEAL, 0, 0, -EINVAL },
	{ "two ends", FP_ROLE_MAP_SEAL, 16, 0, -EINVAL },
	{ "an end with a descriptor", FP_ROLE_MAP_SEAL, 8, 1, -EINVAL },
};

static size_t count_descriptors(pid_t pid)
{
	size_t count = 0;

	for (int fd = 0; fd < 64; fd++) {
		char path[64], target[8];

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		count += readlink(path, target, sizeof(target)) >= 0;
	}
	return count;
}

static void a_bad_question_is_answered_and_leaves_no_descriptor_behind(void **state)
{
	static const uint8_t zeros[512];
	struct bench *bench = *state;
	FP_AUTOCLOSE int fd = role_text_file("x");
	size_t before;

	// An answer, so that the role is past its start.
	role_ask(bench->socket, &(struct role_question){ .kind = 0 });
	before = count_descriptors(bench->role);
	for (size_t i = 0; i < FP_ARRAY_SIZE(bad_questions); i++) {
		const struct bad_question *bad = &bad_questions[i];
		struct role_question question = {
			.kind = bad->kind, .argument = 99, .payload = zeros, .size = bad->size
		};

		print_message("  %s\n", bad->sentence);
		for (int j = 0; j < bad->fds; j++)
			question.fds[j] = fd;
		assert_int_equal(role_ask(bench->socket, &question)->error, bad->error);
		assert_int_equal(count_descriptors(bench->role), before);
	}
}

static void what_is_no_packet_ends_the_role(void **state)
{
	struct bench *bench = *state;

	assert_int_equal(send(bench->socket, "short", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(end_of_role(bench), EBADMSG);
}

static void a_size_that_lies_ends_the_role(void **state)
{
	struct fp_role_packet head = { .kind = FP_ROLE_MAP_LOOKUP, .size = 8 };
	struct bench *bench = *state;

	assert_int_equal(send(bench->socket, &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
	assert_int_equal(end_of_role(bench), EBADMSG);
}

static void the_role_ends_when_the_client_closes(void **state)
{
	assert_int_equal(end_of_role(*state), 0);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_program_is_identified),
		ON_BENCH(what_is_no_regular_file_is_not_read),
		ON_BENCH(a_table_names_the_functions_of_the_file),
		ON_BENCH(a_table_is_made_of_no_other_build),
		ON_BENCH(an_unwind_table_is_made_of_the_build_and_no_other),
		ON_BENCH(names_are_looked_up_by_handle_and_follow_the_file),
		ON_BENCH(a_sealed_map_names_what_it_held_whatever_becomes_of_its_file),
		cmocka_unit_test(kept_text_is_under_the_bound_of_all_maps),
		ON_BENCH(the_longest_names_fit_one_answer),
		ON_BENCH(a_bad_question_is_answered_and_leaves_no_descriptor_behind),
		ON_BENCH(what_is_no_packet_ends_the_role),
		ON_BENCH(a_size_that_lies_ends_the_role),
		ON_BENCH(the_role_ends_when_the_client_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
