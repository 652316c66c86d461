// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for the sampling session: the functions of agent/session.h that the control
// socket uses, defined here and so not taken from the library. Included by one test.
#pragma once

#include "agent/session.h"

#include <sys/eventfd.h>
#include <unistd.h>

struct fp_session {
	int fd;
};

static struct {
	int opened, freed, finished, refuse;
	uint32_t tgid, hz;
	bool off_cpu, run_queue, waker;
} fake;

int fp_session_open(const struct fp_session_config *config, struct fp_session **ret,
		    struct fp_refusal *refusal)
{
	struct fp_session *session;

	if (fake.refuse) {
		snprintf(refusal->cause, sizeof(refusal->cause), "the kernel says no");
		snprintf(refusal->fix, sizeof(refusal->fix), "ask another");
		return fake.refuse;
	}
	session = calloc(1, sizeof(*session));
	session->fd = eventfd(0, EFD_CLOEXEC);
	fake.opened++;
	fake.tgid = config->sampler.tgid;
	fake.hz = config->sampler.cpu_hz;
	fake.off_cpu = config->sampler.off_cpu;
	fake.run_queue = config->sampler.run_queue;
	fake.waker = config->sampler.waker;
	*ret = session;
	return 0;
}
void fp_session_free(struct fp_session *session)
{
	if (!session)
		return;
	fake.freed++;
	close(session->fd);
	free(session);
}
int fp_session_fd(const struct fp_session *session)
{
	return session->fd;
}
int fp_session_poll(struct fp_session *session)
{
	return 0;
}
int fp_session_drain(struct fp_session *session)
{
	return 0;
}
void fp_session_stats(const struct fp_session *session, struct fp_session_stats *ret)
{
	*ret = (struct fp_session_stats){ .hz = fake.hz };
}
int fp_session_finish(struct fp_session *session, struct fp_profile **ret_profile)
{
	fake.finished++;
	return fp_profile_new(ret_profile);
}
