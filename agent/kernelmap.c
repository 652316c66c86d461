// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_private.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

// Leading frames among which the scheduler must show up for those before it to be cut.
#define SKIP_SEARCH 16u

int fp_kernel_map_new(struct fp_kernel_map **ret)
{
	return fp_kernel_map_new_from("", ret);
}

int fp_kernel_map_new_from(const char *root, struct fp_kernel_map **ret)
{
	FP_CLEANUP(fp_kernel_map_freep) struct fp_kernel_map *map = calloc(1, sizeof(*map));
	int r;

	if (!map)
		return -ENOMEM;
	map->root = strdup(root);
	if (!map->root)
		return -ENOMEM;
	r = fp_kernel_map_load(map);
	if (r < 0)
		return r;
	*ret = fp_take_ptr(map);
	return 0;
}

void fp_kernel_map_clear_modules(struct fp_kernel_map *map)
{
	for (size_t i = 0; i < map->modules_count; i++)
		free(map->modules[i].name);
	map->modules_count = 0;
}

void fp_kernel_map_clear_named(struct fp_kernel_map *map)
{
	for (size_t i = 0; i < map->named_count; i++)
		free(map->named[i].name);
	map->named_count = 0;
}

void fp_kernel_map_free(struct fp_kernel_map *map)
{
	if (!map)
		return;
	fp_kernel_map_clear_modules(map);
	fp_kernel_map_clear_named(map);
	free(map->modules);
	free(map->named);
	free(map->ranges);
	free(map->root);
	free(map);
}

bool fp_kernel_map_usable(const struct fp_kernel_map *map)
{
	return map->text_start != 0 && map->text_end > map->text_start;
}

const uint8_t *fp_kernel_map_build_id(const struct fp_kernel_map *map, size_t *ret_len)
{
	*ret_len = map->build_id_len;
	return map->build_id;
}

// Index of the last of `count` elements whose leading uint64_t start is not above address,
// or -1: ranges, modules and named symbols all begin with their start.
static ptrdiff_t last_before(const void *array, size_t count, size_t size, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t start;

		memcpy(&start, (const char *)array + middle * size, sizeof(start));
		if (start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return (ptrdiff_t)low - 1;
}

static const struct fp_kernel_module *module_at(const struct fp_kernel_map *map, uint64_t address)
{
	ptrdiff_t i = last_before(map->modules, map->modules_count, sizeof(*map->modules), address);

	return i >= 0 && address < map->modules[i].end ? &map->modules[i] : NULL;
}

static const struct fp_kernel_named *named_at(const struct fp_kernel_map *map, uint64_t address)
{
	ptrdiff_t i = last_before(map->named, map->named_count, sizeof(*map->named), address);

	return i >= 0 && address < map->named[i].end ? &map->named[i] : NULL;
}

static int add_build(struct fp_profile *profile, const uint8_t *id, size_t id_len, const char *path,
		     uint32_t *ret_build)
{
	struct fp_build build = { 0 };
	int r = fp_profile_cstring(profile, path, &build.path);

	if (r < 0)
		return r;
	if (id_len) {
		build.kind = FP_BUILD_GNU;
		build.id_len = (uint8_t)id_len;
		memcpy(build.id, id, id_len);
	}
	return fp_profile_build(profile, &build, ret_build);
}

static int name_frame(struct fp_profile *profile, enum fp_frame_kind kind, const char *name,
		      uint32_t *ret_frame)
{
	struct fp_frame frame = { .kind = (uint8_t)kind, .build = FP_NO_BUILD };
	int r = fp_profile_cstring(profile, name, &frame.name);

	return r < 0 ? r : fp_profile_frame(profile, &frame, ret_frame);
}

static int image_frame(const struct fp_kernel_map *map, uint64_t address,
		       struct fp_profile *profile, uint32_t *ret_frame)
{
	struct fp_frame frame = { .kind = FP_FRAME_KERNEL, .offset = address - map->text_start };
	int r = add_build(profile, map->build_id, map->build_id_len, "[kernel]", &frame.build);

	return r < 0 ? r : fp_profile_frame(profile, &frame, ret_frame);
}

static int module_frame(const struct fp_kernel_module *module, uint64_t address,
			struct fp_profile *profile, uint32_t *ret_frame)
{
	struct fp_frame frame = { .kind = FP_FRAME_MODULE, .offset = address - module->start };
	char path[80];
	int r;

	snprintf(path, sizeof(path), "[%s]", module->name);
	r = add_build(profile, module->build_id, module->build_id_len, path, &frame.build);
	return r < 0 ? r : fp_profile_frame(profile, &frame, ret_frame);
}

// 1: the address is in something known and *ret_frame is set. 0: it is not.
static int known_frame(const struct fp_kernel_map *map, uint64_t address,
		       struct fp_profile *profile, uint32_t *ret_frame)
{
	const struct fp_kernel_module *module;
	const struct fp_kernel_named *named;
	int r;

	if (address >= map->text_start && address < map->text_end) {
		r = image_frame(map, address, profile, ret_frame);
		return r < 0 ? r : 1;
	}
	module = module_at(map, address);
	named = named_at(map, address);
	if (!module && !named)
		return 0;
	// Programs lie between modules, whose extents are not exact: the nearer start holds.
	if (named && (!module || named->start >= module->start))
		r = name_frame(profile, FP_FRAME_NAMED, named->name, ret_frame);
	else
		r = module_frame(module, address, profile, ret_frame);
	return r < 0 ? r : 1;
}

int fp_kernel_map_frame(struct fp_kernel_map *map, uint64_t address, struct fp_profile *profile,
			uint32_t *ret_frame)
{
	int r;

	if (!fp_kernel_map_usable(map))
		return name_frame(profile, FP_FRAME_ERROR, "[kernel addresses are hidden]",
				  ret_frame);
	r = known_frame(map, address, profile, ret_frame);
	if (r == 0 && fp_monotonic_ns() - map->refreshed_ns >= FP_KERNEL_REFRESH_NS) {
		r = fp_kernel_map_refresh(map);
		if (r == 0)
			r = known_frame(map, address, profile, ret_frame);
	}
	if (r != 0)
		return r < 0 ? r : 0;
	return name_frame(profile, FP_FRAME_ERROR, "[kernel address outside any image]", ret_frame);
}

static const struct fp_kernel_range *range_at(const struct fp_kernel_map *map, uint64_t address)
{
	ptrdiff_t i = last_before(map->ranges, map->ranges_count, sizeof(*map->ranges), address);

	return i >= 0 && address < map->ranges[i].end ? &map->ranges[i] : NULL;
}

uint32_t fp_kernel_map_skip(const struct fp_kernel_map *map, const uint64_t *addresses,
			    uint32_t count)
{
	uint32_t machinery = 0;

	for (uint32_t i = 0; i < count && i < SKIP_SEARCH; i++) {
		// A return address may stand just behind a call that ends its function.
		const struct fp_kernel_range *range = range_at(map, addresses[i] - (i > 0));

		if (range && range->part == FP_KERNEL_SCHEDULER)
			return i;
		if (machinery == i && ((range && range->part == FP_KERNEL_MACHINERY) ||
				       named_at(map, addresses[i] - (i > 0))))
			machinery++;
	}
	// Never leave nothing.
	return machinery < count ? machinery : 0;
}

uint32_t fp_kernel_map_interrupt(const struct fp_kernel_map *map, const uint64_t *addresses,
				 uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		const struct fp_kernel_range *range = range_at(map, addresses[i] - 1);

		if (range && range->part == FP_KERNEL_INTERRUPT)
			return i + 1;
	}
	return 0;
}
