#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts collector and agent in containers with exactly the rights of the Kubernetes
manifests (capabilities, user, read-only image, no privilege to gain) and checks that the
agent profiles a process of the host from there.

The image is a Debian 12 tree with the programs installed; podman with runc runs it. Current
runtimes let CAP_BPF use bpf(2) and CAP_PERFMON perf_event_open(2); Debian 12's own default
profile is older, so these two rules are added to it here.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(HERE))
import manifests  # noqa: E402

SKIP = 77
UID = 64171
SIX = 0x1C400080004
DEFAULT_PROFILE = pathlib.Path("/usr/share/containers/seccomp.json")
READY_S = 60
POD_UID = "7ec0b9c1-2d9a-4f3e-8a51-64d2f0a3b7c8"
CONTAINER_ID = "1f0c4a5b9d3e7c8f2a6b0d4e8c1f5a9b3d7e0c4f8a2b6d1e5c9f3a7b0d4e8c12"
LIMIT = 4096  # open files, processes


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def need_tools():
    if os.geteuid() != 0:
        skip("needs root to run containers")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        skip("this kernel has no BTF")
    for tool in ("podman", "runc"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    if not DEFAULT_PROFILE.exists():
        skip(f"no default system call profile at {DEFAULT_PROFILE}")


def base_tree():
    run = subprocess.run([SOURCE / "tests" / "systemd" / "base_tree.sh"],
                         stdout=subprocess.PIPE, text=True)
    if run.returncode == SKIP:
        skip("there is no Debian tree (its reason is above)")
    run.check_returncode()
    return run.stdout.strip()


def seccomp_profile(path):
    """What runtimes of 2023 and later ship, as far as it concerns us."""
    profile = json.loads(DEFAULT_PROFILE.read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [n for n in rule["names"] if n not in ("bpf", "perf_event_open")]
    for call, capability in (("bpf", "CAP_BPF"), ("perf_event_open", "CAP_PERFMON")):
        profile["syscalls"].append({"names": [call], "action": "SCMP_ACT_ALLOW",
                                    "includes": {"caps": [capability]}})
    path.write_text(json.dumps(profile))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Image:
    """A writable layer over the tree, with the programs and the account."""

    def __init__(self, build, folder):
        self.root = folder / "image"
        for name in ("image", "upper", "work"):
            (folder / name).mkdir()
        subprocess.run(["mount", "-t", "overlay", "overlay", self.root, "-o",
                        f"lowerdir={base_tree()},upperdir={folder}/upper,workdir={folder}/work"],
                       check=True)
        subprocess.run(["chroot", self.root, "groupadd", "--system", "--gid", str(UID),
                        "fleetprof"], check=True)
        subprocess.run(["chroot", self.root, "useradd", "--system", "--uid", str(UID), "--gid",
                        str(UID), "--no-create-home", "fleetprof"], check=True)
        shutil.copy(build / "agent" / "fleetprof-agent", self.root / "usr" / "sbin")
        shutil.copy(build / "collector" / "fleetprof-collector", self.root / "usr" / "bin")
        for path in ("var/lib/fleetprof", "run/fleetprof", "var/lib/fleetprof-collector",
                     "etc/fleetprof", "host/cgroup", "var/log/containers", "var/log/pods"):
            (self.root / path).mkdir(parents=True, exist_ok=True)
        (self.root / "host" / "machine-id").touch()

    def close(self):
        """Whatever is still mounted below the folder: the image, and podman's own storage."""
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").open()]
        for path in reversed(mounts):
            if path.startswith(f"{self.root.parent}/"):
                subprocess.run(["umount", path], check=False)


class Pod:
    """What a node has of a pod: a control group and the kubelet's log directory."""

    def __init__(self, folder):
        self.logs = folder / "log"
        (self.logs / "containers").mkdir(parents=True)
        (self.logs / "pods" / f"shop_web-7d9f8b6c54-x2x9k_{POD_UID}" / "nginx").mkdir(parents=True)
        (self.logs / "containers" /
         f"web-7d9f8b6c54-x2x9k_shop_nginx-{CONTAINER_ID}.log").symlink_to("/nowhere")
        memory = pathlib.Path("/sys/fs/cgroup/memory")
        self.top = (memory if memory.is_dir() else memory.parent) / f"fleetprof-test-{os.getpid()}"
        self.group = self.top / "kubepods" / "burstable" / f"pod{POD_UID}" / CONTAINER_ID
        self.group.mkdir(parents=True)

    def take(self, process):
        (self.group / "cgroup.procs").write_text(str(process.pid))

    def close(self):
        group = self.group
        while group != self.top.parent:
            group.rmdir()
            group = group.parent


class Podman:
    def __init__(self, folder, image):
        self.folder, self.image = folder, image
        self.command = ["podman", "--root", folder / "storage", "--runroot", folder / "run",
                        "--cgroup-manager", "cgroupfs", "--runtime", "runc"]
        seccomp_profile(folder / "seccomp.json")
        self.children = {}

    @staticmethod
    def limits():
        """Small ones: podman's defaults may lie above what this host lets it set."""
        for name in ("nofile", "nproc"):
            yield from ("--ulimit", f"{name}={LIMIT}:{LIMIT}")

    def arguments(self, name, container, user, mounts):
        """podman's words for a container of the manifests."""
        context = container["securityContext"]
        words = ["run", "--rm", "--name", name, "--pid=host", "--network=host",
                 *self.limits(), "--user", user, "--security-opt", f"seccomp={self.folder}/seccomp.json"]
        if context["readOnlyRootFilesystem"]:
            words.append("--read-only")
        if not context["allowPrivilegeEscalation"]:
            words += ["--security-opt", "no-new-privileges"]
        words += ["--cap-drop", context["capabilities"]["drop"][0]]
        for capability in context["capabilities"].get("add", []):
            words += ["--cap-add", capability]
        for host, inside in mounts.items():
            words += ["--volume", f"{host}:{inside}"]
        return words + ["--rootfs", self.image.root, *container["command"],
                        *container.get("args", [])]

    def run(self, *arguments):
        subprocess.run([*self.command, *self.arguments(*arguments)], check=True,
                       stdin=subprocess.DEVNULL)

    def start(self, *arguments):
        name = arguments[0]
        log = open(self.folder / f"{name}.log", "wb")
        self.children[name] = subprocess.Popen(
            [*self.command, *self.arguments(*arguments)], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log)

    def pid(self, name):
        run = subprocess.run([*self.command, "inspect", "--format", "{{.State.Pid}}", name],
                             capture_output=True, text=True)
        return int(run.stdout) if run.returncode == 0 else 0

    def stop(self, name):
        subprocess.run([*self.command, "stop", "--time", "20", name], check=False,
                       stdout=subprocess.DEVNULL)
        return self.children.pop(name).wait(60)

    def close(self):
        for name in list(self.children):
            self.stop(name)
        # Each is removed by a process of its own, which mounts the storage again to do so.
        deadline = time.monotonic() + READY_S
        while self.containers() and time.monotonic() < deadline:
            time.sleep(0.2)

    def containers(self):
        return subprocess.run([*self.command, "ps", "--all", "--quiet"], capture_output=True,
                              text=True).stdout.split()

    def logs(self):
        for log in self.folder.glob("fleetprof-test-*.log"):
            print(f"-- {log.name}\n" + log.read_text(errors="replace")[-3000:])


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def within(condition, podman, name):
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and podman.children[name].poll() is None:
        try:
            if condition():
                return True
        except OSError:
            pass
        time.sleep(0.2)
    return False


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.M))


def configure(folder, port, metrics_port):
    """The ConfigMaps, with this machine's ports and short windows."""
    (folder / "etc").mkdir()
    agent = manifests.find("ConfigMap", "fleetprof-agent")["data"]["agent.conf"]
    agent = re.sub(r"(?m)^url = .*$", f"url = http://127.0.0.1:{port}\nretry_max = 2s", agent)
    agent = re.sub(r"(?m)^listen = .*$", f"listen = 127.0.0.1:{metrics_port}", agent)
    agent = re.sub(r"(?m)^hz = .*$", "hz = 99", agent)
    agent += "\n[window]\nlength = 2s\njitter_percent = 0\ndrain_interval = 1s\n"
    agent += "[spool]\nmin_free_percent = 0\nmin_free = 0B\n"
    (folder / "etc" / "agent.conf").write_text(agent)
    collector = manifests.find("ConfigMap", "fleetprof-collector")["data"]["collector.conf"]
    collector = re.sub(r"(?m)^listen = .*$", f"listen = 127.0.0.1:{port}", collector)
    (folder / "etc" / "collector.conf").write_text(collector)


def profiled(port, executable):
    query = urllib.parse.urlencode({
        "type": "cpu", "format": "folded", "from": "now-1h",
        "selector": '{executable="%s"}' % executable})
    return get(f"http://127.0.0.1:{port}/api/v1/query?{query}").strip() != ""


def pod_profiled(port):
    query = urllib.parse.urlencode({
        "type": "cpu", "format": "folded", "from": "now-1h",
        "selector": '{namespace="shop",pod="web-7d9f8b6c54-x2x9k",container="nginx",'
                    f'container_id="{CONTAINER_ID}",service_name="web"}}'})
    return "main" in get(f"http://127.0.0.1:{port}/api/v1/query?{query}")


def check_agent(check, podman, port, metrics_port):
    name = "fleetprof-test-agent"
    ready = within(lambda: get(f"http://127.0.0.1:{metrics_port}/readyz"), podman, name)
    if not check(ready, "the agent becomes ready with the DaemonSet's rights"):
        return
    pid = podman.pid(name)
    facts = status(pid)
    check(facts["Uid"].split()[0] == str(UID), "the sampler runs as fleetprof, not as root")
    check(int(facts["CapEff"], 16) == SIX, "the sampler has the six capabilities and no other")
    check(facts["NoNewPrivs"] == "1", "the sampler cannot gain privileges")
    check(facts["Seccomp"] == "2", "the runtime's system call filter is on")
    children = [status(child) for child in
                pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    rights = {child["Name"]: int(child["CapPrm"], 16) for child in children}
    check(rights.get("fleetprof-ship") == 0, f"the ship role has no capability ({rights})")
    check(rights.get("fleetprof-syms") == 0, f"the symbols role has no capability ({rights})")
    check(within(lambda: profiled(port, "calltree_fp"), podman, name),
          "a process of the host is in the collector's profile")
    check(within(lambda: pod_profiled(port), podman, name),
          "it carries the names of its pod, by its control group and the kubelet's log names")


def run(build, folder, check):
    image = Image(build, folder)
    podman = Podman(folder, image)
    port, metrics_port = free_port(), free_port()
    configure(folder, port, metrics_port)
    for path in ("state", "rundir", "store"):
        (folder / path).mkdir()
    os.chown(folder / "store", UID, UID)  # what fsGroup does
    agent = manifests.agent_container()
    first = manifests.containers(manifests.find("DaemonSet", "fleetprof-agent"))[0]
    collector = manifests.containers(manifests.find("Deployment", "fleetprof-collector"))[0]
    state = {folder / "state": "/var/lib/fleetprof", folder / "rundir": "/run/fleetprof"}
    configuration = {folder / "etc": "/etc/fleetprof:ro"}
    load = subprocess.Popen([build / "tests" / "programs" / "calltree_fp", "--seconds", "600"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    pod = Pod(folder)
    try:
        pod.take(load)
        podman.start("fleetprof-test-collector", collector, f"{UID}:{UID}", {
            **configuration, folder / "store": "/var/lib/fleetprof-collector"})
        ready = within(lambda: get(f"http://127.0.0.1:{port}/readyz"), podman,
                       "fleetprof-test-collector")
        check(ready, "the collector becomes ready without any capability")
        podman.run("fleetprof-test-directories", first, "0:0", state)
        podman.start("fleetprof-test-agent", agent, "0:0", {
            **configuration, **state, "/etc/machine-id": "/host/machine-id:ro",
            "/sys/fs/cgroup": "/host/cgroup:ro",
            pod.logs / "containers": "/var/log/containers:ro",
            pod.logs / "pods": "/var/log/pods:ro"})
        check_agent(check, podman, port, metrics_port)
        check(podman.stop("fleetprof-test-agent") == 0, "the agent's container stops cleanly")
        check(podman.stop("fleetprof-test-collector") == 0,
              "the collector's container stops cleanly")
        if check.failed:
            podman.logs()
    finally:
        load.kill()
        load.wait()
        pod.close()
        podman.close()
        image.close()


class Check(manifests.Check):
    def __call__(self, holds, sentence):
        super().__call__(holds, sentence)
        return holds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build.resolve()
    need_tools()
    check = Check()
    with tempfile.TemporaryDirectory(prefix="fleetprof-container.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o711)
        run(build, folder, check)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
