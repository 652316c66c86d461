#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compile storm: short gcc processes (driver, cc1, as) on all CPUs. Every frame must say
where it was, and say the truth.

Where the truth comes from. The agent's own samples are the only ones taken at these moments, so
a second profiler beside it could only be compared by distributions. Instead the agent runs with
a witness (tests/programs/witness.c) that writes down the raw addresses, process and moment of
each stack as the kernel gave them, and what the unchanged agent made of it. The rest is the
test's own: perf, with rings and a reader of its own, records each fork, exec and mapping of the
host on the same clock; from these the test finds the file and the offset of each address; the
build-ID and the functions it reads from the file on disk with its own ELF reader
(elffile.py). Nothing of the agent's process table, resolver or symbolizer takes part in that.
  * frame by frame: build-ID and file offset are those of the reference, and the product's
    symbolizer names a function that covers the place in the file's own symbol table;
  * the batches in the spool, read by the test's own decoder: how many samples hold a frame that
    explains nothing (error, anonymous memory, build without an id).
FP_TEST_FULL makes it 60 s. The agent's CPU time is printed (with the witness's writing in it);
bench/compare.py storm measures the agent as it is.
"""

import collections
import os
import pathlib
import re
import sys
import tempfile

import batches
import witnessed
from processlog import ProcessLog
from reference import Agent, Check, Program, arguments, full, skip, skip_unless_live

HZ = 499
DRAIN_S = 2
RIGHT_SHARE = 0.999
UNEXPLAINED_SHARE = 0.001
# What had begun before the agent and ended before it was read is not known by name; that none
# of the storm's is among it, the frame by frame comparison shows.
COMPILER = re.compile(r"storm|(.*-)?gcc(-\d+)?|cc1|(.*-)?as")


def family_cpu_s(pid):
    """CPU seconds of a process and all that descend from it."""
    total, waiting = 0, [pid]
    while waiting:
        member = waiting.pop()
        stat = pathlib.Path(f"/proc/{member}/stat").read_text()
        total += sum(map(int, stat[stat.rindex(")") + 2 :].split()[11:15]))
        waiting += map(int, pathlib.Path(
            f"/proc/{member}/task/{member}/children").read_text().split())
    return total / os.sysconf("SC_CLK_TCK")


def take(build, folder, seconds):
    """Runs everything; (process log, storm's truth, witness file, batches)."""
    output = folder / "witness"
    with ProcessLog(folder) as log, \
            Agent(build, "tests/programs/agent_witness", {"FP_WITNESS": str(output)},
                  **{"cpu-hz": HZ, "window-drain-interval": f"{DRAIN_S}s"}) as agent:
        with Program(build, "storm", "--seconds", str(seconds)) as storm:
            cpu = family_cpu_s(agent.pid)
            truth = storm.work()
            cpu = family_cpu_s(agent.pid) - cpu
            storm.leave()
        code = agent.stop()
        truth.update(agent_cpu_s=cpu, agent_code=code, said=agent.words())
        spool = list(batches.spooled(agent.spool()))
    return log, truth, witnessed.read(output), spool


def check_frames(check, build, log, truth, records):
    family = log.family(truth["pid"])
    judgement = {source: witnessed.Judgement() for source in ("cpu", "off_cpu")}
    for record in records:
        if any(birth <= record.time_ns for birth in family.get(record.pid, ())):
            judgement[record.source].judge(record, log.generation(record.pid, record.time_ns))
    for source, seen in judgement.items():
        print(f"-- {source}: {seen.samples} samples in the storm's {len(family)} processes")
        share = seen.right / seen.file_frames if seen.file_frames else 0
        check(share >= RIGHT_SHARE,
              f"{100 * share:.3f} % of {seen.file_frames} file-backed user frames have the "
              "build-ID and offset of the reference")
        witnessed.report(seen.wrong)
        witnessed.report(seen.missing)
        covered, wrong, other = witnessed.misnamed(build, seen.places)
        share = 1 - sum(wrong.values()) / covered if covered else 0
        check(share >= RIGHT_SHARE, f"{100 * share:.3f} % of the {covered} that a symbol of the "
                                    "file covers are named after it")
        witnessed.report(wrong)
        check(sum(other.values()) <= (1 - RIGHT_SHARE) * seen.file_frames,
              f"{sum(other.values())} have a name where the file has no symbol")
        witnessed.report(other)
        bad = sum(seen.unexplained.values())
        check(bad <= UNEXPLAINED_SHARE * seen.samples,
              f"{bad} of {seen.samples} samples have an unexplained user frame")
        witnessed.report(seen.unexplained)
    return judgement


def check_batches(check, spool):
    for kind, name in ((batches.CPU, "cpu"), (batches.OFF_CPU, "off_cpu")):
        samples = [sample for batch in spool for sample in batch.samples if sample.type == kind]
        storm = [sample for sample in samples if COMPILER.fullmatch(sample.labels["executable"])]
        for whose, which in (("compiler's", storm), ("host's", samples)):
            total, bad, reasons = batches.troubles(which)
            sentence = f"{name}: {bad} of the {whose} {total} samples in the batches hold an " \
                       "unexplained frame"
            if which is storm:
                check(total > 0 and bad <= UNEXPLAINED_SHARE * total, sentence)
            else:
                print("        " + sentence)
            witnessed.report(reasons)


def main():
    build = arguments().build
    skip_unless_live()
    if ProcessLog.why_not():
        skip(ProcessLog.why_not())
    check = Check()
    seconds = 60 if full() else 20
    with tempfile.TemporaryDirectory(prefix="storm.") as name:
        log, truth, records, spool = take(build, pathlib.Path(name), seconds)
    print(f"-- {truth['compiles']} compiles in {truth['wall_ns'] / 1e9:.1f} s; the agent with its "
          f"witness took {truth['agent_cpu_s']:.2f} CPU-seconds, "
          f"{100 * truth['agent_cpu_s'] / (truth['wall_ns'] / 1e9):.2f} % of one CPU at {HZ} Hz")
    check(truth["agent_code"] == 0, f"the agent ended with {truth['agent_code']}")
    lost = {kind: sum(batch.quality.get(kind, {}).get("sideband_lost", 0) for batch in spool)
            for kind in (batches.CPU, batches.OFF_CPU)}
    print(f"        process events that the agent lost: {lost[batches.CPU]}")
    check(not log.lost, f"the reference is whole ({len(log.lost)} lost, {log.odd} not understood; {log.said})")
    judgement = check_frames(check, build, log, truth, records)
    seen = judgement["cpu"]
    check(seen.samples >= 2000,
          f"there is something to judge: {seen.samples} samples")
    programs = collections.Counter()
    for (_, _, _, path), count in seen.places.items():
        programs[os.path.basename(path)] += count
    check("cc1" in programs and any(name.endswith("as") for name in programs),
          f"of {dict(programs.most_common(8))}")
    check_batches(check, spool)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
