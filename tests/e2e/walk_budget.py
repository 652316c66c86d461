#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The number of stacks that off-CPU profiling walks stays within its budget whatever the switch
rate: at 1, 10, 100 and 1000 times a rate (without FP_TEST_FULL in the environment at the first
and last), with a ping-pong at full speed, and with a crowd of threads that sleep 10 ms each
(20,000, else 2,000). And what is estimated from the few that are walked is the time that was
measured of all.

The load begins in the first window. Allowed above the budget, per window: MARGIN once the quantum
has been found, which is by what the last drain interval brought and so may lag behind other load;
in the windows in which it is searched, where the brake alone holds (bpf/threshold.h), SEARCH_S
seconds' worth more: from 1 µs the quantum doubles up to 25 times, each time for a tenth of a
second's walks."""

import contextlib
import json
import math
import pathlib
import subprocess
import sys
import time

from batches import OFF_CPU, spooled
from reference import Agent, Check, arguments, full, skip_unless_live

WINDOW_S = 5 if full() else 2  # and the drain interval; 5 s is the default
FIRST_WINDOWS = 2
WINDOWS = 5 if full() else 4
MARGIN, SEARCH_S = 1.1, 2.5
DEVIATIONS = 5  # of a standard error; of some dozens of windows none is beyond that by chance
SLEEP_US = 10000
LEAST = {  # vm.max_map_count: two mappings a thread
    "/proc/sys/vm/max_map_count": 100000, "/proc/sys/kernel/threads-max": 60000,
    "/proc/sys/kernel/pid_max": 60000}


@contextlib.contextmanager
def room_for_threads():
    """Limits of the kernel that let a crowd be, put back afterwards."""
    before = {path: int(pathlib.Path(path).read_text()) for path in LEAST}
    for path, least in LEAST.items():
        if before[path] < least:
            pathlib.Path(path).write_text(str(least))
    try:
        yield
    finally:
        for path, value in before.items():
            pathlib.Path(path).write_text(str(value))


@contextlib.contextmanager
def sleepers(build, count):
    child = subprocess.Popen([build / "tests" / "programs" / "crowd", "sleepers", str(count),
                              str(SLEEP_US)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    try:
        if child.stdout.readline() != "ready\n":
            raise RuntimeError(f"{count} threads could not be made")
        yield
    finally:
        child.stdin.close()
        child.wait(120)
        child.stdout.close()


@contextlib.contextmanager
def pingpong(build):
    child = subprocess.Popen([build / "tests" / "programs" / "pingpong", "--same-cpu",
                              "--seconds", "3600"], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.kill()
        child.wait()


def loads(build):
    """{name: a context in which the load runs}; the first four are 1 to 1000 times a rate."""
    crowd = 20000 if full() else 2000
    return {
        **{f"{count} thread{'s' * (count > 1)} that sleep{'s' * (count == 1)} 10 ms":
           lambda count=count: sleepers(build, count) for count in (1, 10, 100, 1000)},
        "a ping-pong at full speed": lambda: pingpong(build),
        f"{crowd} threads that sleep 10 ms": lambda: sleepers(build, crowd),
    }


def windows_of(build, load, settings):
    """Quality of the off-CPU profile of every whole window, with seconds and estimated time."""
    with Agent(build, **{"window-length": f"{WINDOW_S}s", "window-jitter-percent": "0",
                         "window-drain-interval": f"{WINDOW_S}s", **settings}) as agent:
        with load():
            time.sleep(WINDOW_S * WINDOWS + 1)
        agent.stop()
        for batch in spooled(agent.spool()):
            quality = dict(batch.quality[OFF_CPU])
            quality["seconds"] = (batch.end_ns - batch.start_ns) / 1e9
            quality["estimated_ns"] = sum(sample.value for sample in batch.samples
                                          if sample.type == OFF_CPU)
            if quality["seconds"] > WINDOW_S * 0.9:
                yield quality


def describe(window):
    return (f"{window['intervals'] / window['seconds']:.0f} intervals/s, "
            f"{window['walks'] / window['seconds']:.0f} walks/s, quantum "
            f"{window.get('quantum_min_ns', 0) / 1e6:.3f}.."
            f"{window.get('quantum_max_ns', 0) / 1e6:.3f} ms, "
            f"weight {window.get('weight_max', 0)}, "
            f"{window['intervals_ns'] / 1e9:.2f} s measured, "
            f"{window['estimated_ns'] / 1e9:.2f} s estimated")


def check_window(check, number, window, way_out):
    budget = window["walk_budget"] * window["seconds"] * MARGIN
    if number < FIRST_WINDOWS:
        budget += window["walk_budget"] * SEARCH_S
    check(window["walks"] <= budget,
          f"window {number + 1}: {window['walks']} walks, {budget:.0f} at most; "
          + describe(window))
    measured, error = window["intervals_ns"], window["estimated_ns"] - window["intervals_ns"]
    # An interval's own part of the variance is less than quantum x length; on the way out, where
    # the lot knows no length, less than weight x length², and none is longer than its window.
    each = window.get("quantum_max_ns", 0)
    if way_out:
        each = window["weight_max"] * window["seconds"] * 1e9
    bound = DEVIATIONS * math.sqrt(each * measured)
    check(abs(error) <= bound, f"window {number + 1}: the time is right to {error / 1e9:+.3f} s, "
          f"{bound / 1e9:.3f} s at most")


def check_load(check, build, name, load, hook="auto"):
    print(f"-- {name}" + (f", {hook}" if hook != "auto" else ""), flush=True)
    windows = list(windows_of(build, load, {"off-cpu-hook": hook}))
    covered = sum(window["seconds"] for window in windows)
    check(covered > WINDOW_S * WINDOWS * 0.6, f"{len(windows)} windows, {covered:.1f} s")
    for number, window in enumerate(windows):
        check_window(check, number, window, hook == "way_out")
    return max((window["intervals"] / window["seconds"] for window in windows), default=0)


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    with room_for_threads():
        names = list(loads(build))
        slowest, fastest, crowd, pingpong = names[0], names[3], names[-1], names[-2]
        if not full():
            names = [slowest, fastest, pingpong, crowd]
        rates = {name: check_load(check, build, name, loads(build)[name]) for name in names}
        for name in (crowd, pingpong) if full() else (crowd,):
            check_load(check, build, name, loads(build)[name], "way_out")
    print(json.dumps(rates))
    # The machine may not be able to switch so often: it is the budget that is on trial.
    check(rates[fastest] > 20 * rates[slowest] or rates[fastest] > 20000,
          f"the rates are far apart: {rates[slowest]:.0f} to {rates[fastest]:.0f} per second")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
