// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"
#include "../scratch.h"

#include "agent/labels.h"
#include "agent/labels_pods.h"
#include "agent/labels_service.h"
#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define A   "1f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3d7e0c4f8a2b6d1e5c9f3a7b0d4e8c12"
#define B   "b7e0c4f8a2b6d1e5c9f3a7b0d4e8c121f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3"
#define U   "7ec0b9c1-2d9a-4f3e-8a51-64d2f0a3b7c8"
#define MD5 "64d2f0a3b7c87ec0b9c12d9a4f3e8a51"

static const struct {
	const char *pod, *host, *workload;
} pods[] = {
	{ "checkout-7d9f8b6c54-x2x9k", "", "checkout" }, // Deployment
	{ "node-exporter-w7q2c", "", "node-exporter" },	 // DaemonSet, Job
	{ "report-28374650-b4xqz", "", "report" },	 // CronJob
	{ "postgres-0", "", "postgres" },		 // StatefulSet
	{ "postgres-12", "", "postgres" },
	{ "web", "", "web" },
	{ "my-app-nginx", "", "my-app-nginx" }, // i is no letter of random names
	{ "my-redis-cache", "", "my-redis-cache" },
	{ "a-mysql", "", "a-mysql" },
	{ "kube-proxy-n1", "n1", "kube-proxy" }, // static pod
	{ "etcd-ip-10-0-0-1.ec2.internal", "ip-10-0-0-1.ec2.internal", "etcd" },
	{ "n1", "n1", "n1" },
	{ "-n1", "n1", "-n1" },
	{ "x2x9k", "", "x2x9k" },
	{ "-x2x9k", "", "-x2x9k" },
	{ "7d9f8b6c54-x2x9k", "", "7d9f8b6c54" },
	{ "v-2024", "", "v" }, // an ordinal, as far as anyone can tell
	{ "release-20240131", "", "release-20240131" },
	{ "", "", "" },
};

static void test_workloads(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(pods); i++) {
		size_t size = fp_service_of_pod(pods[i].pod, pods[i].host);

		print_message("  %s\n", pods[i].pod);
		assert_int_equal(size, strlen(pods[i].workload));
		assert_memory_equal(pods[i].pod, pods[i].workload, size);
	}
}

static const struct {
	const char *unit, *service;
} units[] = {
	{ "nginx.service", "nginx" },
	{ "postgresql@15-main.service", "postgresql@15-main" },
	{ "snap.lxd.daemon.service", "snap.lxd.daemon" },
	{ "snap.firefox.firefox-" U ".scope", "snap.firefox.firefox" },
	{ "snap.firefox.firefox.scope", "" },
	{ "user@1000.service", "" },
	{ "session-3.scope", "" },
	{ "init.scope", "" },
	{ "run-r2f6d1c0e.service", "" },
	{ "run-u12.service", "" },
	{ "run-4711.service", "" },
	{ "run-backup.service", "run-backup" },
	{ A ".service", "" },
	{ A "-3f2.service", "" },
	{ ".service", "" },
	{ "", "" },
};

static void test_units(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(units); i++) {
		size_t size = fp_service_of_unit(units[i].unit);

		print_message("  %s\n", units[i].unit);
		assert_int_equal(size, strlen(units[i].service));
		assert_memory_equal(units[i].unit, units[i].service, size);
	}
}

static const struct {
	const char *name;
	bool is_link, is_directory;
	const char *namespace, *pod, *container, *id;
} names[] = {
	{ "web-7d9f8b6c54-x2x9k_shop_nginx-" A ".log", true, false, "shop", "web-7d9f8b6c54-x2x9k",
	  "nginx", A },
	{ "a.b_c_d-e-" A ".log", true, false, "c", "a.b", "d-e", A },
	{ "shop_web-7d9f8b6c54-x2x9k_" U, false, true, "shop", "web-7d9f8b6c54-x2x9k", "", U },
	{ "kube-system_etcd-n1_" MD5, false, true, "kube-system", "etcd-n1", "", MD5 },
	{ "web_shop_nginx-" A, false, false, "", "", "", "" },
	{ "web_shop_" A ".log", false, false, "", "", "", "" },
	{ "web_shop_-" A ".log", false, false, "", "", "", "" },
	{ "web_shop_nginx_" A ".log", false, false, "", "", "", "" },
	{ "web_shop-nginx-" A ".log", false, false, "", "", "", "" },
	{ "Web_shop_nginx-" A ".log", false, false, "", "", "", "" },
	{ "web_../../etc_nginx-" A ".log", false, false, "", "", "", "" },
	{ "web\n_shop_nginx-" A ".log", false, false, "", "", "", "" },
	{ "\xff\xfe_shop_nginx-" A ".log", false, false, "", "", "", "" },
	{ "-web_shop_nginx-" A ".log", false, false, "", "", "", "" },
	{ "shop_web_7ec0b9c1", false, false, "", "", "", "" },
	{ "_web_" U, false, false, "", "", "", "" },
	{ "nothing", false, false, "", "", "", "" },
	{ "", false, false, "", "", "", "" },
};

static void test_names(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(names); i++) {
		struct fp_pod_entry entry;

		print_message("  %s\n", names[i].name);
		assert_int_equal(fp_pod_link_parse(names[i].name, &entry), names[i].is_link);
		if (!names[i].is_link)
			assert_int_equal(fp_pod_directory_parse(names[i].name, &entry),
					 names[i].is_directory);
		if (!names[i].is_link && !names[i].is_directory)
			continue;
		assert_string_equal(entry.namespace, names[i].namespace);
		assert_string_equal(entry.pod, names[i].pod);
		assert_string_equal(entry.container, names[i].container);
		assert_string_equal(entry.id, names[i].id);
	}
}

// A log directory, its time stamps of an hour ago so that nothing is fresh but what is meant.
static void make(const char *kind, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", scratch_directory(), kind);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/%s", scratch_directory(), kind, name);
	if (strcmp(kind, "containers") == 0)
		assert_int_equal(symlink("/nowhere", path), 0);
	else
		assert_int_equal(mkdir(path, 0755), 0);
}

static void age(const char *kind, long seconds)
{
	struct timespec times[2];
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", scratch_directory(), kind);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= seconds;
	times[1] = times[0];
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void expect_names(struct fp_pods *index, const char *container_id, const char *uid,
			 const char *expected)
{
	struct fp_pod_names found = fp_pods_find(index, container_id, uid);
	char text[512];

	snprintf(text, sizeof(text), "%s/%s/%s", found.namespace, found.pod, found.container);
	assert_string_equal(text, expected);
}

static void test_index(void **state)
{
	struct fp_pods *index FP_CLEANUP(fp_pods_freep) = NULL;
	uint64_t generation, now = FP_NS_PER_S;

	assert_int_equal(fp_pods_new(scratch_directory(), &index), 0);
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	expect_names(index, A, U, "//"); // nothing there yet
	make("containers", "web-0_shop_nginx-" A ".log");
	make("containers", "not a log");
	make("pods", "shop_web-0_" U);
	make("pods/shop_web-0_" U, "nginx");
	make("pods", "kube-system_etcd-n1_" MD5);
	make("pods/kube-system_etcd-n1_" MD5, "etcd");
	age("containers", 3600);
	age("pods", 3600);

	assert_int_equal(fp_pods_refresh(index, now + 1, &generation), 0);
	expect_names(index, A, U, "//"); // a second has not passed
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	expect_names(index, A, U, "shop/web-0/nginx");
	expect_names(index, A, "", "shop/web-0/nginx");
	expect_names(index, B, U, "shop/web-0/"); // the pod's sandbox
	expect_names(index, "", U, "shop/web-0/");
	expect_names(index, B, MD5, "kube-system/etcd-n1/etcd"); // no link names its containers
	expect_names(index, B, "", "//");
	expect_names(index, "", "", "//");
}

static void test_rereading(void **state)
{
	struct fp_pods *index FP_CLEANUP(fp_pods_freep) = NULL;
	uint64_t first, generation, now = FP_NS_PER_S;

	assert_int_equal(fp_pods_new(scratch_directory(), &index), 0);
	assert_int_equal(fp_pods_refresh(index, now, &first), 0);
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	assert_int_equal(generation, first); // old and unchanged: not read again
	make("containers", "late-0_shop_app-" B ".log");
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	assert_int_equal(generation, first + 1);
	expect_names(index, B, "", "shop/late-0/app");
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	assert_int_equal(generation, first + 2); // changed just now: it may have changed again
	age("containers", 60);
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	assert_int_equal(generation, first + 3);
	now += FP_NS_PER_S;
	assert_int_equal(fp_pods_refresh(index, now, &generation), 0);
	assert_int_equal(generation, first + 3);
}

static void test_many_entries(void **state)
{
	struct fp_pods *index FP_CLEANUP(fp_pods_freep) = NULL;
	uint64_t generation;
	char name[160];

	for (int i = 0; i < 4100; i++) { // besides the three of the tests before
		snprintf(name, sizeof(name), "other-%d", i);
		make("containers", name);
	}
	assert_int_equal(fp_pods_new(scratch_directory(), &index), 0);
	assert_int_equal(fp_pods_refresh(index, FP_NS_PER_S, &generation), 0);
	assert_int_equal(fp_pods_unread(index), 7); // of 4103
	for (int i = 0; i < 4100; i++) {
		snprintf(name, sizeof(name), "%s/containers/other-%d", scratch_directory(), i);
		assert_int_equal(unlink(name), 0);
	}
	assert_int_equal(fp_pods_refresh(index, 2 * FP_NS_PER_S, &generation), 0);
	assert_int_equal(fp_pods_unread(index), 7); // all that are left were read
	expect_names(index, A, "", "shop/web-0/nginx");
}

static struct fp_profile *profile;

static int begin(void **state)
{
	return fp_profile_new(&profile);
}

static int end(void **state)
{
	fp_profile_freep(&profile);
	return 0;
}

// As `name=value,…`, sorted by name; "dropped".
static char *describe(struct fp_labeler *labeler, const struct fp_stack_record *record,
		      const char *executable)
{
	struct fp_labeler_process process = { .tgid = record->tgid,
					      .start_ns = record->start_ns,
					      .executable = executable };
	const struct fp_labels *labels;
	struct fp_buf text = { 0 };
	uint32_t index = UINT32_MAX;
	bool dropped = false;

	assert_int_equal(fp_labeler_describe(labeler, record, &process, profile, &index, &dropped),
			 0);
	if (dropped) {
		assert_int_equal(index, UINT32_MAX);
		return strdup("dropped");
	}
	labels = &profile->labels[index];
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct fp_label *label = &profile->label_pool[labels->first + i];

		fp_buf_printf(&text, "%s%s=%s", i ? "," : "", fp_profile_str(profile, label->name),
			      fp_profile_str(profile, label->value));
	}
	return fp_buf_take(&text);
}

static const struct {
	const char *sentence, *statics, *rules, *expected;
} sets[] = {
	{ "nothing configured", NULL, NULL, "executable=prog,service_name=prog,thread=worker" },
	{ "an empty list", "", "", "executable=prog,service_name=prog,thread=worker" },
	{ "labels with spaces around them", " zone = eu-1 , app=a b", NULL,
	  "app=a b,executable=prog,service_name=prog,thread=worker,zone=eu-1" },
	{ "a name that is ours", "thread=mine,executable=x", NULL,
	  "executable=prog,service_name=prog,thread=worker" },
	{ "a service that the configuration names", "service_name=shop", NULL,
	  "executable=prog,service_name=shop,thread=worker" },
	{ "a value with an equals sign", "k=a=b", NULL,
	  "executable=prog,k=a=b,service_name=prog,thread=worker" },
	{ "no name, no value, neither", "=x,y,,z=", NULL,
	  "executable=prog,service_name=prog,thread=worker" },
	{ "a rule that drops it", NULL, "drop executable =~ prog", "dropped" },
	{ "a rule that keeps it", NULL, "keep executable =~ prog",
	  "executable=prog,service_name=prog,thread=worker" },
	{ "a rule on a static label, that removes another", "zone=eu-1",
	  "replace zone =~ (..)-. -> region = $1\nreplace thread =~ .* -> thread = \"\"",
	  "executable=prog,region=eu,service_name=prog,zone=eu-1" },
};

// No such process: what is known of it is in the record.
static struct fp_stack_record record_of(const char *thread)
{
	struct fp_stack_record record = { .tgid = 1u << 30,
					  .start_ns = 1,
					  .source = FP_SOURCE_CPU };

	memcpy(record.comm, thread, strnlen(thread, sizeof(record.comm)));
	return record;
}

static void test_sets(void **state)
{
	struct fp_stack_record record = record_of("worker");

	for (size_t i = 0; i < FP_ARRAY_SIZE(sets); i++) {
		struct fp_labeler_options options = { .static_labels = sets[i].statics,
						      .relabel = sets[i].rules };
		struct fp_labeler *labeler FP_CLEANUP(fp_labeler_freep) = NULL;

		print_message("  %s\n", sets[i].sentence);
		assert_int_equal(fp_labeler_new(&options, &labeler), 0);
		for (int again = 0; again < 2; again++) { // the second time it is remembered
			FP_AUTOFREE char *text = describe(labeler, &record, "prog");

			assert_string_equal(text, sets[i].expected);
		}
	}
}

static void test_distinctions(void **state)
{
	struct fp_labeler_options options = { 0 };
	struct fp_labeler *labeler FP_CLEANUP(fp_labeler_freep) = NULL;
	struct fp_stack_record record = record_of("a");
	FP_AUTOFREE char *one = NULL, *two = NULL, *three = NULL, *four = NULL;

	assert_int_equal(fp_labeler_new(&options, &labeler), 0);
	one = describe(labeler, &record, "prog");
	record.source = FP_SOURCE_OFFCPU;
	record.state = 2;
	two = describe(labeler, &record, "prog");
	assert_string_equal(two,
			    "executable=prog,service_name=prog,state=uninterruptible,thread=a");
	record.state = 1;
	three = describe(labeler, &record, "prog");
	assert_string_equal(three,
			    "executable=prog,service_name=prog,state=interruptible,thread=a");
	record = record_of("a");
	four = describe(labeler, &record, "other");
	assert_string_equal(four, "executable=other,service_name=other,thread=a");
}

static void test_wrong_rules(void **state)
{
	struct fp_labeler_options options = { .relabel = "forget a =~ b" };
	struct fp_labeler *labeler = NULL;

	assert_int_equal(fp_labeler_new(&options, &labeler), -EINVAL);
	assert_null(labeler);
}

// As many threads, executables and control groups as a hostile host can make.
static void test_bounds(void **state)
{
	struct fp_labeler_options options = { 0 };
	struct fp_labeler *labeler FP_CLEANUP(fp_labeler_freep) = NULL;
	struct fp_labeler_process process = { .executable = NULL };
	char thread[FP_COMM_LEN], executable[64];
	bool dropped;
	uint32_t labels;

	assert_int_equal(fp_labeler_new(&options, &labeler), 0);
	for (uint32_t i = 0; i < 60000; i++) {
		struct fp_stack_record record;

		snprintf(thread, sizeof(thread), "t%u", i);
		snprintf(executable, sizeof(executable), "an-executable-of-some-length-%u", i);
		record = record_of(thread);
		record.tgid += i;
		record.cgroup_id = (uint64_t)i << 40; // of none
		process.tgid = record.tgid;
		process.executable = executable;
		if (i % 1000 == 0) {
			fp_profile_freep(&profile);
			assert_int_equal(fp_profile_new(&profile), 0);
		}
		fp_labeler_see(labeler, &record);
		assert_int_equal(
		    fp_labeler_describe(labeler, &record, &process, profile, &labels, &dropped), 0);
		if (i % 1000 == 0)
			assert_true(fp_labeler_bytes(labeler) < 16u << 20);
	}
	print_message("  %llu bytes\n", (unsigned long long)fp_labeler_bytes(labeler));
}

#define ON(sentence, function)                                                                     \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("a pod's name says which workload's it is", test_workloads),
		FP_CASE("a unit's name says which service it is, if any", test_units),
		FP_CASE("the kubelet's names are taken apart, others passed over", test_names),
		FP_CASE("containers and pods are found by id and uid", test_index),
		FP_CASE("a log directory is read again when it changed", test_rereading),
		FP_CASE("of too many entries those that are not read are counted",
			test_many_entries),
		ON("static labels fill in, ours hold, rules have the last word", test_sets),
		ON("what distinguishes two stacks distinguishes their labels", test_distinctions),
		FP_CASE("rules that are wrong are refused", test_wrong_rules),
		ON("memory stays bounded whatever comes", test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
