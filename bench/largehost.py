#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a large host costs fleetprof-agent: a table of docs/overhead.md.

  largehost.py [--seconds 30] [--mappings 100000] [--processes 20000] [--hz 19]

The agent starts beside what is already there (CPU and off-CPU profiles both on, as on a host)
and is measured from its start:
  start s          until its programs run; with all its CPU until its first drain and the
                   reading of what it then meets are over: "start CPU s". With many processes
                   that is when each has slept once from end to end and so has a stack
  agent % of a CPU user and system time of all its processes, per second afterwards
  RSS              resident memory of each of its processes, at the end
  maps             kernel memory of its BPF maps
Cases: nothing; one process with so many executable mappings, which works (so that it is read);
so many processes forked from one, and so many executed programs, each awake for a moment every
minute. vm.max_map_count is raised for the time of the run and put back. Needs root.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure
import report
import tools
from compare import say

MIB = 1 << 20
SETTLE_S = 8
WAKE_S = 60
MAP_COUNT = pathlib.Path("/proc/sys/vm/max_map_count")
PID_MAX = pathlib.Path("/proc/sys/kernel/pid_max")


@contextlib.contextmanager
def setting(path, least):
    """A number of the kernel that is at least so large inside, and what it was afterwards."""
    before = path.read_text()
    if int(before) < least:
        path.write_text(str(least))
    try:
        yield
    finally:
        path.write_text(before)


class Crowd:
    """tests/programs/crowd; it and all it made are gone when the block ends."""

    def __init__(self, programs, *arguments):
        self.child = subprocess.Popen([programs / "crowd", *map(str, arguments)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.child.stdout.readline() != "ready\n":
            self.child.kill()
            raise RuntimeError(f"crowd {arguments} did not come to be")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.child.stdin.close()
        self.child.wait(120)
        self.child.stdout.close()


def cases(arguments):
    programs = arguments.programs
    return {
        "nothing": contextlib.nullcontext,
        f"{arguments.mappings:,} mappings":
            lambda: Crowd(programs, "mappings", arguments.mappings),
        f"{arguments.processes:,} forked processes":
            lambda: Crowd(programs, "processes", arguments.processes, WAKE_S),
        f"{arguments.processes:,} programs":
            lambda: Crowd(programs, "programs", arguments.processes, WAKE_S),
    }


def role(pid):
    """What a process of the agent is called by: its name, as the kernel has it."""
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def measure_case(name, make, arguments):
    tool = tools.Fleetprof(arguments.hz, True)
    with make(), tempfile.TemporaryDirectory(prefix="largehost.") as folder:
        process = tool.start(pathlib.Path(folder))
        try:
            start_s = process.wait_ready()
            time.sleep(SETTLE_S + (WAKE_S if "process" in name or "program" in name else 0))
            start_cpu = measure.cpu_seconds(measure.family(process.pid))
            before = process.counters()
            began = time.monotonic()
            time.sleep(arguments.seconds)
            members = measure.family(process.pid)
            elapsed = time.monotonic() - began
            cpu = measure.cpu_seconds(members) - start_cpu
            ran = measure.counter_difference(before, process.counters())
            figures = {
                "start_s": start_s, "start_cpu_s": start_cpu, "agent_percent": 100 * cpu / elapsed,
                "bpf_percent": sum(program["ns"] for program in ran.values()) / elapsed / 1e7,
                "rss": [(role(pid), measure.resident_bytes([pid])) for pid in members],
                "map_bytes": measure.map_bytes(members),
                "metrics": {row: value for row, value in tool.metrics().items()
                            if "process" in row or "mapping" in row or "lazy" in row},
            }
        finally:
            process.stop()
    figures["peak_bytes"] = process.peak_resident_bytes()
    return figures


def row(name, figures):
    return [name, f"{figures['start_s']:.2f}", f"{figures['start_cpu_s']:.2f}",
            f"{figures['agent_percent']:.2f}", f"{figures['bpf_percent']:.3f}",
            " + ".join(f"{size / MIB:.1f}" for _, size in figures["rss"]),
            f"{figures['peak_bytes'] / MIB:.1f}", f"{figures['map_bytes'] / MIB:.1f}"]


HEADER = ["host", "start s", "start CPU s", "agent % of a CPU", "BPF % of a CPU",
          "RSS MiB of its processes", "peak RSS MiB of all", "maps MiB"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--mappings", type=int, default=100000)
    parser.add_argument("--processes", type=int, default=20000)
    parser.add_argument("--hz", type=int, default=19)
    parser.add_argument("--cases", default="", help="words of the cases to run, e.g. forked")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--out", default="bench-results")
    parser.add_argument("--update", metavar="PAGE", help="put the table into docs/overhead.md")
    arguments = parser.parse_args()
    arguments.programs = arguments.build / "tests" / "programs"
    tools.Fleetprof.build = arguments.build
    tools.Fleetprof.settings = tuple(arguments.set)
    reason = tools.Fleetprof().why_not()
    if os.geteuid() != 0 or reason is not None:
        say("largehost.py: " + (reason or "BPF needs root; run it with sudo"))
        return 5
    measure.end_in_order()
    results = {}
    with measure.BpfStats(), setting(MAP_COUNT, arguments.mappings + 1000), \
            setting(PID_MAX, arguments.processes + 12768):
        for name, make in cases(arguments).items():
            if not any(word in name for word in arguments.cases.split(",")):
                continue
            results[name] = measure_case(name, make, arguments)
            say(f"{name}: {results[name]}")
    head = (f"## A large host\n\n{arguments.seconds:.0f} s a row, {arguments.hz} Hz, CPU and "
            "off-CPU profiles both on; resident memory of sampler and roles.\n\n")
    report.write(arguments, "largehost", {"machine": report.machine(), "cases": results},
                 head + report.table(HEADER, [row(*item) for item in results.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
