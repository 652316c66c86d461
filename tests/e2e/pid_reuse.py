#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two programs under one pid within one window never get each other's frames.

twin_a and twin_b (tests/programs/twin.c) lie at the same addresses, so that any mistake about
which of the two ran gives a frame of the other, not an address outside. reuse.c makes them take
turns in one pid: by exec in one process, as processes that are all given the same pid (clone3
with set_tid, so the pids of the host, which are those that the agent sees), and the same in a
pid namespace. Which of the two ran is told by the thread name that the kernel stamped on the
sample. The window is one for all, and drains are far apart, so that a pid has changed hands
many times before anything is resolved. The agent keeps the last 64 programs of one process
between two drains; what is beyond that it must give up and not guess, which is a case of its own.
With perf present every frame is also compared with the mappings it saw (see compile_storm.py).
"""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import batches
import witnessed
from elffile import elf
from processlog import ProcessLog
from reference import Agent, Check, arguments, full, skip_unless_live

HZ = 499
TWINS = ("twin_a", "twin_b")
MILLISECONDS = 7
# (way, drain interval, everything must resolve)
CASES = (("exec", "250ms", True), ("exec", "5s", False), ("pid", "3s", True),
         ("namespace", "3s", True))


def programs(build):
    return {name: elf(str(build / "tests" / "programs" / name)) for name in TWINS}


def check_twins(check, files):
    a, b = files.values()
    check(a.build_id != b.build_id and a.build_id and b.build_id and
          a.symbol("twin_a_spin")[0] == b.symbol("twin_b_spin")[0] and
          a.symbol("twin_a_exec")[0] == b.symbol("twin_b_never")[0] and
          a.symbol("twin_a_never")[0] == b.symbol("twin_b_exec")[0],
          "the functions of one lie where other functions of the other lie")


def take(build, way, drain_interval, rounds):
    """(truth, samples, witness' records, process log or None) of one way."""
    with tempfile.TemporaryDirectory(prefix="reuse.") as name:
        folder = pathlib.Path(name)
        log = None if ProcessLog.why_not() else ProcessLog(folder)
        with log or contextlib.nullcontext(), \
                Agent(build, "tests/programs/agent_witness",
                      {"FP_WITNESS": str(folder / "witness")},
                      **{"cpu-hz": HZ, "window-drain-interval": drain_interval,
                         "window-length": "1h"}) as agent:
            output = subprocess.run(
                [build / "tests" / "programs" / "reuse", way, str(rounds), str(MILLISECONDS)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
            code = agent.stop()
            if code != 0:
                raise RuntimeError(f"the agent ended with {code}:\n{agent.words()}")
            samples = [sample for batch in batches.spooled(agent.spool())
                       for sample in batch.samples]
        return json.loads(output), samples, witnessed.read(folder / "witness"), log


def check_samples(check, files, samples, whole):
    """Labels and frames against the thread name; the leaves, by name."""
    foreign, never = collections.Counter(), collections.Counter()
    for twin, file in files.items():
        mine = [sample for sample in samples if sample.labels["thread"] == twin]
        total, bad, reasons = batches.troubles(mine)
        leaves = collections.Counter()
        wrong, early = witnessed.other_executables(mine, twin)
        given_up = wrong.pop(f"'{twin}' under executable '[unknown]'", 0)
        foreign += wrong
        check(early <= witnessed.EARLY_SHARE * total,
              f"'{twin}': {early} of {total} in the kernel at the moment of an exec")
        for sample in mine:
            judge_sample((twin, file, files), sample, (foreign, never, leaves))
        check(leaves[f"{twin}_spin"] > 100,
              f"'{twin}' is seen at work in {leaves[f'{twin}_spin']} of its {total} samples")
        check(not whole or bad + given_up == 0,
              f"'{twin}': {bad} of {total} samples hold an unexplained frame, {given_up} have no "
              "executable")
        witnessed.report(reasons)
    check(not foreign, f"no frame or label of one under the other ({sum(foreign.values())})")
    witnessed.report(foreign)
    check(not never, "no sample in a function that was never called "
                     f"({sum(never.values())})")
    witnessed.report(never)


def judge_sample(whose, sample, counters):
    twin, file, files = whose
    foreign, never, leaves = counters
    first = True
    for frame in sample.frames:
        if frame.kind != batches.FILE:
            continue
        name = os.path.basename(frame.build.path)
        if name in files:
            if name != twin or frame.build.id != file.build_id:
                foreign[f"'{twin}' holds a frame of '{name}' ({frame.build.id})"] += sample.count
            functions = file.functions(file.address(frame.offset - (not first)))
            if f"{twin}_never" in functions:
                never[f"{twin}_never"] += sample.count
            if first and sample.type == batches.CPU:
                for function in functions:
                    leaves[function] += sample.count
        first = False


def check_records(check, truth, records, log, whole):
    """Every stack of the pid against what perf saw mapped in it then."""
    if log is None:
        print(f"        not compared with perf's mappings: {ProcessLog.why_not()}")
        return
    check(not log.lost, f"the reference is whole ({len(log.lost)} lost)")
    seen = witnessed.Judgement()
    generations = set()
    for record in records:
        generation = log.generation(record.pid, record.time_ns)
        if record.pid == truth["pid"] and generation:
            generations.add(generation.time_ns)
            seen.judge(record, generation)
    check(seen.right > 0 and not seen.wrong and not (whole and seen.missing),
          f"pid {truth['pid']}: {seen.right} of {seen.file_frames} frames in files, of "
          f"{len(generations)} programs with samples, are those of the program of that moment")
    witnessed.report(seen.wrong)
    witnessed.report(seen.missing, 2)


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    files = programs(build)
    check_twins(check, files)
    for way, drain_interval, whole in CASES:
        print(f"-- {way}, drained every {drain_interval}")
        truth, samples, records, log = take(build, way, drain_interval, 1000 if full() else 300)
        pids = {record.pid for record in records if record.comm in TWINS}
        check(pids == {truth["pid"]}, f"{truth['rounds']} programs ran under the pid "
                                      f"{truth['pid']} ({sorted(pids)} seen)")
        check_samples(check, files, samples, whole)
        check_records(check, truth, records, log, whole)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
