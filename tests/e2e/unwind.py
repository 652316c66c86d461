#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of programs as Debian ships them, without frame pointers, the agent gives whole stacks, on the
CPU and off it, and says of those that are not whole why. The agent watches the host as it does in
a fleet, and keeps the samples of one program. What counts is its own word in the quality record of
each window, after those in which tables are still loaded."""

import collections
import sys
import time

import unwindprograms
import unwindrun
from batches import CPU, OFF_CPU, spooled
from reference import Agent, full

WHOLE_SHARE = 0.99
WARM_WINDOWS = 6  # in which builds are met, and tables made and loaded
DEPTH = 512  # the load in bash calls itself deeper than the default of 127
LEAST = {CPU: 500, OFF_CPU: 20}  # stacks, below which a share says nothing
SOURCES = {CPU: "on-CPU", OFF_CPU: "off-CPU"}
# What stands in the quality record of user stacks that are not complete.
OTHER_ENDS = "user_complete", "user_stacks"


def settings_for(load):
    return {"cpu-hz": "499", "window-length": f"{unwindrun.WINDOW_S}s", "window-jitter-percent": "0",
            "window-drain-interval": "1s", "off-cpu-walk-budget": "2000",
            "limits-max-user-frames": DEPTH,
            "labels-relabel": f'keep executable =~ "{load.executables}"'}


def qualities(build, load, seconds, settings):
    """{profile: Counter} over the windows that are full of the program's work."""
    sums = {CPU: collections.Counter(), OFF_CPU: collections.Counter()}
    with Agent(build, **{**settings_for(load), **settings}) as agent:
        with unwindprograms.running(load, build):
            begin_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            time.sleep(WARM_WINDOWS * unwindrun.WINDOW_S + seconds)
            end_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        agent.stop()
        for batch in spooled(agent.spool()):
            if batch.start_ns >= begin_ns + WARM_WINDOWS * unwindrun.WINDOW_S * 10**9 and \
                    batch.start_ns < end_ns:
                for source, counter in sums.items():
                    counter.update(batch.quality.get(source, {}))
    return sums


def ends(quality):
    """{why: stacks} of those that are not whole."""
    return {name: count for name, count in sorted(quality.items())
            if name.startswith("user_") and name not in OTHER_ENDS and count}


def judge(check, load, sums):
    for source, quality in sums.items():
        stacks, whole = quality["user_stacks"], quality["user_complete"]
        if not check(stacks >= LEAST[source],
                     f"{load.name}: {stacks} {SOURCES[source]} stacks, {LEAST[source]} at least"):
            continue
        check(whole >= WHOLE_SHARE * stacks,
              f"{load.name}: {100 * whole / stacks:.2f} % of {stacks} {SOURCES[source]} user "
              f"stacks are whole; others: {ends(quality)}")


def parse():
    parser = unwindrun.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30 if full() else 9,
                        help="of each program's work that counts")
    return parser.parse_args()


def main():
    options = parse()
    settings = unwindrun.settings(options)
    return unwindrun.over_programs(options, lambda check, load, _: judge(
        check, load, qualities(options.build, load, options.seconds, settings)))


if __name__ == "__main__":
    sys.exit(main())
