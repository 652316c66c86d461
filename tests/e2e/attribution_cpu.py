#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU samples of a program with a known call tree: with frame pointers every path is there
with its share of the work; without them the summary says so and names the build."""

import math
import re
import sys

from reference import (Check, arguments, full, skip_unless_live, snapshot, value_on)

STANDARD_ERRORS = 3
# A tick can hit the two instructions in which a function has no frame yet or no longer.
MISPLACED_SHARE = 0.005


def check_shares(check, truth, stacks):
    total = sum(value for _, value in stacks)
    if not check(total > 0, f"there are samples ({total})"):
        return
    for entry in truth["paths"]:
        share = entry["cpu_ns"] / truth["total_cpu_ns"]
        seen = value_on(stacks, entry["path"]) / total
        error = math.sqrt(share * (1 - share) / total)
        check(seen > 0 and abs(seen - share) <= STANDARD_ERRORS * error,
              f"'{entry['path']}' has {100 * seen:.2f} % of {total} samples, truth "
              f"{100 * share:.2f} %, {(seen - share) / error:+.2f} standard errors")


def check_parents(check, truth, stacks):
    """No leaf under another caller than its own."""
    total = sum(value for _, value in stacks)
    misplaced = 0
    for entry in truth["paths"]:
        leaf = entry["path"].split(";")[-1]
        under_any = sum(value for frames, value in stacks if leaf in frames)
        misplaced += under_any - value_on(stacks, entry["path"])
    check(misplaced <= MISPLACED_SHARE * total,
          f"{misplaced} of {total} samples have a leaf without its callers")


def names_build(text, build_id, name):
    """The line below "stopped in code without frame pointers" that names file and build-ID."""
    listing = text.partition("stopped in code without frame pointers")[2]
    for line in listing.splitlines():
        match = re.search(rf"\b{name} \(build ([0-9a-f]{{8,}})\)", line)
        if match and build_id.startswith(match.group(1)):
            return line.strip()
    return None


def build_id(path):
    """The GNU build-ID in a program file: the note's owner and type stand before it."""
    header = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
    data = path.read_bytes()
    start = data.index(header) + len(header)
    return data[start : start + 20].hex()


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    seconds, rates = (30, ("99", "199")) if full() else (8, ("199",))
    programs = build / "tests" / "programs"

    for hz in rates:
        for threads in ("1", "2"):
            print(f"-- calltree_fp, {threads} threads, {hz} Hz, {seconds} s")
            truth, stacks, errors = snapshot(build, "calltree_fp", ["--threads", threads],
                                             seconds, "--cpu", "--hz", hz)
            check_shares(check, truth, stacks)
            check_parents(check, truth, stacks)
            blamed = names_build(errors, build_id(programs / "calltree_fp"), "calltree_fp")
            check(blamed is None, f"the summary does not blame calltree_fp ({blamed})")

    print("-- calltree_nofp")
    truth, stacks, errors = snapshot(build, "calltree_nofp", [], 5, "--cpu", "--hz", "199")
    total = sum(value for _, value in stacks)
    whole = sum(value_on(stacks, entry["path"]) for entry in truth["paths"])
    check(whole < total / 2, f"without frame pointers {whole} of {total} stacks are whole: "
                             "the reference really has none")
    blamed = names_build(errors, build_id(programs / "calltree_nofp"), "calltree_nofp")
    if not check(blamed is not None, f"the summary names the build: {blamed}"):
        print(errors)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
