#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The number of CPU samples of a CPU-bound program is its rate times its CPU-seconds."""

import math
import os
import sys

from reference import Check, arguments, full, skip_unless_live, snapshot, steal_seconds

TOLERANCE = 0.01


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    seconds = 60 if full() else 10
    cpus = len(os.sched_getaffinity(0))

    for hz, threads in ((99, 1), (99, cpus), (499, cpus)):
        stolen = steal_seconds()
        truth, stacks, _ = snapshot(build, "spin", ["--threads", str(threads), "--pin"], seconds,
                                    "--cpu", "--hz", str(hz))
        stolen = steal_seconds() - stolen
        samples = sum(value for _, value in stacks)
        cpu_s, wall_s = truth["cpu_ns"] / 1e9, truth["wall_ns"] / 1e9
        expected = hz * cpu_s
        # Alone on its CPUs every period is a hit. Where others ran too, which of the ticks hit
        # it is chance: binomial, and wider than the tolerance when they took much.
        share = min(1.0, cpu_s / (wall_s * threads))
        chance = 3 * math.sqrt(hz * wall_s * threads * share * (1 - share))
        allowed = max(TOLERANCE * expected, chance)
        check(abs(samples - expected) <= allowed,
              f"{hz} Hz, {threads} threads: {samples} samples for {cpu_s:.2f} CPU-seconds, "
              f"{expected:.1f} expected, {100 * (samples / expected - 1):+.2f} % "
              f"(allowed {100 * allowed / expected:.2f} %, on the CPU {100 * share:.1f} % of the "
              f"time, {stolen:.2f} s stolen)")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
