// SPDX-License-Identifier: Apache-2.0
//
// profiles: one small profile with every kind of frame, for the tests of fold, export and
// summary. All of it is made through the public interface.
#pragma once

#include "symbolizers.h"

#include "profile/fold.h"
#include "proto/profile.h"

#include <string.h>

enum { APP, LIBC, ANONYMOUS_FILE, KERNEL, MODULE, VDSO, BUILDS };

struct sample_profile {
	struct fp_profile *profile;
	uint32_t builds[BUILDS];
};

static inline uint32_t profile_string(struct fp_profile *profile, const char *text)
{
	uint32_t id;

	assert_int_equal(fp_profile_cstring(profile, text, &id), 0);
	return id;
}

static inline uint32_t profile_build(struct fp_profile *profile, uint8_t first, const char *path)
{
	struct fp_build build = { .kind = first ? FP_BUILD_GNU : FP_BUILD_NONE,
				  .id_len = first ? 20 : 0,
				  .path = profile_string(profile, path) };
	uint32_t id;

	build.id[0] = first;
	assert_int_equal(fp_profile_build(profile, &build, &id), 0);
	return id;
}

static inline uint32_t profile_frame(struct fp_profile *profile, enum fp_frame_kind kind,
				     uint32_t build, const char *name, uint64_t offset)
{
	struct fp_frame frame;
	uint32_t id;

	memset(&frame, 0, sizeof(frame));
	frame.kind = (uint8_t)kind;
	frame.build = build;
	frame.name = name ? profile_string(profile, name) : 0;
	frame.offset = offset;
	assert_int_equal(fp_profile_frame(profile, &frame, &id), 0);
	return id;
}

// frames: leaf first, ended by UINT32_MAX.
static inline void profile_sample(struct fp_profile *profile, enum fp_profile_type type,
				  const char *thread, const uint32_t *frames, uint64_t value)
{
	struct fp_label labels[2] = {
		{ profile_string(profile, "executable"), profile_string(profile, "app") },
		{ profile_string(profile, "thread"),
		  profile_string(profile, thread ? thread : "") },
	};
	struct fp_sample sample;
	uint32_t count = 0;

	memset(&sample, 0, sizeof(sample));
	sample.type = type;
	sample.value = value;
	sample.count = type == FP_PROFILE_CPU ? value : 1;
	while (frames[count] != UINT32_MAX)
		count++;
	assert_int_equal(fp_profile_labels(profile, labels, thread ? 2 : 1, &sample.labels), 0);
	assert_int_equal(fp_profile_stack(profile, frames, count, &sample.stack), 0);
	assert_int_equal(fp_profile_sample(profile, &sample), 0);
}

static inline void sample_profile_builds(struct sample_profile *sample)
{
	struct fp_profile *profile = sample->profile;

	sample->builds[LIBC] = profile_build(profile, 2, "/usr/lib/libc.so.6");
	sample->builds[APP] = profile_build(profile, 1, "/opt/app/app");
	sample->builds[ANONYMOUS_FILE] = profile_build(profile, 0, "/opt/plain");
	sample->builds[KERNEL] = profile_build(profile, 3, "[kernel]");
	sample->builds[MODULE] = profile_build(profile, 4, "[xfs]");
	sample->builds[VDSO] = profile_build(profile, 5, "[vdso]");
}

static inline struct sample_profile sample_profile_new(void)
{
	struct sample_profile sample = { 0 };
	struct fp_profile *p;
	uint32_t f[12];

	assert_int_equal(fp_profile_new(&sample.profile), 0);
	p = sample.profile;
	p->period_ns = 10101010;
	p->start_realtime_ns = 1700000000000000000;
	p->start_boottime_ns = 1000;
	p->end_boottime_ns = 1000 + 30000000000;
	sample_profile_builds(&sample);
	f[0] = profile_frame(p, FP_FRAME_FILE, sample.builds[APP], NULL, 0x1100); // start of leaf
	f[1] = profile_frame(p, FP_FRAME_FILE, sample.builds[APP], NULL, 0x1100); // returns there
	f[2] = profile_frame(p, FP_FRAME_FILE, sample.builds[LIBC], NULL, 0x2010);
	f[3] = profile_frame(p, FP_FRAME_KERNEL, sample.builds[KERNEL], NULL, 0x150);
	f[4] = profile_frame(p, FP_FRAME_MODULE, sample.builds[MODULE], NULL, 0x20);
	f[5] = profile_frame(p, FP_FRAME_VDSO, sample.builds[VDSO], NULL, 0x999);
	f[6] = profile_frame(p, FP_FRAME_NAMED, FP_NO_BUILD, "Lcom/x;::run", 0);
	f[7] = profile_frame(p, FP_FRAME_NAMED, FP_NO_BUILD, "bpf_prog_12_probe", 0);
	f[8] = profile_frame(p, FP_FRAME_ANON, FP_NO_BUILD, NULL, 0);
	f[9] = profile_frame(p, FP_FRAME_ERROR, FP_NO_BUILD, "stack lost", 0);
	f[10] = profile_frame(p, FP_FRAME_FILE, sample.builds[ANONYMOUS_FILE], NULL, 0xabc);
	f[11] = UINT32_MAX;
	profile_sample(p, FP_PROFILE_CPU, "worker", (uint32_t[]){ f[0], f[1], f[2], f[11] }, 10);
	profile_sample(p, FP_PROFILE_CPU, "worker",
		       (uint32_t[]){ f[4], f[7], f[3], f[0], f[2], f[11] }, 20);
	profile_sample(p, FP_PROFILE_CPU, "main", (uint32_t[]){ f[5], f[10], f[11] }, 3);
	profile_sample(p, FP_PROFILE_CPU, "main", (uint32_t[]){ f[6], f[8], f[2], f[11] }, 4);
	profile_sample(p, FP_PROFILE_CPU, NULL, (uint32_t[]){ f[9], f[11] }, 5);
	profile_sample(p, FP_PROFILE_CPU, "main", (uint32_t[]){ f[11] }, 6);
	profile_sample(p, FP_PROFILE_CPU, "kworker/0:1", (uint32_t[]){ f[3], f[11] }, 7);
	profile_sample(p, FP_PROFILE_OFF_CPU, "main", (uint32_t[]){ f[3], f[0], f[11] }, 1000000);
	return sample;
}

static const struct fp_symbolizer_options no_sources = { .debug_dirs =
							     (const char *const[]){ NULL } };

// Names for the app, libc and the kernel; the module, the vDSO and the plain file have none.
static inline struct fp_symbolizer *sample_symbolizer(void)
{
	static const struct {
		uint8_t id[20];
		const char *text;
	} tables[] = {
		{ { 1 }, "1000 caller\n1100 leaf\n1200 other\n" },
		{ { 2 }, "2000 start_thread\n2100 after\n" },
		{ { 3 }, "100 do_syscall\n200 after\n" },
	};
	struct fp_symbolizer *symbolizer = NULL;

	assert_int_equal(fp_symbolizer_new(&no_sources, &symbolizer), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(tables); i++)
		assert_int_equal(fp_symbolizer_add_table(symbolizer, tables[i].id, 20,
							 tables[i].text, strlen(tables[i].text),
							 NULL),
				 0);
	return symbolizer;
}
