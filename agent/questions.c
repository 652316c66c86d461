// SPDX-License-Identifier: Apache-2.0
#include "questions.h"

#include "names.h"

#include <errno.h>
#include <stdlib.h>

void fp_questions_free(struct fp_questions *questions)
{
	free(questions->records);
	*questions = (struct fp_questions){ .unwind = questions->unwind };
}

int fp_questions_note(struct fp_questions *questions, const struct fp_stack_record *record)
{
	if (record->kernel_thread)
		return 0;
	if (questions->count == questions->capacity) {
		size_t capacity = questions->capacity ? 2 * questions->capacity : 256;
		void *grown =
		    reallocarray(questions->records, capacity, sizeof(*questions->records));

		if (!grown)
			return -ENOMEM;
		questions->records = grown;
		questions->capacity = capacity;
	}
	questions->records[questions->count++] =
	    (struct fp_new_record){ .key = record->key, .set = record->epoch & 1 };
	return 0;
}

// A question that finds no room is counted by fp_names, and asked again with the next stack.
static void watch(struct fp_names *names, uint32_t tgid, uint64_t start_ns, uint64_t exec_ns)
{
	struct fp_names_process process = { .tgid = tgid,
					    .start_ns = start_ns,
					    .exec_ns = exec_ns };

	(void)fp_names_watch_jit(names, &process);
}

// What the process was may be over by the time that a stack of it arrives.
static void watch_view(struct fp_resolver *resolver, const struct fp_stack_record *record,
		       const struct fp_process_view *view)
{
	uint64_t start_ns, exec_ns;

	watch(resolver->names, record->tgid, record->start_ns, view->exec_ns);
	if (fp_process_table_instance(resolver->processes, record->tgid, &start_ns, &exec_ns) &&
	    exec_ns > view->exec_ns)
		fp_names_end_process(resolver->names, record->tgid, exec_ns, true);
}

static void end_process(const struct fp_resolver *resolver, const struct fp_event *event)
{
	bool exec = event->kind == FP_EVENT_EXEC;

	if (exec || (event->kind == FP_EVENT_EXIT &&
		     fp_process_table_has_ended(resolver->processes, event->tgid)))
		fp_names_end_process(resolver->names, event->tgid, event->time_ns, exec);
}

void fp_questions_event(const struct fp_resolver *resolver, const struct fp_event *event)
{
	struct fp_names_file file = { .tgid = event->tgid,
				      .start = event->start,
				      .end = event->start + event->length,
				      .device = (uint64_t)event->major << 32 | event->minor,
				      .inode = event->inode,
				      .name = event->name };
	uint64_t start_ns, exec_ns;
	struct fp_file mapped;

	if (!resolver->names)
		return;
	end_process(resolver, event);
	if (event->kind != FP_EVENT_MMAP || event->build_id_len != 0)
		return;
	mapped =
	    (struct fp_file){ .kind = fp_file_kind_of(event->name), .name = (char *)event->name };
	if (mapped.kind == FP_FILE_REGULAR)
		(void)fp_names_want_identity(resolver->names, &file);
	if (fp_file_may_be_jit(&mapped) &&
	    fp_process_table_instance(resolver->processes, event->tgid, &start_ns, &exec_ns))
		watch(resolver->names, event->tgid, start_ns, exec_ns);
}

static void ask_address(struct fp_resolver *resolver, const struct fp_stack_record *record,
			const struct fp_process_view *view, uint64_t address, bool jit)
{
	const struct fp_mapping *mapping = fp_process_view_at(view, address);
	const struct fp_file *file = mapping ? &view->files[mapping->file] : NULL;

	if (!file || file->build_id_len != 0)
		return;
	if (file->kind == FP_FILE_REGULAR) {
		struct fp_names_file question = fp_resolver_file(record, view, mapping);

		(void)fp_names_want_identity(resolver->names, &question);
	}
	if (jit && fp_file_may_be_jit(file)) {
		struct fp_names_process process = fp_resolver_process(record, view);

		(void)fp_names_want_jit(resolver->names, &process, address);
	}
}

// Looking at the process at all is worth it: it is read now, while it runs.
static int ask(struct fp_resolver *resolver, const struct fp_stack_record *record, bool jit,
	       uint64_t *ret_stamp)
{
	const uint64_t *addresses = (const uint64_t *)record->frames + record->kernel_len;
	struct fp_process_view view;
	int r;

	*ret_stamp = 0;
	if (record->kernel_thread || record->user_len > FP_MAX_USER_FRAMES)
		return 0;
	r = fp_process_table_view(resolver->processes, record, &view);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	*ret_stamp = view.stamp;
	if (!resolver->names)
		return 0;
	if (view.has_anon)
		watch_view(resolver, record, &view);
	if (!view.has_unidentified && !(jit && view.has_anon))
		return 0;
	for (uint32_t i = 0; i < record->user_len; i++)
		ask_address(resolver, record, &view, addresses[i] - (i > 0), jit);
	return 0;
}

int fp_questions_ask_early(struct fp_questions *questions, struct fp_resolver *resolver,
			   struct fp_records *records)
{
	int r = 0;

	for (size_t i = 0; i < questions->count && r == 0; i++) {
		const struct fp_new_record *new = &questions->records[i];
		struct fp_stack_record *record = fp_records_own(records, new->set, &new->key);
		uint64_t stamp;

		if (record)
			r = ask(resolver, record, false, &stamp);
		if (record && r == 0)
			r = fp_unwind_record(questions->unwind, record, stamp);
	}
	questions->count = 0;
	return r;
}

int fp_questions_ask(struct fp_resolver *resolver, const struct fp_stack_record *record)
{
	uint64_t stamp;

	return ask(resolver, record, true, &stamp);
}
