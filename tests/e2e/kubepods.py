#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cgroup trees as kubelet, docker and systemd make them, with processes in them, and the
kubelet's log directories beside: samples carry container, pod and namespace; those of processes
that live 30 ms as well, and none carries another's."""

import os
import shutil
import subprocess
import sys

from cgroups import Cgroup
from control_agent import Folder
from reference import Check, arguments, skip, skip_unless_live
from watched import Watch

LONG_S = 6
SHORT_S, SHORT_RUNS = 0.03, 60


def digits(letter):
    """A container id that nobody else has."""
    return (letter * 4 + f"{os.getpid():08x}") * 5 + letter * 4


def uid(letter):
    return f"{letter * 8}-0000-4000-8000-{os.getpid():012x}"


class Case:
    """One tree. wanted: the labels that every sample of its processes must carry; absent: those
    that none may."""

    def __init__(self, letter, path, wanted, absent=(), log=None):
        self.letter, self.wanted, self.absent, self.log = letter, wanted, absent, log
        self.program = f"fp-load-{letter}"  # the executable's name tells the cases apart
        self.brief = f"fp-brief-{letter}"
        self.path = path


def pod_labels(letter, **more):
    return {"container_id": digits(letter), "pod_uid": uid(letter), **more}


def cases():
    underscored = {letter: uid(letter).replace("-", "_") for letter in "abcdef"}
    burstable = "/kubepods.slice/kubepods-burstable.slice"
    yield Case("a", f"{burstable}/kubepods-burstable-pod{underscored['a']}.slice/"
               f"cri-containerd-{digits('a')}.scope",
               pod_labels("a", namespace="shop", pod="cart-7d4b9c-x2x4z", container="cart"),
               log="containers")
    yield Case("b", f"/kubepods.slice/kubepods-pod{underscored['b']}.slice/"
               f"crio-{digits('b')}.scope",
               pod_labels("b", namespace="shop-2", pod="db-0", container="postgres"),
               log="both")
    yield Case("c", f"/kubepods/besteffort/pod{uid('c')}/{digits('c')}",
               pod_labels("c", namespace="kube-system", pod="dns-5d78c9869d-abcde"),
               log="pods")
    nested = (f"/docker/{digits('f')}/kubelet.slice/kubelet-kubepods.slice/"
              "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-"
              f"pod{underscored['d']}.slice/cri-containerd-{digits('d')}.scope")
    yield Case("d", nested, pod_labels("d"), absent=("namespace", "pod", "container"))
    yield Case("e", f"/system.slice/docker-{digits('e')}.scope", {"container_id": digits("e")},
               absent=("namespace", "pod", "container", "pod_uid"))
    yield Case("g", f"/system.slice/fp-test-{os.getpid()}.service",
               {"systemd_unit": f"fp-test-{os.getpid()}.service", "systemd_slice": "system.slice"},
               absent=("container_id", "pod_uid", "namespace", "pod", "container"))


def write_log(logs, case):
    """The names that a kubelet gives: a directory per pod, and a link per container."""
    names = {"namespace": "", "pod": "", "container": "only", **case.wanted}
    folder = logs / "pods" / f"{names['namespace']}_{names['pod']}_{uid(case.letter)}"
    target = folder / names["container"] / "0.log"
    if case.log in ("pods", "both"):
        target.parent.mkdir(parents=True)
        target.touch()
    if case.log in ("containers", "both"):
        name = f"{names['pod']}_{names['namespace']}_{names['container']}-{digits(case.letter)}.log"
        (logs / "containers").mkdir(parents=True, exist_ok=True)
        (logs / "containers" / name).symlink_to(target)


def start(build, folder, case, cgroup):
    """A process for a while, and beside it a loop of processes that hardly live."""
    program = build / "tests" / "programs" / "spin"
    for name in (case.program, case.brief):
        if not (folder / name).exists():
            shutil.copy(program, folder / name)
    loop = f"for i in $(seq {SHORT_RUNS}); do '{folder / case.brief}' --seconds {SHORT_S}; done"
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
               "preexec_fn": cgroup.join}
    return [subprocess.Popen([folder / case.program, "--seconds", str(LONG_S)], **options),
            subprocess.Popen(["/bin/sh", "-c", loop], **options)]


def selector(**labels):
    return "{%s}" % ", ".join(f'{name}="{value}"' for name, value in labels.items())


def run_cases(build, folder, watch, wanted):
    running = []
    with_groups = [(case, Cgroup(case.path)) for case in wanted]
    try:
        for case, cgroup in with_groups:
            running += start(build, folder, case, cgroup)
        for child in running:
            child.wait(120)
        watch.settle()
    finally:
        for child in running:
            if child.poll() is None:
                child.kill()
                child.wait()
        for _, cgroup in reversed(with_groups):
            cgroup.remove()


def check_case(check, watch, case):
    for name in (case.program, case.brief):
        total = watch.samples(selector(executable=name))
        what = f"{case.path.split('/')[1]}… case {case.letter}, {name}"
        if not check(total >= 20, f"{what} was sampled ({total})"):
            continue
        carried = watch.samples(selector(executable=name, **case.wanted))
        if not check(carried == total, f"{what}: {carried} of {total} samples carry "
                     f"{' '.join(case.wanted)}"):
            for label, value in case.wanted.items():
                print(f"      {label}={value}: "
                      f"{watch.samples(selector(executable=name, **{label: value}))}")
        if case.absent:
            without = watch.samples(selector(executable=name, **dict.fromkeys(case.absent, "")))
            check(without == total, f"{what}: and none has {' '.join(case.absent)}")


def check_strangers(check, watch, wanted):
    """No label of a case at a process that was not in its cgroups."""
    for case in wanted:
        label = "container_id" if "container_id" in case.wanted else "systemd_unit"
        mine = f'{label}="{case.wanted[label]}"'
        # The shell and seq of the loop, and Python between fork and exec, are in them too.
        names = f"fp-(load|brief)-{case.letter}|sh|dash|bash|seq|python3.*"
        others = watch.stacks('{%s, executable!~"%s"}' % (mine, names), root="executable")
        check(not others, f"case {case.letter}: nobody else has its {label} "
              f"({sorted({frames[0] for frames, _ in others})})")
        for frames, value in others:
            print(f"      {value} {';'.join(frames)}")


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    if not os.access("/sys/fs/cgroup", os.W_OK):
        skip("cgroups cannot be made here")
    check = Check()
    wanted = list(cases())
    with Folder() as folder:
        logs = folder / "log"
        logs.mkdir()
        for case in wanted:
            if case.log:
                write_log(logs, case)
        with Watch(build, folder, {("labels", "log_directory"): logs}) as watch:
            run_cases(build, folder, watch, wanted)
            for case in wanted:
                check_case(check, watch, case)
            check_strangers(check, watch, wanted)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
