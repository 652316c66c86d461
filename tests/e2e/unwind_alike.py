#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file whose content changes although all that the kernel says of it stays: written to through a
shared mapping that was dirty before. Programs that live for milliseconds are walked by what is known
of a file, and none of them may be walked by the table of what the file was before: the other
build's table would find frames of a function that never runs."""

import mmap
import os
import shutil
import subprocess
import sys
import time

from control_agent import Folder, wait_for
from reference import Check, arguments, skip_unless_live
from watched import LIMIT_S, Watch

OLD_S = 3  # a file that has just changed is not believed to be what it was
KNOWN_RUNS, KNOWN_S = 20, "0.1"
SHORT_RUNS, SHORT_S = 300, "0.008"
DECOY = "decoy"  # of tests/programs/unwindalike.c
FEWEST = 100  # stacks, below which nothing is shown


def run(program, library, times, seconds):
    for _ in range(times):
        subprocess.run([program, library, seconds], check=True)


def stacks_of(watch, name):
    return [(frames, value) for frames, value in watch.stacks('{executable="%s"}' % name)
            if any(frame == "alike_inner" for frame in frames)]


def judged(stacks):
    """How many samples there are, how many of them are wrong, and how many whole."""
    wrong = sum(value for frames, value in stacks if DECOY in frames)
    right = sum(value for frames, value in stacks
                if frames[-1] == "alike_inner" and "worker" in frames and "main" in frames)
    return sum(value for _, value in stacks), wrong, right


def judge(check, stacks, what):
    total, wrong, right = judged(stacks)
    check(total >= FEWEST, f"{what}: {total} samples, {FEWEST} at least")
    check(wrong == 0, f"{what}: {wrong} have a frame that never was, {right} are whole")
    return right


def test(build, folder, check):
    programs = build / "tests" / "programs"
    place = folder / "memory"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    try:
        contents = [(programs / f"unwindalike_{words}.so").read_bytes() for words in (8, 64)]
        size = max(len(content) for content in contents)
        before, after = (content.ljust(size, b"\0") for content in contents)
        early, late = (shutil.copy(programs / "unwindalike", place / name)
                       for name in ("alike_early", "alike_late"))
        library = place / "library.so"
        library.write_bytes(before)
        with open(library, "r+b") as file, mmap.mmap(file.fileno(), size) as shared, \
                Watch(build, folder, {("cpu", "hz"): "499"}) as watch:
            for page in range(0, size, mmap.PAGESIZE):
                shared[page] = shared[page]
            time.sleep(OLD_S)
            run(early, library, KNOWN_RUNS, KNOWN_S)
            # Nobody can name functions of a build whose only file is overwritten.
            wait_for(lambda: judged(stacks_of(watch, "alike_early"))[0] >= FEWEST,
                     "the build is read while its file has it", LIMIT_S)
            said = os.stat(library)
            shared[:] = after
            run(late, library, SHORT_RUNS, SHORT_S)
            check(os.stat(library).st_ctime_ns == said.st_ctime_ns, "the kernel says the same of it")
            watch.settle()
            check(judge(check, stacks_of(watch, "alike_early"), "before") > 0, "it was known before")
            judge(check, stacks_of(watch, "alike_late"), "after")
    finally:
        subprocess.run(["umount", place], check=True)


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    with Folder() as folder:
        test(build, folder, check)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
