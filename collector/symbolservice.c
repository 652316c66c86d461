// SPDX-License-Identifier: Apache-2.0
#include "symbolservice.h"

#include "symbolupload.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

// A build without symbols is looked for again after this; a file may have appeared.
#define RETRY_NS (60 * FP_NS_PER_S)
// Builds remembered; beyond it all are forgotten and met again.
#define MAX_KNOWN 100000
// Builds of which it is remembered when their agents were asked; 64 bytes each and the index.
#define MAX_WANTED 16384

struct known_key {
	uint8_t len;
	uint8_t id[FP_BUILD_ID_MAX];
};

struct known {
	uint64_t checked_ns; // CLOCK_MONOTONIC, of status
	uint8_t status;	     // enum fp_symbol_status
	uint8_t has_status;
	uint8_t padding[6];
};

struct fp_symbol_service {
	pthread_mutex_t lock;	     // the symbolizer and known; held while a query renders
	pthread_mutex_t upload_lock; // new files; never waited for with the other one held
	struct fp_symbolizer *symbolizer;
	struct fp_symbol_wanted *wanted; // locks itself
	struct fp_hashmap known;	 // struct known_key → struct known
	struct fp_symbol_counts counts;	 // changed under a lock, read without: atomic
	const char **directories;	 // the symbolizer keeps pointing at them
	size_t max_table_bytes;
	uint64_t max_bytes;
	bool request;
	int dirfd;
};

static const char hex_digits[] = "0123456789abcdef";

int fp_build_id_parse(const char *hex, struct fp_build *ret_build)
{
	struct fp_build build = { .kind = FP_BUILD_GNU };
	size_t size = strlen(hex);

	if (size < 2 || size % 2 || size > 2 * FP_BUILD_ID_MAX)
		return -EINVAL;
	for (size_t i = 0; i < size; i++) {
		const char *digit = strchr(hex_digits, hex[i]);

		if (!digit)
			return -EINVAL;
		build.id[i / 2] = (uint8_t)(build.id[i / 2] << 4 | (digit - hex_digits));
	}
	build.id_len = (uint8_t)(size / 2);
	*ret_build = build;
	return 0;
}

void fp_build_id_print(const struct fp_build *build, char ret_hex[2 * FP_BUILD_ID_MAX + 1])
{
	for (size_t i = 0; i < build->id_len; i++) {
		ret_hex[2 * i] = hex_digits[build->id[i] >> 4];
		ret_hex[2 * i + 1] = hex_digits[build->id[i] & 15];
	}
	ret_hex[2 * build->id_len] = '\0';
}

// "a:b" → { "a", "b", NULL } in one allocation.
static const char **split_directories(const char *text)
{
	size_t count = 2, size = strlen(text) + 1, at = 0;
	const char **directories;
	char *copy;

	for (const char *p = text; *p; p++)
		count += *p == ':';
	directories = calloc(1, count * sizeof(*directories) + size);
	if (!directories)
		return NULL;
	copy = memcpy(directories + count, text, size);
	for (char *next = copy; next;) {
		char *directory = strsep(&next, ":");

		if (*directory)
			directories[at++] = directory;
	}
	return directories;
}

// For the symbolizer. A table that cannot be read is as good as none: other sources are asked.
static int load_table(void *context, const uint8_t *id, size_t id_len, struct fp_buf *ret_text)
{
	struct fp_symbol_service *service = context;
	struct fp_build build = { .id_len = (uint8_t)id_len };
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r;

	memcpy(build.id, id, id_len);
	r = fp_symbol_upload_read(service->dirfd, &build, service->max_table_bytes, &text);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	return fp_buf_append(ret_text, text.data, text.len);
}

int fp_symbol_service_open(const struct fp_symbol_service_options *options,
			   struct fp_symbol_service **ret_service)
{
	FP_AUTOFREE char *path = NULL;
	struct fp_symbolizer_options symbolizer = {
		.use_local_files = options->use_local_files,
		.table_cache_bytes = options->cache_bytes,
	};
	struct fp_symbol_service *service;
	int r;

	if (asprintf(&path, "%s/symbols", options->directory) < 0)
		return -ENOMEM;
	service = calloc(1, sizeof(*service));
	if (!service)
		return -ENOMEM;
	pthread_mutex_init(&service->lock, NULL);
	pthread_mutex_init(&service->upload_lock, NULL);
	symbolizer.load_table = load_table;
	symbolizer.load_context = service;
	service->known = FP_HASHMAP_INIT(struct known_key, struct known);
	service->max_table_bytes = options->max_table_bytes;
	service->max_bytes = options->max_bytes;
	service->request = options->request;
	service->dirfd = r = fp_dir_open(path, 0700);
	service->directories = split_directories(options->debug_dirs);
	symbolizer.debug_dirs = service->directories;
	if (r >= 0)
		r = fp_symbol_upload_total(service->dirfd, &service->counts.bytes);
	if (r >= 0 && !service->directories)
		r = -ENOMEM;
	if (r >= 0)
		r = fp_symbol_wanted_new(MAX_WANTED, &service->wanted);
	if (r >= 0)
		r = fp_symbolizer_new(&symbolizer, &service->symbolizer);
	if (r < 0)
		fp_symbol_service_close(service);
	else
		*ret_service = service;
	return r < 0 ? r : 0;
}

void fp_symbol_service_close(struct fp_symbol_service *service)
{
	if (!service)
		return;
	fp_symbolizer_free(service->symbolizer);
	fp_symbol_wanted_free(service->wanted);
	fp_hashmap_free(&service->known);
	free(service->directories);
	fp_close_fd(&service->dirfd);
	pthread_mutex_destroy(&service->lock);
	pthread_mutex_destroy(&service->upload_lock);
	free(service);
}

// A build's status enters the counts, or leaves them.
static void count_status(struct fp_symbol_service *service, const struct known *known, int change)
{
	uint64_t *count =
	    known->status == FP_SYMBOLS_FOUND ? &service->counts.found : &service->counts.missing;

	if (known->has_status)
		__atomic_add_fetch(count, (uint64_t)(int64_t)change, __ATOMIC_RELAXED);
}

static void forget_known(struct fp_symbol_service *service)
{
	fp_hashmap_clear(&service->known);
	__atomic_store_n(&service->counts.found, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&service->counts.missing, 0, __ATOMIC_RELAXED);
}

static struct known *find_known(struct fp_symbol_service *service, const struct fp_build *build)
{
	struct known_key key = { .len = build->id_len };
	bool is_new;

	memcpy(key.id, build->id, build->id_len);
	if (service->known.count >= MAX_KNOWN && !fp_hashmap_get(&service->known, &key))
		forget_known(service);
	return fp_hashmap_put(&service->known, &key, &is_new);
}

bool fp_symbol_service_has(struct fp_symbol_service *service, const uint8_t *id, size_t id_len)
{
	return fp_symbol_upload_exists(service->dirfd, id, id_len);
}

static int check_room(struct fp_symbol_service *service, size_t size, const char **ret_reason)
{
	uint64_t used = __atomic_load_n(&service->counts.bytes, __ATOMIC_RELAXED);

	if (used <= service->max_bytes && size <= service->max_bytes - used)
		return 0;
	*ret_reason = "the uploaded symbol tables have reached symbols.max_bytes";
	return -ENOSPC;
}

// Whether the stored table is as good. One that cannot be read any more is not.
static int has_as_many(struct fp_symbol_service *service, const struct fp_build *build,
		       size_t functions)
{
	FP_AUTOBUF struct fp_buf stored = { 0 };
	int r = fp_symbol_upload_read(service->dirfd, build, service->max_table_bytes, &stored);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	return fp_symbol_upload_functions(&stored) >= functions;
}

int fp_symbol_service_check(struct fp_symbol_service *service, const struct fp_build *build,
			    const struct fp_buf *body, const char **ret_reason)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	size_t functions;
	int r = check_room(service, body->len, ret_reason);

	if (r == 0)
		r = fp_symbol_upload_decompress(body->data, body->len, service->max_table_bytes,
						&text, ret_reason);
	if (r == 0)
		r = fp_symbol_upload_check(&text, ret_reason);
	if (r < 0)
		return r;
	functions = fp_symbol_upload_functions(&text);
	fp_buf_free(&text);
	return has_as_many(service, build, functions);
}

size_t fp_symbol_service_check_bytes(struct fp_symbol_service *service, const struct fp_buf *body)
{
	return fp_symbol_upload_inflated(body->data, body->len, service->max_table_bytes);
}

static int write_table(struct fp_symbol_service *service, const struct fp_build *build,
		       const char *path, const struct fp_buf *body, const char **ret_reason)
{
	uint64_t bytes = fp_symbol_upload_bytes(path, body->len);
	uint64_t replaced = fp_symbol_upload_size(service->dirfd, build);
	int r = check_room(service, bytes > replaced ? bytes - replaced : 0, ret_reason);

	if (r == 0)
		r = fp_symbol_upload_write(service->dirfd, build, path, body->data, body->len);
	if (r < 0)
		return r;
	__atomic_add_fetch(&service->counts.bytes, bytes - replaced, __ATOMIC_RELAXED);
	return 0;
}

int fp_symbol_service_put(struct fp_symbol_service *service, const struct fp_build *build,
			  const char *path, const struct fp_buf *body, const char **ret_reason)
{
	int r;

	*ret_reason = "the table could not be written";
	pthread_mutex_lock(&service->upload_lock);
	r = write_table(service, build, path, body, ret_reason);
	pthread_mutex_unlock(&service->upload_lock);
	if (r < 0)
		return r;
	pthread_mutex_lock(&service->lock);
	fp_symbolizer_forget(service->symbolizer, build->id, build->id_len);
	pthread_mutex_unlock(&service->lock);
	return 0;
}

static void prepare_build(struct fp_symbol_service *service, const struct fp_build *build,
			  uint64_t now_ns)
{
	struct known *known = build->id_len ? find_known(service, build) : NULL;
	bool stale;

	if (!known)
		return;
	stale = known->has_status && known->status != FP_SYMBOLS_FOUND &&
		now_ns - known->checked_ns > RETRY_NS;
	if (stale) {
		fp_symbolizer_forget(service->symbolizer, build->id, build->id_len);
		count_status(service, known, -1);
		known->has_status = 0;
	}
}

struct fp_symbolizer *fp_symbol_service_acquire(struct fp_symbol_service *service,
						const struct fp_profile *profile)
{
	uint64_t now_ns = fp_monotonic_ns();

	pthread_mutex_lock(&service->lock);
	for (uint32_t i = 0; i < profile->builds_count; i++)
		prepare_build(service, &profile->builds[i], now_ns);
	return service->symbolizer;
}

static uint8_t note_status(struct fp_symbol_service *service, const struct fp_profile *profile,
			   const struct fp_build *build, uint8_t kind)
{
	uint8_t status = (uint8_t)fp_symbolizer_status(service->symbolizer, build,
						       fp_profile_str(profile, build->path), kind);
	struct known *known = build->id_len ? find_known(service, build) : NULL;

	fp_symbol_wanted_note(service->wanted, build, status == FP_SYMBOLS_FOUND);
	if (!known)
		return status;
	if (!known->has_status || known->status != status)
		known->checked_ns = fp_monotonic_ns();
	count_status(service, known, -1);
	known->status = status;
	known->has_status = 1;
	count_status(service, known, 1);
	return status;
}

void fp_symbol_service_release(struct fp_symbol_service *service, const struct fp_profile *profile,
			       const uint8_t *kinds, uint8_t *ret_statuses)
{
	for (uint32_t i = 0; kinds && i < profile->builds_count; i++) {
		uint8_t status = FP_SYMBOLS_NO_FILE;

		if (kinds[i])
			status = note_status(service, profile, &profile->builds[i], kinds[i]);
		if (ret_statuses)
			ret_statuses[i] = status;
	}
	pthread_mutex_unlock(&service->lock);
}

// A debug file by the name it would have; whether it is one shows when it is read.
static bool has_debug_file(const struct fp_symbol_service *service, const struct fp_build *build)
{
	char hex[2 * FP_BUILD_ID_MAX + 1];

	if (build->kind != FP_BUILD_GNU || build->id_len < 2)
		return false;
	fp_build_id_print(build, hex);
	for (size_t i = 0; service->directories[i]; i++) {
		FP_AUTOFREE char *path = NULL;

		if (asprintf(&path, "%s/.build-id/%.2s/%s.debug", service->directories[i], hex,
			     hex + 2) < 0)
			path = NULL;
		if (path && access(path, R_OK) == 0)
			return true;
	}
	return false;
}

static bool has_source(void *context, const struct fp_build *build)
{
	const struct fp_symbol_service *service = context;

	return fp_symbol_upload_exists(service->dirfd, build->id, build->id_len) ||
	       has_debug_file(service, build);
}

int fp_symbol_service_wanted(struct fp_symbol_service *service, const struct fp_profile *profile,
			     struct fp_build *ret_builds)
{
	const struct fp_symbol_look look = {
		.has = has_source,
		.context = service,
		.now_ns = fp_monotonic_ns(),
	};

	// What would be answered 507 is not asked for.
	if (!service->request ||
	    __atomic_load_n(&service->counts.bytes, __ATOMIC_RELAXED) >= service->max_bytes)
		return 0;
	return fp_symbol_wanted_pick(service->wanted, profile, &look, ret_builds);
}

struct fp_symbol_counts fp_symbol_service_counts(struct fp_symbol_service *service)
{
	return (struct fp_symbol_counts){
		.found = __atomic_load_n(&service->counts.found, __ATOMIC_RELAXED),
		.missing = __atomic_load_n(&service->counts.missing, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&service->counts.bytes, __ATOMIC_RELAXED),
	};
}
