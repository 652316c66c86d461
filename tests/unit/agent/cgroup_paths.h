// SPDX-License-Identifier: Apache-2.0
//
// cgroup_paths: what /proc/PID/cgroup reads like under the runtimes, drivers and nestings that
// people have, and what is in it. Texts of many lines are whole files.
#pragma once

struct cgroup_case {
	const char *sentence, *text;
	const char *container_id, *runtime, *pod_uid, *unit, *slice;
};

#define A   "1f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3d7e0c4f8a2b6d1e5c9f3a7b0d4e8c12"
#define B   "b7e0c4f8a2b6d1e5c9f3a7b0d4e8c121f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3"
#define U   "7ec0b9c1-2d9a-4f3e-8a51-64d2f0a3b7c8"
#define U_  "7ec0b9c1_2d9a_4f3e_8a51_64d2f0a3b7c8"
#define MD5 "64d2f0a3b7c87ec0b9c12d9a4f3e8a51"
#define QOS "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"

static const struct cgroup_case cgroup_cases[] = {
	// clang-format off
	{ "docker, cgroupfs driver, v2", "0::/docker/" A "\n", A, "docker", "", "", "" },
	{ "docker, systemd driver, v2", "0::/system.slice/docker-" A ".scope\n", A, "docker", "", "", "system.slice" },
	{ "docker with a parent of its own", "0::/myslice.slice/docker-" A ".scope\n", A, "docker", "", "", "myslice.slice" },
	{ "docker, --cgroup-parent of a build runner", "0::/actions_job/" A "\n", A, "docker", "", "", "" },
	{ "rootless docker", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" A ".scope\n", A, "docker-rootless", "", "user@1000.service", "user.slice" },
	{ "a process in a group below the container's", "0::/system.slice/docker-" A ".scope/init\n", A, "docker", "", "", "system.slice" },
	{ "docker on v1: every line alike",
	  "12:perf_event:/docker/" A "\n11:cpuset:/docker/" A "\n10:freezer:/docker/" A "\n"
	  "9:pids:/docker/" A "\n8:hugetlb:/docker/" A "\n7:rdma:/\n6:memory:/docker/" A "\n"
	  "5:devices:/docker/" A "\n4:net_cls,net_prio:/docker/" A "\n3:blkio:/docker/" A "\n"
	  "2:cpu,cpuacct:/docker/" A "\n1:name=systemd:/docker/" A "\n", A, "docker", "", "", "" },
	{ "docker on a hybrid host: the v2 line is empty",
	  "12:pids:/docker/" A "\n1:name=systemd:/docker/" A "\n0::/system.slice/containerd.service\n",
	  A, "docker", "", "", "" },
	{ "docker in docker: the inner one", "0::/docker/" A "/docker/" B "\n", B, "docker", "", "", "" },
	{ "docker in docker, systemd driver outside", "0::/system.slice/docker-" A ".scope/docker/" B "\n", B, "docker", "", "", "system.slice" },
	{ "a BuildKit step", "0::/system.slice/docker-" A ".scope/buildkit/ks2bo3q8x1m5v7c9d0e2f4g6h\n", "ks2bo3q8x1m5v7c9d0e2f4g6h", "buildkit", "", "", "system.slice" },
	{ "dockerd is no container", "0::/system.slice/docker.service\n", "", "", "", "docker.service", "system.slice" },
	{ "containerd's shim is no container", "0::/system.slice/containerd.service\n", "", "", "", "containerd.service", "system.slice" },

	{ "containerd in Kubernetes, systemd driver", "0::" QOS U_ ".slice/cri-containerd-" A ".scope\n", A, "containerd", U, "", "kubepods-burstable.slice" },
	{ "besteffort", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" U_ ".slice/cri-containerd-" A ".scope\n", A, "containerd", U, "", "kubepods-besteffort.slice" },
	{ "guaranteed: no class in the path", "0::/kubepods.slice/kubepods-pod" U_ ".slice/cri-containerd-" A ".scope\n", A, "containerd", U, "", "kubepods.slice" },
	{ "cgroupfs driver", "0::/kubepods/burstable/pod" U "/" A "\n", A, "", U, "", "" },
	{ "cgroupfs driver, guaranteed", "0::/kubepods/pod" U "/" A "\n", A, "", U, "", "" },
	{ "cgroupfs driver on v1",
	  "11:memory:/kubepods/besteffort/pod" U "/" A "\n1:name=systemd:/kubepods/besteffort/pod" U "/" A "\n0::/system.slice/containerd.service\n",
	  A, "", U, "", "" },
	{ "a static pod: the uid is a hash", "0::" QOS MD5 ".slice/cri-containerd-" A ".scope\n", A, "containerd", MD5, "", "kubepods-burstable.slice" },
	{ "a static pod, cgroupfs driver", "0::/kubepods/burstable/pod" MD5 "/" A "\n", A, "", MD5, "", "" },
	{ "docker in Kubernetes, systemd driver", "0::" QOS U_ ".slice/docker-" A ".scope\n", A, "docker", U, "", "kubepods-burstable.slice" },
	{ "cri-o", "0::" QOS U_ ".slice/crio-" A ".scope\n", A, "cri-o", U, "", "kubepods-burstable.slice" },
	{ "cri-o with crun's own group below", "0::" QOS U_ ".slice/crio-" A ".scope/container\n", A, "cri-o", U, "", "kubepods-burstable.slice" },
	{ "cri-o, cgroupfs driver", "0::/kubepods/burstable/pod" U "/crio-" A "\n", A, "cri-o", U, "", "" },
	{ "cri-o's conmon is in the pod, in no container", "0::" QOS U_ ".slice/crio-conmon-" A ".scope\n", "", "", U, "", "kubepods-burstable.slice" },
	{ "kata", "0::" QOS U_ ".slice/kata_" A "\n", A, "", U, "", "kubepods-burstable.slice" },
	{ "a process of the pod itself", "0::/kubepods/burstable/pod" U "\n", "", "", U, "", "" },
	{ "containerd that was told of slices under the cgroupfs driver",
	  "0::/system.slice/containerd.service/kubepods-burstable-pod" U_ ".slice:cri-containerd:" A "\n", A, "containerd", U, "containerd.service", "system.slice" },
	{ "docker that was told of slices under the cgroupfs driver", "0::/system.slice:docker:" A "\n", A, "docker", "", "", "system.slice" },
	{ "containerd's default parent", "0::/k8s.io/" A "\n", A, "containerd", "", "", "" },
	{ "ctr, nerdctl: containerd's namespace", "0::/default/" A "\n", A, "containerd", "", "", "" },
	{ "nerdctl, systemd driver", "0::/user.slice/nerdctl-" A ".scope\n", A, "containerd", "", "", "user.slice" },
	{ "kubelet", "0::/system.slice/kubelet.service\n", "", "", "", "kubelet.service", "system.slice" },
	{ "k3s itself", "0::/system.slice/k3s.service\n", "", "", "", "k3s.service", "system.slice" },
	{ "kind: the pod in the node", "0::/system.slice/docker-" B ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" U_ ".slice/cri-containerd-" A ".scope\n", A, "containerd", U, "", "kubelet-kubepods-burstable.slice" },
	{ "kind, cgroupfs", "0::/docker/" B "/kubelet/kubepods/besteffort/pod" U "/" A "\n", A, "", U, "", "" },
	{ "kind: a unit of the node", "0::/docker/" B "/system.slice/containerd.service\n", B, "docker", "", "containerd.service", "system.slice" },
	{ "k3d", "0::/docker/" B "/k3s/kubepods/burstable/pod" U "/" A "\n", A, "", U, "", "" },
	{ "minikube in docker", "0::/docker/" B "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" U_ ".slice/docker-" A ".scope\n", A, "docker", U, "", "kubepods-besteffort.slice" },

	{ "podman", "0::/machine.slice/libpod-" A ".scope\n", A, "podman", "", "", "machine.slice" },
	{ "podman with crun's own group below", "0::/machine.slice/libpod-" A ".scope/container\n", A, "podman", "", "", "machine.slice" },
	{ "podman's conmon is no container", "0::/machine.slice/libpod-conmon-" A ".scope\n", "", "", "", "", "machine.slice" },
	{ "a pod of podman", "0::/machine.slice/machine-libpod_pod_" B ".slice/libpod-" A ".scope\n", A, "podman", "", "", "machine.slice" },
	{ "podman, cgroupfs driver", "0::/libpod_parent/libpod-" A "\n", A, "podman", "", "", "" },
	{ "podman, cgroupfs driver, its conmon", "0::/libpod_parent/conmon\n", "", "", "", "", "" },
	{ "podman, cgroupfs driver, a pod", "0::/libpod_parent/" B "/libpod-" A "\n", A, "podman", "", "", "" },
	{ "rootless podman", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" A ".scope/container\n", A, "podman-rootless", "", "user@1000.service", "user.slice" },
	{ "rootless podman, a pod", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_" B ".slice/libpod-" A ".scope\n", A, "podman-rootless", "", "user@1000.service", "user.slice" },
	{ "podman in a unit, cgroups split", "0::/system.slice/web.service/libpod-payload-" A "\n", A, "podman", "", "web.service", "system.slice" },
	{ "podman in a user's unit", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-" A "/container\n", A, "podman-rootless", "", "web.service", "app.slice" },
	{ "a user's group that claims a pod", "0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod" U_ ".slice/cri-containerd-" A ".scope\n", "", "", "", "user@1000.service", "kubepods-pod" U_ ".slice" },
	{ "a container of root's own manager", "0::/user.slice/user-0.slice/user@0.service/user.slice/libpod-" A ".scope\n", A, "podman", "", "user@0.service", "user.slice" },
	{ "podman in a unit, the runtime's side", "0::/system.slice/web.service/runtime\n", "", "", "", "web.service", "system.slice" },
	{ "podman on v1", "9:pids:/machine.slice/libpod-" A ".scope\n1:name=systemd:/machine.slice/libpod-" A ".scope\n", A, "podman", "", "", "machine.slice" },

	{ "ECS on EC2", "9:memory:/ecs/" U "/" A "\n", A, "ecs", "", "", "" },
	{ "ECS with the cluster's name", "0::/ecs/prod/" MD5 "/" A "\n", A, "ecs", "", "", "" },
	{ "Fargate", "9:memory:/ecs/" MD5 "/" MD5 "-2574839563\n", MD5 "-2574839563", "ecs", "", "", "" },
	{ "ECS with systemd", "0::/ecstasks.slice/ecstasks-" MD5 ".slice/docker-" A ".scope\n", A, "docker", "", "", "ecstasks-" MD5 ".slice" },
	{ "Cloud Foundry", "0::/garden/" U "\n", U, "garden", "", "", "" },
	{ "LXC 4, LXD, Incus", "0::/lxc.payload.web1/system.slice/nginx.service\n", "web1", "lxc", "", "nginx.service", "system.slice" },
	{ "LXD in a project", "0::/lxc.payload.shop_web1/init.scope\n", "shop_web1", "lxc", "", "init.scope", "" },
	{ "LXC 3", "0::/lxc.payload/web1/user.slice/user-0.slice/session-c1.scope\n", "web1", "lxc", "", "session-c1.scope", "user-0.slice" },
	{ "LXC 2, Proxmox", "4:memory:/lxc/101/ns/system.slice/ssh.service\n", "101", "lxc", "", "ssh.service", "system.slice" },
	{ "LXC's monitor is no container", "0::/lxc.monitor.web1\n", "", "", "", "", "" },
	{ "LXC 3's monitor is no container", "0::/lxc.monitor/web1\n", "", "", "", "", "" },
	{ "LXC in LXC", "0::/lxc.payload.outer/lxc.payload.inner/init.scope\n", "inner", "lxc", "", "init.scope", "" },
	{ "docker in LXC", "0::/lxc.payload.outer/system.slice/docker-" A ".scope\n", A, "docker", "", "", "system.slice" },
	{ "nspawn, by machinectl", "0::/machine.slice/machine-fedora\\x2d38.scope/payload/system.slice/sshd.service\n", "fedora-38", "nspawn", "", "sshd.service", "system.slice" },
	{ "nspawn, by its unit", "0::/machine.slice/systemd-nspawn@build.service/payload\n", "build", "nspawn", "", "", "machine.slice" },
	{ "nspawn itself", "0::/machine.slice/systemd-nspawn@build.service/supervisor\n", "", "", "", "", "machine.slice" },
	{ "a virtual machine of libvirt is a unit", "0::/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope/libvirt/vcpu0\n", "", "", "", "machine-qemu\\x2d1\\x2dvm1.scope", "machine.slice" },
	{ "a virtual machine of Proxmox is a unit", "0::/qemu.slice/100.scope\n", "", "", "", "100.scope", "qemu.slice" },

	{ "the agent in a container: the paths of others", "0::/../../" "kubepods-burstable-pod" U_ ".slice/cri-containerd-" A ".scope\n", A, "containerd", U, "", "" },
	{ "the agent in a container: a neighbour in its pod", "0::/../cri-containerd-" A ".scope\n", A, "containerd", "", "", "" },
	{ "the agent in a container: itself", "0::/\n", "", "", "", "", "" },
	{ "the agent in a container: the host's units", "0::/../../../system.slice/cron.service\n", "", "", "", "cron.service", "system.slice" },
	{ "the agent in a container on v1", "4:memory:/../../pod" U "/" A "\n0::/\n", A, "", U, "", "" },

	{ "a service", "0::/system.slice/nginx.service\n", "", "", "", "nginx.service", "system.slice" },
	{ "a service of a template", "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n", "", "", "", "postgresql@15-main.service", "system-postgresql.slice" },
	{ "a service with groups of its own", "0::/system.slice/systemd-udevd.service/udev\n", "", "", "", "systemd-udevd.service", "system.slice" },
	{ "a slice whose name is escaped", "0::/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service\n", "", "", "", "serial-getty@ttyS0.service", "system-serial\\x2dgetty.slice" },
	{ "a D-Bus service with colons", "0::/system.slice/system-dbus\\x2d:1.2\\x2dorg.freedesktop.problems.slice/dbus-:1.2-org.freedesktop.problems@0.service\n", "", "", "", "dbus-:1.2-org.freedesktop.problems@0.service", "system-dbus\\x2d:1.2\\x2dorg.freedesktop.problems.slice" },
	{ "a mount", "0::/system.slice/home-data\\x2d1.mount\n", "", "", "", "home-data\\x2d1.mount", "system.slice" },
	{ "a socket's helper", "0::/system.slice/sshd.socket\n", "", "", "", "sshd.socket", "system.slice" },
	{ "pid 1", "0::/init.scope\n", "", "", "", "init.scope", "" },
	{ "a service straight in the root", "0::/foo.service\n", "", "", "", "foo.service", "" },
	{ "a name that would look like a file of the kernel", "0::/system.slice/_cgroup.service\n", "", "", "", "cgroup.service", "system.slice" },
	{ "a login session", "0::/user.slice/user-1000.slice/session-3.scope\n", "", "", "", "session-3.scope", "user-1000.slice" },
	{ "a user's manager", "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "", "", "", "user@1000.service", "user-1000.slice" },
	{ "a user's service", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/pipewire.service\n", "", "", "", "pipewire.service", "app.slice" },
	{ "a desktop's application", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-org.gnome.Terminal-4242.scope\n", "", "", "", "app-gnome-org.gnome.Terminal-4242.scope", "app.slice" },
	{ "a snap", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/snap.firefox.firefox-" U ".scope\n", "", "", "", "snap.firefox.firefox-" U ".scope", "app.slice" },
	{ "a snap's daemon", "0::/system.slice/snap.lxd.daemon.service\n", "", "", "", "snap.lxd.daemon.service", "system.slice" },
	{ "systemd-run", "0::/system.slice/run-r2f6d1c0e.service\n", "", "", "", "run-r2f6d1c0e.service", "system.slice" },
	{ "a transient unit named like an id", "0::/system.slice/" A ".service\n", "", "", "", A ".service", "system.slice" },
	{ "Nomad", "0::/nomad.slice/share.slice/" U ".redis.scope\n", "", "", "", U ".redis.scope", "share.slice" },
	{ "v1: units are in systemd's own line",
	  "12:memory:/system.slice\n11:cpu,cpuacct:/system.slice\n4:devices:/system.slice/cron.service\n"
	  "1:name=systemd:/system.slice/cron.service\n0::/system.slice/cron.service\n", "", "", "", "cron.service", "system.slice" },
	{ "v1 without systemd", "9:name=systemd:/\n8:pids:/\n4:memory:/process_api/" MD5 "\n0::/\n", "", "", "", "", "" },
	{ "the root", "0::/\n", "", "", "", "", "" },
	{ "a group that is gone", "0::/system.slice/docker-" A ".scope (deleted)\n", A, "docker", "", "", "system.slice" },
	{ "no newline at the end", "0::/docker/" A, A, "docker", "", "", "" },

	{ "an id of 63 digits is none", "0::/docker/1f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3d7e0c4f8a2b6d1e5c9f3a7b0d4e8c1\n", "", "", "", "", "" },
	{ "an id in capitals is none", "0::/docker/1F0C4A5B9D3E7C8F2A6B0D4E8C1F5A9B3D7E0C4F8A2B6D1E5C9F3A7B0D4E8C12\n", "", "", "", "", "" },
	{ "a pod uid that is short is none", "0::/kubepods/pod7ec0b9c1-2d9a/x\n", "", "", "", "", "" },
	{ "bytes that no unit's name holds", "0::/system.slice/evil\x1b[31m.service\n", "", "", "", "", "system.slice" },
	{ "a unit's name that is not UTF-8", "0::/system.slice/\xff\xfe.service\n", "", "", "", "", "system.slice" },
	{ "an escape that is a slash", "0::/machine.slice/machine-a\\x2f\\x2e\\x2e.scope\n", "", "", "", "machine-a\\x2f\\x2e\\x2e.scope", "machine.slice" },
	{ "an LXC container with a strange name", "0::/lxc/a;b\n", "", "", "", "", "" },
	{ "slashes and dots", "0:://.././/\n", "", "", "", "", "" },
	{ "only a suffix", "0::/.service/.slice/.scope\n", "", "", "", "", "" },
	{ "no colons", "hello\n", "", "", "", "", "" },
	{ "nothing", "", "", "", "", "", "" },
	// clang-format on
};
