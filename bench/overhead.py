#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fleetprof-agent costs: the table of docs/overhead.md.

  overhead.py [--seconds 60] [--rates 19,99] [--loads idle,mixed,storm,pingpong]

For every rate and load the agent runs as on a host, CPU and off-CPU profiles both on; after
its first drain its programs, processes and maps are measured for --seconds:
  ns per sample    run time of the CPU program / its runs (kernel statistics of BPF programs)
  ns per switch    run time of all scheduler programs / context switches
  BPF % of a CPU   all its programs, which run on other tasks' time
  agent % of a CPU user and system time of all its processes
  PSS              memory of all its processes, pages that they share counted once
  RSS, maps        likewise, shared pages counted for each; kernel memory of its BPF maps
The statistics themselves cost two clock reads a run and are in the figures. Needs root.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure
import report
import tools
from compare import Load, say

MIB = 1 << 20
PERF_EVENT = "perf_event"


class Idle:
    """What the host does anyway."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class Mixed:
    """CPU-bound thread, compile loop and ping-pong at once."""

    def __init__(self, programs):
        self.child = subprocess.Popen([programs / "mixed.sh", "3600", programs],
                                      stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.child.terminate() # the script ends its loads
        self.child.wait()


LOADS = {
    "idle": lambda programs: Idle(),
    "mixed": Mixed,
    "deep": lambda programs: Load(programs, "deep", "--depth", "30", "--pin", "--threads",
                                  str(os.cpu_count()), "--seconds", "3600"),
    "storm": lambda programs: Load(programs, "storm", "--seconds", "3600"),
    "pingpong": lambda programs: Load(programs, "pingpong", "--same-cpu", "--seconds", "3600"),
}


def per_switch(programs):
    """All scheduler programs' time over the runs of the busiest: it runs at every switch."""
    switches = max((program["runs"] for program in programs), default=0)
    total = sum(program["ns"] for program in programs)
    return (total / switches if switches else None), switches


def measure_once(hz, load, arguments):
    tool = tools.Fleetprof(hz, True)
    with tempfile.TemporaryDirectory(prefix="overhead.") as name, \
            LOADS[load](arguments.programs):
        process = tool.start(pathlib.Path(name))
        try:
            process.wait_ready()
            time.sleep(arguments.settle)
            before, cpu_before, busy_before = (process.counters(), family_cpu(process),
                                               measure.busy_and_steal())
            start = time.monotonic()
            time.sleep(arguments.seconds)
            elapsed = time.monotonic() - start
            ran = measure.counter_difference(before, process.counters())
            cpu, busy = family_cpu(process) - cpu_before, measure.busy_and_steal()
            members = measure.family(process.pid)
            figures = {"rss_bytes": measure.resident_bytes(members),
                       "pss_bytes": measure.proportional_bytes(members),
                       "map_bytes": measure.map_bytes(members), "processes": len(members)}
        finally:
            process.stop()
    samples = [program for program in ran.values() if program["type"] == PERF_EVENT]
    switches = [program for program in ran.values() if program["type"] != PERF_EVENT]
    runs = sum(program["runs"] for program in samples)
    ns_per_switch, switch_runs = per_switch(switches)
    figures.update(
        hz=hz, load=load, seconds=elapsed, peak_bytes=process.peak_resident_bytes(),
        samples_per_s=runs / elapsed, switches_per_s=switch_runs / elapsed,
        ns_per_sample=sum(program["ns"] for program in samples) / runs if runs else None,
        ns_per_switch=ns_per_switch,
        bpf_percent=sum(program["ns"] for program in ran.values()) / elapsed / 1e7,
        agent_percent=100 * cpu / elapsed,
        host_busy_percent=100 * (busy[0] - busy_before[0]) / elapsed / os.cpu_count(),
        steal_percent=100 * (busy[1] - busy_before[1]) / elapsed / os.cpu_count(),
        programs=list(ran.values()))
    return figures


def family_cpu(process):
    return measure.cpu_seconds(measure.family(process.pid))


def number(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def row(figures):
    return [figures["hz"], figures["load"], number(figures["host_busy_percent"]),
            number(figures["samples_per_s"], 1), number(figures["ns_per_sample"]),
            number(figures["switches_per_s"]), number(figures["ns_per_switch"]),
            number(figures["bpf_percent"], 3), number(figures["agent_percent"], 2),
            number(figures["pss_bytes"] / MIB, 1), number(figures["rss_bytes"] / MIB, 1),
            number(figures["peak_bytes"] / MIB, 1),
            number(figures["map_bytes"] / MIB, 1),
            number((figures["peak_bytes"] + figures["map_bytes"]) / MIB, 1)]


HEADER = ["Hz", "load", "host busy %", "samples/s", "ns/sample", "switches/s", "ns/switch",
          "BPF % of a CPU", "agent % of a CPU", "PSS MiB", "RSS MiB", "peak RSS MiB", "maps MiB",
          "peak RSS + maps MiB"]


def main():
    measure.end_in_order()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=8, help="seconds before measuring")
    parser.add_argument("--rates", default="19,99")
    parser.add_argument("--loads", default="idle,mixed,storm,pingpong",
                        help=f"of {','.join(LOADS)}")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--out", default="bench-results")
    parser.add_argument("--update", metavar="PAGE", help="put the table into docs/overhead.md")
    arguments = parser.parse_args()
    arguments.programs = arguments.build / "tests" / "programs"
    tools.Fleetprof.build = arguments.build
    tools.Fleetprof.settings = tuple(arguments.set)
    reason = tools.Fleetprof().why_not()
    if os.geteuid() != 0 or reason is not None:
        say("overhead.py: " + (reason or "BPF needs root; run it with sudo"))
        return 5
    results = []
    with measure.BpfStats():
        for hz in (int(text) for text in arguments.rates.split(",")):
            for load in arguments.loads.split(","):
                results.append(measure_once(hz, load, arguments))
                say(f"{hz} Hz, {load}: {row(results[-1])}")
    text = (f"## What the agent costs, CPU and off-CPU profiles both on\n\n"
            f"{arguments.seconds:.0f} s a row, on {os.cpu_count()} CPUs; batches spooled, "
            f"not shipped.\n\n" + report.table(HEADER, [row(figures) for figures in results]))
    report.write(arguments, "overhead", {"machine": report.machine(), "rows": results}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
