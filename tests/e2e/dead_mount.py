#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose files lie on a file system that never answers again, in a sleep that not even
SIGKILL ends. The agent starts, samples them and everybody else, ships, says what it left out, and
ends when told: with FUSE on its deny list, and also when nothing warned it."""

import pathlib
import subprocess
import sys
import time

from control_agent import Folder
from reference import Check, arguments, skip, skip_unless_live
from watched import Watch

LOAD_S = 600  # until killed
FEWEST = 20  # samples
PROGRAMS = ("spin_far", "spin_far_nameless")  # with a build-ID and without any


class DeadMount:
    def __init__(self, build, folder):
        self.path = folder / "mount"
        self.path.mkdir()
        programs = build / "tests" / "programs"
        self.server = subprocess.Popen(
            [programs / "deadfuse", self.path, *(programs / name for name in PROGRAMS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if not self.server.stdout.readline().startswith("ready"):
            skip("FUSE cannot be mounted here")
        self.children = []

    def start_programs(self):
        for name in PROGRAMS:
            self.children.append(subprocess.Popen(
                [self.path / name, "--seconds", str(LOAD_S)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        time.sleep(1)  # all their pages are in memory

    def die(self):
        self.server.stdin.write("\n")
        if self.server.stdout.readline() != "dead\n":
            raise RuntimeError("the file system did not die")

    def close(self):
        """The kernel fails all that waits as soon as the server is gone."""
        self.server.kill()
        self.server.communicate()
        for child in self.children:
            child.kill()
            child.wait()
        subprocess.run(["umount", "--lazy", self.path], check=False,
                       stderr=subprocess.DEVNULL)


def stuck(pid):
    """Whether one of the agent's processes sleeps where no signal reaches it."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    states = {}
    for child in [str(pid), *children]:
        try:
            text = pathlib.Path(f"/proc/{child}/stat").read_text()
        except FileNotFoundError:
            continue
        states[child] = text.rpartition(")")[2].split()[0]
    return states


def check_watched(check, watch, build, what):
    """What a user has of a host with a dead file system."""
    live = subprocess.Popen([build / "tests" / "programs" / "spin", "--seconds", "3"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    live.wait()
    watch.settle()
    watch.settle()
    for name in PROGRAMS:
        seen = watch.samples('{executable="%s"}' % name)
        check(seen >= FEWEST, f"{what}: '{name}' on it is sampled ({seen})")
    stacks = watch.stacks('{executable="spin"}')
    total = sum(value for _, value in stacks)
    ours = sum(value for frames, value in stacks if any("spin" in frame for frame in frames[1:]))
    check(total >= FEWEST and ours > total / 2, f"{what}: another program is sampled and has its "
          f"frames ({ours} of {total})")
    check(watch.agent.get("healthz") == 200, f"{what}: the agent is healthy")
    unbalanced = watch.metric("fleetprof_agent_balance_errors_total")
    check(unbalanced == 0, f"{what}: its books balance ({unbalanced})")


def judge_end(check, watch, what):
    """Its exit status, whatever hangs."""
    states = stuck(watch.agent.child.pid)
    try:
        code = watch.agent.stop()
    except subprocess.TimeoutExpired:
        code = "nothing within a minute"
        watch.agent.child.kill()
    check(code == 0, f"{what}: SIGTERM ends it (it said {code}; its processes were {states})")


def run_case(check, build, settings, before, what):
    """before: the programs run before the agent does; else they come and the file system dies
    while it watches."""
    with Folder() as folder:
        mount = DeadMount(build, folder)
        try:
            if before:
                mount.start_programs()
                mount.die()
            # The collector is another machine's in this test: it has none of the files.
            with Watch(build, folder, settings,
                       ["--symbols-use-local-files=no", "--symbols-debug-dirs="]) as watch:
                if not before:
                    mount.start_programs()
                    mount.die()
                check_watched(check, watch, build, what)
                judge_books(check, watch, settings, before, what)
                judge_end(check, watch, what)
        finally:
            mount.close()


def judge_books(check, watch, settings, before, what):
    """What was not opened, or was given up, is counted."""
    if settings and not before:
        return  # all there is to know was read while the file system lived
    if settings:
        given_up = watch.metric("fleetprof_agent_files_timed_out_total")
        check(given_up and given_up >= 1, f"{what}: files given up are counted ({given_up})")
        return
    denied = watch.metric("fleetprof_agent_files_denied_total")
    check(denied and denied >= 1, f"{what}: files left alone are counted ({denied})")


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    if not pathlib.Path("/dev/fuse").exists():
        skip("this kernel has no /dev/fuse")
    check = Check()
    nothing_denied = {("symbols", "deny_file_systems"): "",
                      ("symbols", "request_deadline"): "500ms"}
    run_case(check, build, {}, True, "denied, dead before the agent came")
    run_case(check, build, {}, False, "denied, died under its eyes")
    run_case(check, build, nothing_denied, True, "not denied, dead before the agent came")
    run_case(check, build, nothing_denied, False, "not denied, died under its eyes")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
