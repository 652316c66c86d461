// SPDX-License-Identifier: Apache-2.0
#include "symbolservice.h"

#include "symbolupload.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <string.h>

// A build without symbols is looked for again after this; a file may have appeared.
#define RETRY_NS (60 * FP_NS_PER_S)
// Builds remembered; beyond it all are forgotten and met again.
#define MAX_KNOWN 100000

struct known_key {
	uint8_t len;
	uint8_t id[FP_BUILD_ID_MAX];
};

struct known {
	uint64_t checked_ns; // CLOCK_MONOTONIC, of status
	uint8_t status;	     // enum fp_symbol_status
	uint8_t has_status;
	uint8_t table_given; // the uploaded table is in the symbolizer
	uint8_t padding[5];
};

struct fp_symbol_service {
	pthread_mutex_t lock;
	struct fp_symbolizer *symbolizer;
	struct fp_hashmap known;  // struct known_key → struct known
	const char **directories; // the symbolizer keeps pointing at them
	size_t max_table_bytes;
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
	service->known = FP_HASHMAP_INIT(struct known_key, struct known);
	service->max_table_bytes = options->max_table_bytes;
	service->dirfd = r = fp_dir_open(path, 0700);
	service->directories = split_directories(options->debug_dirs);
	symbolizer.debug_dirs = service->directories;
	if (r >= 0 && !service->directories)
		r = -ENOMEM;
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
	fp_hashmap_free(&service->known);
	free(service->directories);
	fp_close_fd(&service->dirfd);
	pthread_mutex_destroy(&service->lock);
	free(service);
}

static struct known *find_known(struct fp_symbol_service *service, const struct fp_build *build)
{
	struct known_key key = { .len = build->id_len };
	bool is_new;

	memcpy(key.id, build->id, build->id_len);
	if (service->known.count >= MAX_KNOWN && !fp_hashmap_get(&service->known, &key))
		fp_hashmap_clear(&service->known);
	return fp_hashmap_put(&service->known, &key, &is_new);
}

bool fp_symbol_service_has(struct fp_symbol_service *service, const uint8_t *id, size_t id_len)
{
	return fp_symbol_upload_exists(service->dirfd, id, id_len);
}

int fp_symbol_service_put(struct fp_symbol_service *service, const struct fp_build *build,
			  const char *path, const void *bytes, size_t size, const char **ret_reason)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r =
	    fp_symbol_upload_decompress(bytes, size, service->max_table_bytes, &text, ret_reason);

	if (r == 0)
		r = fp_symbol_upload_check(&text, ret_reason);
	if (r < 0)
		return r;
	pthread_mutex_lock(&service->lock);
	r = fp_symbol_upload_exists(service->dirfd, build->id, build->id_len);
	if (!r) {
		r = fp_symbol_upload_write(service->dirfd, build, path, bytes, size);
		fp_symbolizer_forget(service->symbolizer, build->id, build->id_len);
		r = r < 0 ? r : 1;
	} else {
		r = 0;
	}
	pthread_mutex_unlock(&service->lock);
	return r;
}

// A table that cannot be read is as good as none: its build shows as missing.
static void give_table(struct fp_symbol_service *service, const struct fp_build *build,
		       struct known *known)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	if (fp_symbol_upload_read(service->dirfd, build, service->max_table_bytes, &text) < 0)
		return;
	fp_symbolizer_forget(service->symbolizer, build->id, build->id_len);
	if (fp_symbolizer_add_table(service->symbolizer, build->id, build->id_len,
				    (const char *)text.data, text.len, NULL) == 0)
		known->table_given = 1;
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
		known->has_status = 0;
		known->table_given = 0; // it may have been pushed out of the cache
	}
	if (!known->table_given &&
	    fp_symbol_upload_exists(service->dirfd, build->id, build->id_len))
		give_table(service, build, known);
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

	if (!known)
		return status;
	if (!known->has_status || known->status != status)
		known->checked_ns = fp_monotonic_ns();
	known->status = status;
	known->has_status = 1;
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

struct fp_symbol_counts fp_symbol_service_counts(struct fp_symbol_service *service)
{
	struct fp_symbol_counts counts = { 0 };
	size_t position = 0;
	const void *key;
	void *value;

	pthread_mutex_lock(&service->lock);
	while (fp_hashmap_next(&service->known, &position, &key, &value)) {
		const struct known *known = value;

		if (!known->has_status)
			continue;
		if (known->status == FP_SYMBOLS_FOUND)
			counts.found++;
		else
			counts.missing++;
	}
	pthread_mutex_unlock(&service->lock);
	return counts;
}
