#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks against a reference at the same instant. unwindref stops threads of each program at random
instants and walks them where they stand: by libdwfl, and by our walker compiled natively over tables
that the agent's code made. And since every such stop is an interval off the CPU too, in the state
`stopped`, the agent that watches meanwhile walks the same stack in the kernel, by BPF: its records
are held against the reference as well, addresses and builds.

Frame by frame all three must agree; a difference must be of a class that is explained here."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import unwindprograms
import unwindstops
import witnessed
from reference import Agent, Check, full, skip_unless_live
from unwindjudge import judge_kernel, judge_native

WARM_S = 20  # in which the agent meets the builds and loads their tables


def native(options, load, folder):
    """The stops alone, without an agent: the walk that is compiled for this program."""
    output = folder / "stops"
    with unwindprograms.running(load, options.build) as pid, open(output, "wb") as file:
        subprocess.run([options.build / "tests" / "programs" / "unwindref", "--tree", str(pid),
                        "--executable", f"^({load.executables})$", "--stops",
                        str(options.stops), "--seconds", "120"], stdout=file, check=True)
    return unwindstops.read(output)[0]


def run(options, load, folder):
    """((stops, tries), records of the agent that watched)."""
    output, witness = folder / "stops", folder / "witness"
    settings = {"cpu-enabled": "no", "off-cpu-walk-budget": "1000000",
                "window-drain-interval": "1s", **dict(pair.split("=", 1) for pair in options.set)}
    with Agent(options.build, "tests/programs/agent_witness", {"FP_WITNESS": str(witness)},
               **settings) as agent, unwindprograms.running(load, options.build) as pid:
        time.sleep(WARM_S)
        with open(output, "wb") as file:
            subprocess.run([options.build / "tests" / "programs" / "unwindref", "--tree", str(pid),
                            "--executable", f"^({load.executables})$", "--stops",
                            str(options.stops), "--seconds", "120"], stdout=file, check=True)
        agent.stop()
    return unwindstops.read(output), witnessed.read(witness)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--stops", type=int, default=2500 if full() else 500)
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE",
                        help="a setting of the agent, as its flag is spelled without dashes")
    parser.add_argument("--native", action="store_true",
                        help="only the walk compiled for user space, on the stopped threads")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what was recorded")
    parser.add_argument("programs", nargs="*", help="names; default: all")
    return parser.parse_args()


def main():
    options = parse()
    skip_unless_live()
    check = Check()
    able, unable = unwindprograms.chosen(options.programs)
    for load in able:
        with tempfile.TemporaryDirectory(prefix="unwind.") as name:
            folder = options.keep / load.name if options.keep else pathlib.Path(name)
            folder.mkdir(parents=True, exist_ok=True)
            if options.native:
                judge_native(check, load.name, native(options, load, folder))
                continue
            (stops, tries), records = run(options, load, folder)
        judge_native(check, load.name, stops)
        judge_kernel(check, load.name, tries, records)
    for name, reason in unable.items():
        print(f"SKIP: {name}: {reason}")
    if unable and not check.failures:
        return 77
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
