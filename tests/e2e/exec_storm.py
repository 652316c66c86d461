#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight shells per CPU that do nothing but execute true(1), from the agent's first window on: far
more wants to run than can, so the agent waits for its turn, for a second and more at a time.

  * No process event is lost, though nobody reads the rings meanwhile.
  * Every sample says of what program it is, also one that was taken between an exec and the
    program's first mapping and resolved before that was told of."""

import os
import subprocess
import sys

from control_agent import Folder
from reference import Check, arguments, skip_unless_live
from watched import Watch

SHELLS_PER_CPU = 8
EXECS = 250
HZ = 999
LOST = "fleetprof_agent_process_events_lost_total"
SAMPLES_MIN = 1000
# The kernel gives the thread its new name some microseconds before it tells of the exec.
EARLY_SHARE = 0.002


def storm():
    loop = f"for i in $(seq {EXECS}); do /bin/true; done"
    shells = [subprocess.Popen(["/bin/sh", "-c", loop], stdin=subprocess.DEVNULL)
              for _ in range(SHELLS_PER_CPU * os.cpu_count())]
    return [shell.wait(300) for shell in shells]


def programs(watch, thread):
    """Samples of the threads of that name by executable."""
    counts = {}
    for frames, value in watch.stacks(f'{{thread="{thread}"}}', root="executable"):
        counts[frames[0]] = counts.get(frames[0], 0) + value
    return counts


def check_programs(check, watch):
    shell = os.path.basename(os.path.realpath("/bin/sh"))
    for thread, executable in (("true", "true"), ("sh", shell), ("seq", "seq")):
        counts = programs(watch, thread)
        total, own = sum(counts.values()), counts.get(executable, 0)
        others = {name: count for name, count in counts.items() if name != executable}
        check(own > 0 and not set(others) - {shell} and total - own <= EARLY_SHARE * total,
              f"thread '{thread}': {own} of {total} samples are of {executable}"
              + "".join(f", {count} of {name}" for name, count in others.items()))
    check(programs(watch, "true").get("true", 0) >= SAMPLES_MIN,
          f"true was sampled {SAMPLES_MIN} times or more")


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    with Folder() as folder, Watch(build, folder, {("cpu", "hz"): str(HZ)}) as watch:
        ended = storm()
        watch.settle()
        check(not any(ended), f"{len(ended)} shells ended well")
        lost = watch.metric(LOST)
        check(lost == 0, f"{lost:.0f} process events were lost")
        check_programs(check, watch)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
