// SPDX-License-Identifier: Apache-2.0
//
// labels_service: which part of a pod's or unit's name says what service it is: the rules are in
// docs/labels.md. Pure. Threads: no state.
#pragma once

#include <stddef.h>

// How many bytes of the pod's name its workload's name has: without what a ReplicaSet,
// DaemonSet, Job, CronJob or StatefulSet appends, or "-<host>" of a static pod (host may be "").
size_t fp_service_of_pod(const char *pod, const char *host);
// How many bytes of the unit's name are a service's name; 0: it is no service, but a session,
// a manager of units, or a unit that was made for one command.
size_t fp_service_of_unit(const char *unit);
