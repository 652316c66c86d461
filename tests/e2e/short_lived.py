#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that live 2 to 20 ms (tests/programs/briefs.c): 2,000, or 10,000 with FP_TEST_FULL.
Three of four are executed programs, the rest children without an exec; nothing of them is left
when the agent resolves their stacks. Each blocks once, in a function of its own, and then works.

  * Every sample taken in them resolves. "In them" is told by the thread name, which the kernel
    stamps on the sample: `brief`, or `briefs` for the launcher and its forked children.
  * Of those taken in the program itself (the leaf frame is in its file) 99 % name the function
    where they were taken: the product's symbolizer says what the file's symbol table, read by
    the test, says. None names another. (What has no name is the stub of a lazy binding.)
    The same holds of the blocked time.
  * None is missing: each leaf has the samples that its CPU time, measured by the processes
    themselves, predicts, and each wait its time. So a sample whose frames were given up does not
    pass as "elsewhere".
"""

import collections
import math
import sys

import batches
import witnessed
from elffile import elf
from reference import Agent, Check, Program, arguments, full, skip_unless_live

HZ = 499
NAMED_SHARE = 0.99
STANDARD_ERRORS = 4
# Ticks come at fixed intervals, and a process begins at a wake-up of the last one's end: which
# ticks meet which leaf is chance, but what the kernel does around a tick takes from the leaves.
ERROR_SHARE = 0.02
WAIT_TOLERANCE = 0.2  # beside other work a process waits again before it looks at the clock


def take(build, processes):
    with Agent(build, **{"cpu-hz": HZ, "window-drain-interval": "2s",
                         "off-cpu-walk-budget": "1000000",  # every wait at its length
                         "window-length": "1h"}) as agent:
        with Program(build, "briefs", "--round-trips", str(processes)) as program:
            truth = program.work()
            program.leave()
        truth["code"] = agent.stop()
        samples = [sample for batch in batches.spooled(agent.spool())
                   for sample in batch.samples]
    return truth, samples


def check_resolved(check, samples):
    for kind, name in ((batches.CPU, "CPU samples"), (batches.OFF_CPU, "off-CPU intervals")):
        for thread in ("brief", "briefs"):
            mine = [sample for sample in samples
                    if sample.type == kind and sample.labels["thread"] == thread]
            total, bad, reasons = batches.troubles(mine)
            check(total > 0 and bad == 0,
                  f"thread '{thread}': {bad} of {total} {name} hold an unexplained frame")
            witnessed.report(reasons)
            wrong, early = witnessed.other_executables(mine, thread)
            check(not wrong and early <= witnessed.EARLY_SHARE * total,
                  f"thread '{thread}': {sum(wrong.values())} of {total} {name} carry another "
                  f"executable than theirs, {early} in the kernel at the moment of an exec")
            witnessed.report(wrong)


def user_leaf(sample):
    """The innermost frame that is not the kernel's, or None."""
    for frame in sample.frames:
        if frame.kind not in (batches.KERNEL, batches.MODULE):
            return frame
    return None


def leaves_by_name(build, samples):
    """(weight in the programs themselves, that named right, Counter by name, Counter of what is
    named otherwise than the file's own symbol table says) of (sample, weight) pairs."""
    programs = {elf(path).build_id: path for path in
                (str(build / "tests" / "programs" / name) for name in ("brief", "briefs"))}
    places = collections.Counter()
    for sample, weight in samples:
        frame = user_leaf(sample)
        if frame is not None and frame.kind == batches.FILE and frame.build.id in programs:
            places[frame.build.id, frame.offset, 1, programs[frame.build.id]] += weight
    names, right, wrong = collections.Counter(), 0, collections.Counter()
    for place, name in witnessed.product_names(build, list(places)).items():
        functions = witnessed.functions_at(place)
        names[name] += places[place]
        if name in functions or (not functions and (name.endswith("@plt") or
                                                    name in witnessed.labels_at(place))):
            right += places[place]
        elif name != "-":
            wrong[f"{place[1]:#x} is '{name}', not {functions}"] += places[place]
    return sum(places.values()), right, names, wrong


def check_names(check, build, samples, unit):
    """Counter by name of what was taken in the programs themselves."""
    total, right, names, wrong = leaves_by_name(build, samples)
    check(total > 0 and right >= NAMED_SHARE * total and not wrong,
          f"{right} of {total} {unit} taken in the programs themselves name their leaf function "
          f"({100 * right / max(1, total):.2f} %), {sum(wrong.values())} name another")
    witnessed.report(wrong)
    return names


def check_named(check, build, truth, samples):
    names = check_names(check, build, [(sample, sample.count) for sample in samples
                                       if sample.type == batches.CPU], "samples")
    named = sum(count for name, count in names.items() if name in truth["leaves"])
    print(f"        others: {[entry for entry in names.most_common() if '_leaf_' not in entry[0]]}")
    for leaf, cpu_ns in truth["leaves"].items():
        expected = HZ * cpu_ns / 1e9
        allowed = STANDARD_ERRORS * math.sqrt(expected) + ERROR_SHARE * expected
        check(abs(names[leaf] - expected) <= allowed,
              f"'{leaf}': {names[leaf]} samples, its CPU time predicts {expected:.1f} ± "
              f"{allowed:.1f}")
    expected = HZ * sum(truth["leaves"].values()) / 1e9
    print(f"        all leaves: {named} samples, {expected:.0f} predicted "
          f"({100 * named / expected:.1f} %)")


def check_waits(check, build, truth, samples):
    """The truth is time around the wait: it holds the way into the kernel and out of it, too."""
    blocked = [sample for sample in samples if sample.type == batches.OFF_CPU]
    names = check_names(check, build, [(sample, sample.value) for sample in blocked],
                        "blocked nanoseconds")
    for wait, waited_ns in truth["waits"].items():
        check(abs(names[wait] - waited_ns) <= WAIT_TOLERANCE * waited_ns,
              f"'{wait}': {names[wait] / 1e9:.4f} s blocked of the {waited_ns / 1e9:.4f} s it took")


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    processes = 10000 if full() else 2000
    truth, samples = take(build, processes)
    check(truth["code"] == 0, f"the agent ended with {truth['code']}")
    check(truth["executed"] + truth["forked"] == processes,
          f"{truth['executed']} programs executed, {truth['forked']} children without an exec")
    check_resolved(check, samples)
    check_named(check, build, truth, samples)
    check_waits(check, build, truth, samples)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
