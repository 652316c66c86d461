#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwind tables within their memory, live: many builds run at once and have their tables; then the
bound is lowered under what they take (SIGHUP), and tables have to go at once. What the agent says it
holds never lies above the bound, those that went are counted, and stacks of builds without a table
say that there is no room."""

import contextlib
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from control_agent import Agent, Folder, wait_for
from reference import Check, arguments, skip, skip_unless_live

PYTHON = "/usr/bin/python3"
BUILDS = 56  # each a table of some 0.35 MiB
LATE = 8  # that begin when there is no room any more
LOW, HIGH = "16MiB", "64MiB"
LOW_BYTES, HIGH_BYTES = 16 << 20, 64 << 20
PATIENCE_S = 60
# Mostly asleep, and still in stacks of every moment.
LOAD = ("import time\n"
        "while True:\n"
        "    sum(i * i for i in range(20000))\n"
        "    time.sleep(0.2)\n")
METRIC = "fleetprof_agent_unwind_"


def build_id_of(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True,
                           check=True).stdout
    return bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", notes)[1])


def make_builds(folder):
    """Copies of one program, each with a build-ID of its own."""
    original = pathlib.Path(PYTHON).resolve()
    content, old = original.read_bytes(), build_id_of(original)
    if content.count(old) != 1:
        skip(f"'{original}' does not have its build-ID once")
    for number in range(BUILDS + LATE):
        path = folder / f"many_{number}"
        path.write_bytes(content.replace(old, number.to_bytes(4, "big") + old[4:]))
        path.chmod(0o755)
        yield path


@contextlib.contextmanager
def running(paths):
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(subprocess.Popen([path, "-c", LOAD])) for path in paths]
        try:
            yield
        finally:
            for child in children:
                child.kill()


def value(agent, name):
    return agent.metric(METRIC + name) or 0


class Bound:
    """What the agent holds, looked at again and again."""

    def __init__(self, agent, limit):
        self.agent, self.limit, self.most = agent, limit, 0

    def keeps(self, condition):
        """condition, with a look at the memory before."""
        def look():
            held = value(self.agent, "bytes")
            if value(self.agent, "max_bytes") == self.limit:
                self.most = max(self.most, held)
            return condition()
        return look


def lower(agent):
    agent.settings["unwind", "memory"] = LOW
    agent.write_config()
    agent.child.send_signal(signal.SIGHUP)
    wait_for(lambda: value(agent, "max_bytes") == LOW_BYTES, "the bound is lowered")


def without_room(agent):
    return "found no room" in agent.ctl("doctor").stdout


def test(build, folder, check):
    programs = list(make_builds(folder))
    settings = {("unwind", "memory"): HIGH, ("cpu", "hz"): "99"}
    with Agent(build, folder, settings) as agent, running(programs[:BUILDS]):
        high = Bound(agent, HIGH_BYTES)
        wait_for(high.keeps(lambda: value(agent, "tables") >= BUILDS), "all have tables",
                 PATIENCE_S)
        tables, held = value(agent, "tables"), value(agent, "bytes")
        check(LOW_BYTES < held and high.most <= HIGH_BYTES,
              f"{tables:.0f} tables take {held / 2**20:.1f} MiB of {HIGH}")
        check(value(agent, "tables_evicted_total") == 0, "none had to go")
        lower(agent)
        low = Bound(agent, LOW_BYTES)
        wait_for(low.keeps(lambda: value(agent, "tables_evicted_total") > 0 and
                           value(agent, "bytes") <= LOW_BYTES), f"tables fit {LOW}", PATIENCE_S)
        low.most = 0  # it took a moment
        with running(programs[BUILDS:]):
            wait_for(low.keeps(lambda: value(agent, "tables_without_room_total") > 0),
                     "a table finds no room", PATIENCE_S)
            deadline = time.monotonic() + 10
            wait_for(low.keeps(lambda: time.monotonic() > deadline), "some time goes by")
        check(low.most <= LOW_BYTES, f"they take {low.most / 2**20:.1f} MiB of {LOW} at most")
        left, gone = value(agent, "tables"), value(agent, "tables_evicted_total")
        # Of other programs that begin on the host there are tables, too, and smaller ones.
        check(left > 0 and gone > 0, f"{left:.0f} tables are left, {gone:.0f} had to go")
        check(without_room(agent), "doctor says that there is no room")
        check(value(agent, "ranges_failed_total") == 0, "no process went without its ranges")


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    for tool in (PYTHON, "readelf"):
        if not shutil.which(tool):
            skip(f"'{tool}' is not installed")
    check = Check()
    with Folder() as folder:
        test(build, folder, check)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
