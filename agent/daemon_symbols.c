// SPDX-License-Identifier: Apache-2.0
#include "daemon_symbols.h"

#include "common/log.h"
#include "daemon_state.h"
#include "names.h"
#include "resolve_vdso.h"
#include "vdsofile.h"

#include <errno.h>
#include <string.h>

struct path_key {
	uint8_t len;
	uint8_t id[FP_BUILD_ID_MAX];
};

struct known_path {
	char *path; // owned
	uint8_t kind;
	uint8_t padding[7];
};

static void paths_free(struct fp_hashmap *paths)
{
	size_t position = 0;
	const void *key;
	void *value;

	while (fp_hashmap_next(paths, &position, &key, &value))
		free(((struct known_path *)value)->path);
	fp_hashmap_free(paths);
}

void fp_daemon_symbols_init(struct fp_daemon_symbols *symbols, struct fp_daemon *daemon)
{
	*symbols = (struct fp_daemon_symbols){
		.daemon = daemon,
		.more = true, // left by an agent before this one
		.recent = FP_HASHMAP_INIT(struct path_key, struct known_path),
		.before = FP_HASHMAP_INIT(struct path_key, struct known_path),
	};
}

void fp_daemon_symbols_free(struct fp_daemon_symbols *symbols)
{
	paths_free(&symbols->recent);
	paths_free(&symbols->before);
	fp_free_ptr(&symbols->path);
}

static struct path_key key_of(const struct fp_build *build)
{
	struct path_key key = { .len = build->id_len };

	memcpy(key.id, build->id, build->id_len);
	return key;
}

// Without the kernel's mark on the name of a file that has been unlinked.
static char *path_of(const char *name)
{
	static const char deleted[] = " (deleted)";
	size_t size = strlen(name);

	if (size > strlen(deleted) && strcmp(name + size - strlen(deleted), deleted) == 0)
		size -= strlen(deleted);
	return strndup(name, size);
}

static void remember(struct fp_daemon_symbols *symbols, const struct fp_build *build,
		     const char *name)
{
	struct path_key key = key_of(build);
	struct known_path *known;
	bool is_new;

	if (symbols->recent.count >= FP_DAEMON_PATHS_MAX) {
		paths_free(&symbols->before);
		symbols->before = symbols->recent;
		symbols->recent = FP_HASHMAP_INIT(struct path_key, struct known_path);
	}
	known = fp_hashmap_put(&symbols->recent, &key, &is_new);
	if (!known || !is_new)
		return;
	known->kind = build->kind;
	known->path = path_of(name);
	if (!known->path)
		fp_hashmap_remove(&symbols->recent, &key);
}

void fp_daemon_symbols_remember(struct fp_daemon_symbols *symbols, const struct fp_profile *profile)
{
	for (uint32_t i = 0; i < profile->builds_count; i++) {
		const struct fp_build *build = &profile->builds[i];
		const char *name = fp_profile_str(profile, build->path);

		if (build->id_len && name[0] == '/')
			remember(symbols, build, name);
	}
}

static const struct known_path *find_path(const struct fp_daemon_symbols *symbols,
					  const struct fp_build *build)
{
	struct path_key key = key_of(build);
	const struct known_path *known = fp_hashmap_get(&symbols->recent, &key);

	return known ? known : fp_hashmap_get(&symbols->before, &key);
}

// The wish is over, whatever came of it. One that cannot be removed is left until the directory
// changes.
static void finish(struct fp_daemon_symbols *symbols, enum fp_agent_metric result)
{
	int r = fp_spool_drop_wanted(symbols->daemon->spool, symbols->id);

	fp_metric_add(&symbols->daemon->metrics, result, 1);
	fp_free_ptr(&symbols->path);
	if (r < 0 && r != -ENOENT) {
		fp_warn("cannot remove the wish '%s' from the spool (%s), leaving it", symbols->id,
			strerror(-r));
		symbols->more = false;
	}
}

static void spool_table(struct fp_daemon_symbols *symbols, const struct fp_build *build,
			const struct fp_buf *text, enum fp_agent_metric result)
{
	int r = fp_spool_put_wanted(symbols->daemon->spool, build, symbols->path, text);

	if (r < 0)
		fp_warn("the symbol table of '%s' could not be spooled (%s), the collector will "
			"ask again",
			symbols->path, strerror(-r));
	finish(symbols, r < 0 ? FP_M_WANTED_FAILED : result);
}

static void try_next(struct fp_daemon_symbols *symbols, const struct fp_build *build);

// What is counted when no file does: somebody's claim to be the build before any other reason.
static void note_failure(struct fp_daemon_symbols *symbols, int error)
{
	if (error == -EPERM)
		symbols->result = FP_M_WANTED_UNTRUSTED;
	else if (error != -ENOENT && symbols->result == FP_M_WANTED_GONE)
		symbols->result = FP_M_WANTED_FAILED;
}

static void take_table(const struct fp_build *build, int error, const struct fp_buf *text,
		       void *context)
{
	static const struct fp_buf nothing;
	struct fp_daemon_symbols *symbols = context;

	symbols->asked = false;
	if (error == 0)
		spool_table(symbols, build, text, FP_M_WANTED_SPOOLED);
	else if (error == -ENODATA) // so that the collector knows, and asks nobody else
		spool_table(symbols, build, &nothing, FP_M_WANTED_STRIPPED);
	else {
		note_failure(symbols, error);
		try_next(symbols, build);
	}
}

static void ask(struct fp_daemon_symbols *symbols, const struct fp_build *build,
		const struct fp_names_file *file)
{
	int r;

	free(symbols->path);
	symbols->path = path_of(file->name);
	r = symbols->path ? fp_names_table(symbols->daemon->names, file, build, take_table, symbols)
			  : -ENOMEM;
	symbols->asked = r == 0;
	if (r < 0 && r != -EBUSY) // busy: the wish waits for the next turn
		finish(symbols, FP_M_WANTED_FAILED);
}

// Programs that live for milliseconds are gone when their table is asked for, but mostly still
// lie where they were. Whatever lies there now, the role compares its build.
static void ask_by_path(struct fp_daemon_symbols *symbols, const struct fp_build *build)
{
	const struct known_path *known = find_path(symbols, build);
	struct fp_names_file file = { .tgid = 1 };
	struct fp_build wanted = *build;

	symbols->by_path = true;
	if (!known) {
		finish(symbols, symbols->result);
		return;
	}
	file.name = known->path;
	wanted.kind = known->kind;
	ask(symbols, &wanted, &file);
}

// The next file of a running process, then the path, then there is nothing more to try.
static void try_next(struct fp_daemon_symbols *symbols, const struct fp_build *build)
{
	const struct fp_session *session = symbols->daemon->session;
	FP_AUTOFREE struct fp_process_find *found = malloc(sizeof(*found));
	int r = !found ? -ENOMEM : !session || symbols->by_path ? -ENOENT : 0;

	if (r == 0)
		r = fp_session_find_build(session, build, &symbols->tried, found);
	if (r == 0 && fp_process_tried_add(&symbols->tried, &found->file))
		ask(symbols, &found->build, &found->file);
	else if (r == -ENOMEM)
		finish(symbols, FP_M_WANTED_FAILED);
	else if (symbols->by_path)
		finish(symbols, symbols->result);
	else
		ask_by_path(symbols, build);
}

static void ask_for_vdso(struct fp_daemon_symbols *symbols, const struct fp_build *build)
{
	struct fp_build own = *build;
	struct fp_names_file file;

	own.kind = FP_BUILD_GNU;
	if (fp_vdso_file(&file) == 0)
		ask(symbols, &own, &file);
	else
		finish(symbols, FP_M_WANTED_FAILED);
}

static bool is_our_vdso(const struct fp_build *build)
{
	size_t size;
	const uint8_t *id = fp_vdso_build_id(&size);

	return id && size == build->id_len && memcmp(id, build->id, size) == 0;
}

static int digit_value(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

// The spool hands out nothing but an even number of lower-case digits.
static struct fp_build build_of(const char *id)
{
	struct fp_build build = { .id_len = (uint8_t)(strlen(id) / 2) };

	for (size_t i = 0; i < build.id_len; i++)
		build.id[i] = (uint8_t)(digit_value(id[2 * i]) << 4 | digit_value(id[2 * i + 1]));
	return build;
}

static void take_up(struct fp_daemon_symbols *symbols)
{
	struct fp_build build = build_of(symbols->id);

	symbols->by_path = false;
	symbols->tried.count = 0;
	symbols->result = FP_M_WANTED_GONE;
	if (is_our_vdso(&build))
		ask_for_vdso(symbols, &build);
	else
		try_next(symbols, &build);
}

void fp_daemon_symbols_turn(struct fp_daemon_symbols *symbols)
{
	struct fp_daemon *daemon = symbols->daemon;
	bool changed = fp_spool_wanted_changed(daemon->spool);

	symbols->more = symbols->more || changed;
	if (!symbols->more || symbols->asked)
		return;
	symbols->more = fp_spool_next_wanted(daemon->spool, symbols->id) == 0;
	if (!symbols->more)
		return;
	if (!daemon->config.symbols_upload || !daemon->names)
		finish(symbols, FP_M_WANTED_REFUSED);
	else if (daemon->session && fp_spool_wanted_room(daemon->spool))
		take_up(symbols);
}
