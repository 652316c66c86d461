#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No frame is found by rows of another build than the one that is there: libraries loaded and
unloaded over and over at the same addresses, a program that becomes its sibling, children without
exec, and code made where a library was (tests/programs/unwindchurn.h). The truth is twofold: the
reference at stopped instants (unwindref), and for every other stack, on the CPU and off it, who
calls whom in these programs. A stack may be cut short where the agent cannot know; it must never
hold what is not so."""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import unwindstops
import witnessed
from batches import FILE
from elffile import elf
from reference import Agent, Check, full, skip_unless_live
from unwindjudge import WHOLE_ENDS, judge_kernel, judge_native

WARM_S = 4
AGREE_SHARE = 0.5  # at least; code that has just come has no table yet
LEAST_PAIRS = 200  # of caller and called that were looked at
# Who may call a function of ours; N stands for the same number in both. JITed code is in between
# where it was made: it calls churn_spin and is called by churn_work.
CALLERS = {"churn_spin": ("churn_middle_N", "[made]"), "churn_middle_N": ("churn_enter_N",),
           "churn_enter_N": ("churn_work",), "[made]": ("churn_work",)}


def libraries(folder):
    return sorted(folder.glob("unwindchurn_lib_*.so"))


def commands(folder, seconds):
    """{mode: command}."""
    programs = [folder / f"unwindchurn_{number}" for number in (8, 9)]
    modes = {mode: libraries(folder) for mode in ("dlopen", "fork", "jit")}
    return {mode: [programs[0], mode, str(seconds), *arguments] for mode, arguments in
            {**modes, "exec": programs[1:]}.items()}


def function_of(frame, leaf):
    """A name of ours, "[made]" for anonymous memory, None for what is not ours."""
    if frame.kind != FILE:
        return "[made]" if frame.kind == 6 else None
    file = elf(frame.name)
    if file is None or file.build_id != frame.id or "unwindchurn_" not in frame.name:
        return None
    address = file.address(frame.offset - (not leaf))
    names = {name for name in file.functions(address) if re.match(r"churn_\w+_\d+$|churn_[a-z]+$",
                                                                  name)}
    numbered = sorted(names, key=len)
    return numbered[-1] if numbered else None


def may_call(caller, called):
    number = (re.search(r"_\d+$", called) or [""])[0]
    for name in CALLERS[called.replace(number, "_N") if number else called]:
        if caller is not None and (caller == name.replace("_N", number) if number else
                                   re.fullmatch(name.replace("[", r"\[").replace("_N", r"_\d+"),
                                                caller)):
            return True
    return False


def rules_name(name):
    return re.sub(r"_\d+$", "_N", name) if name else None


class CallJudgement:
    """Each pair of a function of ours and what a stack says called it, where tables found all of
    the stack: a frame pointer's word, in code that keeps none, was never to be believed."""

    def __init__(self):
        self.pairs = self.whole = self.stacks = self.by_pointer = 0
        self.wrong = collections.Counter()

    def judge(self, record):
        if record.by_table < len(record.addresses) - 1:
            self.by_pointer += 1
            return
        names = [function_of(frame, index == 0) for index, frame in enumerate(record.frames)]
        self.stacks += any(names)
        self.whole += any(names) and record.end in WHOLE_ENDS
        for called, caller, frame in zip(names, names[1:], record.frames[1:]):
            if rules_name(called) in CALLERS:
                self.pairs += 1
                if not may_call(caller, called):
                    self.wrong[f"{called} called by {caller or frame}"] += 1


def judge_calls(check, mode, records):
    for source in ("cpu", "off_cpu"):
        judgement = CallJudgement()
        for record in records:
            if record.source == source:
                judgement.judge(record)
        check(judgement.pairs >= LEAST_PAIRS,
              f"{mode}, {source}: {judgement.pairs} calls looked at in {judgement.stacks} stacks, "
              f"{judgement.whole} of them whole; {judgement.by_pointer} more went by frame pointers")
        check(not judgement.wrong, f"{mode}, {source}: {judgement.wrong.total()} are not so")
        witnessed.report(judgement.wrong)


def run(options, mode, command, folder):
    output, witness = folder / "stops", folder / "witness"
    settings = {"cpu-hz": "499", "off-cpu-walk-budget": "1000000", "window-drain-interval": "1s",
                **dict(pair.split("=", 1) for pair in options.set)}
    with Agent(options.build, "tests/programs/agent_witness", {"FP_WITNESS": str(witness)},
               **settings) as agent:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:
            time.sleep(WARM_S)
            with open(output, "wb") as file:
                subprocess.run([options.build / "tests" / "programs" / "unwindref", "--tree",
                                str(child.pid), "--seconds", str(options.seconds - WARM_S - 1),
                                "--stops", "1000000"], stdout=file, check=True)
            code = child.wait(60)
        agent.stop()
    if code != 0:
        raise RuntimeError(f"{mode}: the program ended with {code}")
    return unwindstops.read(output), witnessed.read(witness)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60 if full() else 12)
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE",
                        help="a setting of the agent, as its flag is spelled without dashes")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what was recorded")
    parser.add_argument("modes", nargs="*", help="default: all")
    return parser.parse_args()


def main():
    options = parse()
    skip_unless_live()
    check = Check()
    for mode, command in commands(options.build / "tests" / "programs", options.seconds).items():
        if options.modes and mode not in options.modes:
            continue
        print(f"-- {mode}")
        with tempfile.TemporaryDirectory(prefix="churn.") as name:
            folder = options.keep / mode if options.keep else pathlib.Path(name)
            folder.mkdir(parents=True, exist_ok=True)
            (stops, tries), records = run(options, mode, command, folder)
        judge_native(check, mode, stops, AGREE_SHARE)
        judge_kernel(check, mode, tries, records, AGREE_SHARE)
        judge_calls(check, mode, records)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
