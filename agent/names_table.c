// SPDX-License-Identifier: Apache-2.0
//
// A build's symbol table, for the collector, or its unwind table, for the walker: the role writes
// it into memory of ours whose size is fixed beforehand, so that it can neither fill the host's
// memory nor take it away from under the reader.
#include "names_state.h"

#include "common/clock.h"
#include "unwindtable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Anyone can link a file with any build-ID and have it mapped. What we have mapped ourselves
// nobody else chose: the copy of the vDSO belongs to the agent's user.
static bool is_ours(const struct fp_names_file *file)
{
	return file->tgid == (uint32_t)getpid();
}

static int want(struct fp_names_table_job *job, const struct fp_names_unwind_wish *wish)
{
	int r;

	if (job->wanted)
		return -EBUSY;
	r = fp_names_file_copy(&wish->file, &job->file);
	if (r < 0)
		return r;
	job->build = wish->build;
	job->root_only = wish->root_only && !is_ours(&wish->file);
	job->done = wish->done;
	job->context = wish->context;
	job->wanted = true;
	return 0;
}

int fp_names_table(struct fp_names *names, const struct fp_names_file *file,
		   const struct fp_build *build, fp_names_table_fn done, void *context)
{
	const struct fp_names_unwind_wish wish = {
		.file = *file, .build = *build, .root_only = true, .done = done, .context = context
	};

	return want(&names->table, &wish);
}

int fp_names_unwind(struct fp_names *names, const struct fp_names_unwind_wish *wish)
{
	return want(&names->unwind, wish);
}

static void tell_nobody(const struct fp_build *build, int error, const struct fp_buf *table,
			void *context)
{
}

void fp_names_unwind_cancel(struct fp_names *names)
{
	names->unwind.done = tell_nobody;
}

// The job is over before its owner is told, who may ask for the next at once.
static void report(struct fp_names_table_job *job, int error, const struct fp_buf *text)
{
	struct fp_names_table_job done = *job;

	*job = (struct fp_names_table_job){ .memory_fd = -1 };
	free((char *)done.file.name);
	fp_close_fd(&done.memory_fd);
	done.done(&done.build, error, text, done.context);
}

static int make_memory(int *ret_fd)
{
	int fd FP_AUTOCLOSE = memfd_create("fleetprof-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)FP_NAMES_TABLE_MAX) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = fp_take_fd(&fd);
	return 0;
}

static bool begin(struct fp_names *names, struct fp_names_table_job *job, uint64_t now_ns)
{
	bool is_unwind = job == &names->unwind;
	struct fp_role_identity identity = { .kind = job->build.kind, .id_len = job->build.id_len };
	struct fp_role_packet packet = { .kind = is_unwind ? FP_ROLE_UNWIND : FP_ROLE_TABLE,
					 .size = sizeof(identity),
					 .serial = fp_names_serial(names) };
	struct fp_names_open_request request = { .packet = &packet, .payload = &identity };
	int r;

	memcpy(identity.id, job->build.id, sizeof(identity.id));
	fp_close_fd(&job->memory_fd);
	r = fp_names_is_hung(names, job->file.device, now_ns) ? -ENOENT : 0;
	if (r == 0)
		r = make_memory(&job->memory_fd);
	if (r < 0) {
		report(job, r, NULL);
		return false;
	}
	request.name = job->file.name;
	request.memory_fd = job->memory_fd;
	fp_names_file_head(&job->file, &request.head);
	request.head.root_only = job->root_only;
	names->operation.kind = is_unwind ? FP_NAMES_UNWIND : FP_NAMES_TABLE;
	if (fp_names_ask_opener(names, &request) == 0)
		return true;
	names->operation = (struct fp_names_operation){ 0 };
	return false;
}

bool fp_names_table_begin(struct fp_names *names, uint64_t now_ns)
{
	return (names->unwind.wanted && begin(names, &names->unwind, now_ns)) ||
	       (names->table.wanted && begin(names, &names->table, now_ns));
}

static int read_text(int fd, size_t size, struct fp_buf *text)
{
	if (fp_buf_reserve(text, size) < 0)
		return -ENOMEM;
	while (text->len < size) {
		ssize_t n = pread(fd, text->data + text->len, size - text->len, (off_t)text->len);

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		text->len += (size_t)n;
	}
	return 0;
}

// What the requester is told of an error: a file that cannot be had, one that is not root's, or one
// that is not good.
static int error_of(const struct fp_names *names, const struct fp_names_result *result)
{
	if (result->from_role)
		return result->error;
	if (result->error == -EACCES && names->operation.answer.refusal == FP_OPENER_OWNER)
		return -EPERM;
	if (!fp_names_is_choking(result->error))
		return -ENOENT;
	// Symbols are asked for again by the collector; whoever wants to walk asks again himself.
	return names->operation.kind == FP_NAMES_UNWIND ? result->error : -EBADMSG;
}

// What is read is a copy that nobody else can change any more.
static bool is_unwind_table(const struct fp_buf *table)
{
	struct fp_unwind_view view;

	return fp_unwind_table_check(table->data, table->len, &view) == 0;
}

static void count(struct fp_names *names, bool is_unwind, size_t bytes)
{
	*(is_unwind ? &names->stats.unwinds_made : &names->stats.tables_made) += 1;
	*(is_unwind ? &names->stats.unwind_bytes : &names->stats.table_bytes) += bytes;
}

bool fp_names_table_end(struct fp_names *names, const struct fp_names_result *result)
{
	bool is_unwind = names->operation.kind == FP_NAMES_UNWIND;
	struct fp_names_table_job *job = is_unwind ? &names->unwind : &names->table;
	struct fp_buf text FP_AUTOBUF = { 0 };
	int error = result->error ? error_of(names, result) : 0;

	if (result->error == -EPIPE && !result->from_role)
		return true; // still wanted
	if (error == 0) {
		if (result->argument > FP_NAMES_TABLE_MAX)
			return false;
		error = read_text(job->memory_fd, (size_t)result->argument, &text);
		if (error == 0 && is_unwind && !is_unwind_table(&text))
			return false;
	}
	if (error == 0)
		count(names, is_unwind, text.len);
	report(job, error, error ? NULL : &text);
	return true;
}

void fp_names_table_free(struct fp_names *names)
{
	free((char *)names->table.file.name);
	free((char *)names->unwind.file.name);
	fp_close_fd(&names->table.memory_fd);
	fp_close_fd(&names->unwind.memory_fd);
}
