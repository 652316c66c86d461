#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No frame is found by rows of another build than the one that is there: libraries loaded and
unloaded over and over at the same addresses, one file replaced by other libraries while it is loaded
and while it is not, a program that becomes its sibling, children without exec, and code made where
a library was (tests/programs/unwindchurn.c). The truth is threefold: the reference at stopped
instants (unwindref), what the program puts down of which code is there, and who calls whom in it;
so every stack of it is judged, on the CPU and off it. A stack may be cut short where the agent
cannot know; it must never hold what is not so. That none is missing is told by the program's CPU
time, and by the number of stops."""

import collections
import os
import subprocess
import sys
import time

import unwindrun
import witnessed
from reference import Check, full, skip_unless_live
from unwindcalls import Code, Judgement, States
from unwindjudge import judge_kernel, judge_native

HZ = 499
WARM_S = 3
# Of the samples that the program's CPU time predicts, at the least and at the most. A tick that is
# late because the machine ran something else stands for those that it is late for.
CPU_SHARES = 0.75, 1.1
NATIVE_SHARE = 0.5  # at least; the others agree too, in that they end where nothing leads on
# Said to be whole because a frame pointer was 0, which is true of code that keeps frame pointers.
GUESSED_SHARE = 0.02
# share: of stacks, on the CPU and off it, that must be whole at the least. Here code is there for
# 0.5 to 60 ms, and what has just come is told of within 8 ms on a machine that has time for it.
Mode = collections.namedtuple("Mode", "name share")
MODES = [Mode("dlopen", 0.10), Mode("replace", 0.10), Mode("fork", 0.10), Mode("jit", 0.10),
         Mode("exec", 0.30)]


def files(build):
    """(programs, libraries)"""
    folder = (build / "tests" / "programs").resolve()
    return ([folder / f"unwindchurn_{number}" for number in (8, 9)],
            sorted(folder.glob("unwindchurn_lib_*.so")))


def finish(child):
    """CPU seconds of the program and of all its children."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"the program ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def run(options, mode, place):
    """((stops, tries), records, CPU seconds)"""
    programs, libraries = files(options.build)
    command = [programs[0], mode.name, str(options.seconds),
               *(programs[1:] if mode.name == "exec" else libraries)]
    with unwindrun.Watch(options, place, **{"cpu-hz": str(HZ)}) as watch:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=place,
                              env={**os.environ, "FP_CHURN_STATES": str(place / "states")}) as child:
            time.sleep(WARM_S)
            found = unwindrun.stop_threads(options.build, child.pid, place / "stops", 1000000,
                                           options.seconds - WARM_S - 0.5)
            cpu_s = finish(child)
    return found, watch.records, cpu_s


def judge_source(check, mode, source, judgement):
    count, whole = judgement.ends.total(), judgement.whole()
    check(count > 0 and whole >= mode.share * count,
          f"{mode.name}, {source}: {100 * whole / max(count, 1):.1f} % of {count} stacks are whole, "
          f"{100 * mode.share:.0f} % at least: {dict(judgement.ends)}")
    check(judgement.guessed <= GUESSED_SHARE * count,
          f"{mode.name}, {source}: {judgement.guessed} of them are said to be whole by a frame "
          f"pointer that is 0, and are not")
    check(judgement.pairs > 0 and not judgement.wrong,
          f"{mode.name}, {source}: {judgement.wrong.total()} of all {judgement.samples} hold what "
          f"is not so; {judgement.pairs} calls looked at, {judgement.by_pointer} stacks went by "
          f"frame pointers")
    witnessed.report(judgement.wrong)


def judge_stacks(check, options, mode, place, recorded):
    (stops, _), records, cpu_s = recorded
    programs, libraries = files(options.build)
    states, code = States(place / "states"), Code(programs + libraries)
    judgements = {source: Judgement(code, states, stops[0].begin_ns)
                  for source in ("cpu", "off_cpu")}
    for record in records:
        if record.pid in states:
            judgements[record.source].judge(record)
    expected, got = cpu_s * HZ, judgements["cpu"].samples
    check(CPU_SHARES[0] * expected <= got <= CPU_SHARES[1] * expected,
          f"{mode.name}: {got} samples of {cpu_s:.2f} s on the CPU, {expected:.0f} are due")
    for source, judgement in judgements.items():
        judge_source(check, mode, source, judgement)


def parse():
    parser = unwindrun.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60 if full() else 7,
                        help="of each kind of churn")
    return parser.parse_args()


def main():
    options = parse()
    skip_unless_live()
    check = Check()
    for mode in MODES:
        if options.names and mode.name not in options.names:
            continue
        print(f"-- {mode.name}")
        with unwindrun.folder(options, mode.name) as place:
            recorded = run(options, mode, place)
            stopped, records, _ = recorded
            judge_native(check, mode.name, stopped[0], NATIVE_SHARE)
            judge_kernel(check, mode.name, stopped, records, mode.share)
            judge_stacks(check, options, mode, place, recorded)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
