#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers of podman and runc carry their id as podman tells it: whether they see the host's
cgroup paths or, in a cgroup namespace of their own, only `/`; the processes that go on as well as
those that live 30 ms; and never each other's."""

import pathlib
import shutil
import sys
import tempfile

from places import Container
from reference import Check, arguments, skip, skip_unless_live
from watched import Watch

RUN_S = 6
SHORT_S, SHORT_RUNS = 0.03, 60
FEWEST = 20  # samples


def loop(name):
    """A process that goes on, and beside it many that hardly live. The container stays until its
    input ends: podman knows nothing of one that has gone while the next was started."""
    return ["/bin/sh", "-c",
            f"/load/{name} --seconds {RUN_S} >/dev/null & "
            f"for i in $(seq {SHORT_RUNS}); do /load/{name}-brief --seconds {SHORT_S} "
            ">/dev/null; done; wait; read -r end"]


def check_id(check, watch, name, identity, what):
    for program in (name, f"{name}-brief"):
        total = watch.samples('{executable="%s"}' % program)
        if not check(total >= FEWEST, f"{what}: '{program}' was sampled ({total})"):
            continue
        found = {frames[0] for frames, _ in
                 watch.stacks('{executable="%s"}' % program, root="container_id")}
        check(found == {identity}, f"{what}: '{program}' carries {identity[:12]}… ({found})")
    others = {frames[0] for frames, _ in
              watch.stacks('{container_id="%s", executable=~"fp-.*"}' % identity,
                           root="executable")} - {name, f"{name}-brief"}
    check(not others, f"{what}: no other program of this test carries it ({others})")


def run(check, build, folder, container):
    ways = {"fp-host-cgroupns": ["--cgroupns=host"],
            "fp-own-cgroupns": ["--cgroupns=private"],
            "fp-plain-user": ["--user", "65534:65534"]}
    for name in ways:
        for program in (name, f"{name}-brief"):
            shutil.copy(build / "tests" / "programs" / "spin", folder / program)
    with Watch(build, folder) as watch:
        running = {name: container.start(loop(name), extra=words)
                   for name, words in ways.items()}
        ids = {name: container.inspect(one.container, "{{.Id}}")
               for name, one in running.items()}
        for one in running.values():
            one.end()
        watch.settle()
        check(len(set(ids.values())) == len(ways) and all(len(i) == 64 for i in ids.values()),
              "podman tells an id for each")
        for name in ways:
            check_id(check, watch, name, ids[name], " ".join(ways[name]))


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    if missing := Container.missing():
        skip(f"{missing} is not installed")
    check = Check()
    with tempfile.TemporaryDirectory(prefix="fleetprof-containers.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        container = Container(folder)
        try:
            run(check, build, folder, container)
        finally:
            container.close()
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
