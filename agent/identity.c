// SPDX-License-Identifier: Apache-2.0
#include "identity.h"

#include "common/file.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define HOST_ID_NAME "host-id"
#define ID_FILE_MAX  256

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int fp_identity_parse(const char *text, size_t size, uint8_t ret_id[16])
{
	uint8_t id[16] = { 0 };
	uint8_t any = 0;
	unsigned int digits = 0;

	while (size && (text[size - 1] == '\n' || text[size - 1] == ' '))
		size--;
	for (size_t i = 0; i < size; i++) {
		int digit = hex_digit(text[i]);

		if (text[i] == '-')
			continue;
		if (digit < 0 || digits == 32)
			return -EINVAL;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		any |= (uint8_t)digit;
		digits++;
	}
	if (digits != 32 || !any)
		return -EINVAL;
	memcpy(ret_id, id, sizeof(id));
	return 0;
}

static int read_id(const char *path, uint8_t ret_id[16])
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	int r = fp_file_read(path, ID_FILE_MAX, &text);

	return r < 0 ? r : fp_identity_parse((const char *)text.data, text.len, ret_id);
}

static int make_host_id(int directory, uint8_t ret_id[16])
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	uint8_t id[16];

	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return -errno;
	for (size_t i = 0; i < sizeof(id); i++)
		fp_buf_printf(&text, "%02x", id[i]);
	fp_buf_byte(&text, '\n');
	if (text.error)
		return text.error;
	memcpy(ret_id, id, sizeof(id));
	return fp_file_write_durable(directory, HOST_ID_NAME, text.data, text.len, 0644);
}

static int read_kept_host_id(const char *state_directory, uint8_t ret_id[16])
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	int directory FP_AUTOCLOSE = fp_dir_open(state_directory, 0755);

	if (directory < 0)
		return directory;
	if (fp_file_read_at(directory, HOST_ID_NAME, ID_FILE_MAX, &text) == 0 &&
	    fp_identity_parse((const char *)text.data, text.len, ret_id) == 0)
		return 0;
	return make_host_id(directory, ret_id);
}

static void copy_name(char *target, size_t size, const char *name)
{
	snprintf(target, size, "%s", name);
}

int fp_identity_read(const struct fp_identity_source *source, struct fp_identity *ret)
{
	struct fp_identity identity = { 0 };
	struct utsname uts;
	int r;

	if (uname(&uts) < 0)
		return -errno;
	copy_name(identity.hostname, sizeof(identity.hostname),
		  source->hostname && source->hostname[0] ? source->hostname : uts.nodename);
	copy_name(identity.kernel_release, sizeof(identity.kernel_release), uts.release);
	copy_name(identity.machine, sizeof(identity.machine), uts.machine);
	r = read_id(BOOT_ID_FILE, identity.boot_id);
	if (r < 0)
		return r;
	if (read_id(source->machine_id_file, identity.host_id) < 0) {
		identity.host_id_made = true;
		if (source->state_directory)
			r = read_kept_host_id(source->state_directory, identity.host_id);
		if (r < 0)
			return r;
	}
	*ret = identity;
	return 0;
}

int fp_identity_stamp(const struct fp_identity *identity, uint64_t sequence,
		      struct fp_profile *profile)
{
	uint32_t hostname, release, machine, version;
	int r;

	r = fp_profile_cstring(profile, identity->hostname, &hostname);
	if (r == 0)
		r = fp_profile_cstring(profile, identity->kernel_release, &release);
	if (r == 0)
		r = fp_profile_cstring(profile, identity->machine, &machine);
	if (r == 0)
		r = fp_profile_cstring(profile, FP_VERSION, &version);
	if (r < 0)
		return r;
	memcpy(profile->host_id, identity->host_id, sizeof(profile->host_id));
	memcpy(profile->boot_id, identity->boot_id, sizeof(profile->boot_id));
	profile->sequence = sequence;
	profile->hostname = hostname;
	profile->kernel_release = release;
	profile->machine = machine;
	profile->agent_version = version;
	return 0;
}
