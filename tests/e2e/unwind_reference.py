#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks against a reference at the same instant. unwindref stops threads of each program at random
instants and walks them where they stand: by libdwfl, and by our walker compiled natively over tables
that the agent's code made. And since every such stop is an interval off the CPU too, in the state
`stopped`, the agent that watches meanwhile walks the same stack in the kernel, by BPF: its records
are held against the reference as well, addresses and builds.

Frame by frame all three must agree; a difference must be of a class that is explained here."""

import sys
import time

import unwindprograms
import unwindrun
from reference import full
from unwindjudge import judge_kernel, judge_native

# In which the agent meets the builds and loads their tables. What it has not met by then is rare,
# and is stopped and walked some times for nothing, so that it is met.
WARM_S = WARM_STOPS_S = 8 if full() else 5
LIMIT_S = 120  # of the stops of one program


def native(options, load, place):
    """The stops alone, without an agent: the walk that is compiled for this program."""
    with unwindprograms.running(load, options.build) as pid:
        return unwindrun.stop_threads(options.build, pid, place / "stops", options.stops, LIMIT_S,
                                      load.executables)


def watched(options, load, place):
    """(stops, tries), records of the agent that watched."""
    with unwindrun.Watch(options, place) as watch, \
            unwindprograms.running(load, options.build) as pid:
        time.sleep(WARM_S)
        unwindrun.stop_threads(options.build, pid, place / "before", 10 * options.stops,
                               WARM_STOPS_S, load.executables)
        time.sleep(2 * unwindrun.WINDOW_S)  # so that none of those is in a window of what counts
        found = unwindrun.stop_threads(options.build, pid, place / "stops", options.stops, LIMIT_S,
                                       load.executables)
    begin_ns = found[1][0].begin_ns
    return found, [record for record in watch.records if record.time_ns >= begin_ns]


def parse():
    parser = unwindrun.parser(__doc__)
    parser.add_argument("--stops", type=int, default=2500 if full() else 500)
    parser.add_argument("--native", action="store_true",
                        help="only the walk compiled for user space, on the stopped threads")
    parser.add_argument("--few", action="store_true",
                        help="the programs named are for the short form, the full one has all")
    options = parser.parse_args()
    if options.few and full():
        options.names = []
    return options


def main():
    options = parse()

    def judge(check, load, place):
        if options.native:
            judge_native(check, load.name, native(options, load, place)[0])
            return
        (stops, tries), records = watched(options, load, place)
        judge_native(check, load.name, stops)
        judge_kernel(check, load.name, (stops, tries), records)

    return unwindrun.over_programs(options, judge)


if __name__ == "__main__":
    sys.exit(main())
