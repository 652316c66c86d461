#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU samples of a program with a known call tree: every path is there with its share of the work,
built with frame pointers, with those but for leaves, or without any; the function that ends in a
tail call is not there. Without unwind tables a frameless leaf loses its caller, and code without
frame pointers all of them, which the summary says, naming the build."""

import math
import re
import sys

from reference import (Agent, Check, arguments, full, skip_unless_live, snapshot, value_on)

STANDARD_ERRORS = 3
# In the further runs, with tables: so many comparisons would go beyond three by chance too often.
STANDARD_ERRORS_MORE = 4
# A tick can hit the two instructions in which a function has no frame yet or no longer.
MISPLACED_SHARE = 0.005
TAIL_CALLED = "hand_over"


def check_shares(check, truth, stacks, most):
    total = sum(value for _, value in stacks)
    if not check(total > 0, f"there are samples ({total})"):
        return
    for entry in truth["paths"]:
        share = entry["cpu_ns"] / truth["total_cpu_ns"]
        seen = value_on(stacks, entry["path"]) / total
        error = math.sqrt(share * (1 - share) / total)
        check(seen > 0 and abs(seen - share) <= most * error,
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


def judge(check, truth, stacks, most=STANDARD_ERRORS):
    check_shares(check, truth, stacks, most)
    check_parents(check, truth, stacks)
    seen = sum(value for frames, value in stacks if TAIL_CALLED in frames)
    check(seen == 0, f"{TAIL_CALLED}, which jumps to its callee, is in no stack ({seen})")


def by_pointers(check, build, name, seconds, hz, *options):
    print(f"-- {name} {' '.join(options)}, {hz} Hz, {seconds} s")
    truth, stacks, errors = snapshot(build, name, options, seconds, "--cpu", "--hz", hz)
    judge(check, truth, stacks)
    blamed = names_build(errors, build_id(build / "tests" / "programs" / name), name)
    check(blamed is None, f"the summary does not blame {name} ({blamed})")


def with_tables(check, build, agent, name, seconds, hz):
    """Every path is there, whatever the program keeps in its registers."""
    print(f"-- {name} with unwind tables, {hz} Hz, {seconds} s")
    truth, stacks, errors = snapshot(build, name, [], seconds, "--cpu", "--hz", hz, agent=agent)
    judge(check, truth, stacks, STANDARD_ERRORS_MORE)
    blamed = names_build(errors, build_id(build / "tests" / "programs" / name), name)
    check(blamed is None, f"the summary does not blame {name} ({blamed})")


def leaf_without_tables(check, build, agent):
    """What tables are for, also where frame pointers are kept: the caller of a frameless leaf."""
    print("-- calltree_leaf, without tables")
    truth, stacks, _ = snapshot(build, "calltree_leaf", [], 5, "--cpu", "--hz", "199",
                                agent=agent)
    total = sum(value for _, value in stacks)
    for leaf in ("leaf_tokenize", "leaf_unescape"):
        under = value_on(stacks, f"do_query;{leaf}")
        check(under > value_on(stacks, f"parse_row;{leaf}"),
              f"by frame pointers '{leaf}' has lost parse_row ({under} of {total})")
    leaf_truth = sum(value_on(stacks, entry["path"]) for entry in truth["paths"])
    check(leaf_truth < total / 2, f"{leaf_truth} of {total} paths are whole")


def nothing_without_tables(check, build, agent):
    print("-- calltree_nofp, without tables")
    truth, stacks, errors = snapshot(build, "calltree_nofp", [], 5, "--cpu", "--hz", "199",
                                     agent=agent)
    total = sum(value for _, value in stacks)
    whole = sum(value_on(stacks, entry["path"]) for entry in truth["paths"])
    check(whole < total / 2, f"without frame pointers {whole} of {total} stacks are whole: "
                             "the reference really has none")
    blamed = names_build(errors, build_id(build / "tests" / "programs" / "calltree_nofp"),
                         "calltree_nofp")
    if not check(blamed is not None, f"the summary names the build: {blamed}"):
        print(errors)


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    seconds, rates = (30, ("99", "199")) if full() else (8, ("199",))

    for hz in rates:
        for threads in ("1", "2"):
            by_pointers(check, build, "calltree_fp", seconds, hz, "--threads", threads)
    with Agent(build, **{"unwind-tables": "yes"}) as agent:
        for hz in rates:
            for name in ("calltree_leaf", "calltree_nofp"):
                with_tables(check, build, agent, name, seconds, hz)
    with Agent(build, **{"unwind-tables": "no"}) as agent:
        leaf_without_tables(check, build, agent)
        nothing_without_tables(check, build, agent)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
