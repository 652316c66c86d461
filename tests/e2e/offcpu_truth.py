#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Known sleeps appear as off-CPU time of the right length on the right stack, also when the
sleepers are moved between CPUs, whichever hook closes the intervals. The right length lies between
all the time that a wait took and that without what the thread spent on a CPU or preempted."""

import os
import pathlib
import re
import sys

from reference import Agent, Check, arguments, full, skip_unless_live, snapshot, value_on

TOLERANCE = 0.01
LOST_NONE = "; 0 lost, "  # in the snapshot's summary
# On some virtual machines the kernel tells no program of some switches (docs/decisions.md, 14): the
# summary says of how many intervals the end was not seen, but not of which stacks they were.
NOT_CLOSED = re.compile(r"([\d,]+) \(not closed\)")
LONGEST_WAIT = 1.5  # of the mean: sleeper's wait_length
KINDS = ("nanosleep", "futex", "pipe", "poll")
HOOKS = ("irq_work", "sched_exit_tp", "fexit", "way_out")
KERNEL_SIDE = {  # a kernel function that must be on the stack above the wait
    "nanosleep": "nanosleep", "futex": "futex", "pipe": "pipe_read", "poll": "poll"}


class Unseen(Exception):
    """A wait has too little, but no more is missing than the summary says was not seen."""


def judge_missing(entry, seen, least, words):
    found = NOT_CLOSED.search(words)
    intervals = int(found[1].replace(",", "")) if found else 0
    if seen < least <= seen + intervals * LONGEST_WAIT * entry["off_cpu_ns"] / entry["waits"]:
        raise Unseen(f"wait_{entry['kind']}: {least - seen:.0f} ns too few, "
                     f"{intervals} intervals not closed")


def check_kind(check, entry, stacks, words):
    kind, most = entry["kind"], entry["off_cpu_ns"]
    other = entry["on_cpu_ns"] + entry["preempted_ns"]
    path = f"sleep_driver_{kind};wait_{kind}"
    seen = value_on(stacks, path)
    least = most - other - TOLERANCE * most
    judge_missing(entry, seen, least, words)
    check(least <= seen <= most + TOLERANCE * most,
          f"'{path}': {seen / 1e9:.4f} s of {most / 1e9:.4f} s, "
          f"{100 * (seen / most - 1):+.3f} %, {entry['waits']} waits, "
          f"{entry['migrated']} ended on another CPU; on one {entry['on_cpu_ns'] / 1e9:.4f} s, "
          f"preempted {entry['preempted_ns'] / 1e9:.4f} s at most")
    elsewhere = sum(value for frames, value in stacks if f"wait_{kind}" in frames) - seen
    check(elsewhere == 0, f"no time of 'wait_{kind}' on another stack ({elsewhere} ns)")
    kernel = sum(value for frames, value in stacks if f"wait_{kind}" in frames
                 and any(KERNEL_SIDE[kind] in frame and frame.endswith("_[k]")
                         for frame in frames))
    check(kernel == seen, f"all of it with the kernel's '{KERNEL_SIDE[kind]}' above")


def agent_with(build, hook):
    """None where the kernel does not offer the hook: sched_exit_tp came with 6.16, and fexit is
    refused by a lockdown and by kernels without trampolines (tests/kernels has one that takes
    it). Every kernel has way_out."""
    if hook == "sched_exit_tp" and \
            b"btf_trace_sched_exit_tp" not in pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes():
        return None
    try:
        return Agent(build, **{"off-cpu-hook": hook})
    except RuntimeError as error:
        if hook != "fexit" or "off_cpu.hook = fexit" not in str(error):
            raise
        print(error)
        return None


def check_run(check, build, seconds, migrate, agent=None):
    try:
        check_once(check, build, seconds, migrate, agent)
    except Unseen as unseen:
        print(f"-- again: {unseen}", flush=True)
        try:
            check_once(check, build, seconds, migrate, agent)
        except Unseen as again:
            check(False, f"twice: {again}")


def check_once(check, build, seconds, migrate, agent):
    failures = check.failures
    truth, stacks, words = snapshot(build, "sleeper", ["--migrate"] if migrate else [], seconds,
                                "--off-cpu", agent=agent)
    kinds = {entry["kind"]: entry for entry in truth["kinds"]}
    for kind in KINDS:
        check_kind(check, kinds[kind], stacks, words)
    moved = sum(kinds[kind]["migrated"] for kind in KINDS)
    if migrate and len(os.sched_getaffinity(0)) > 1:
        check(moved > 10, f"the sleepers really moved ({moved} waits)")
    check(LOST_NONE in words, "the snapshot lost no interval")
    if check.failures > failures:
        print(f"-- the snapshot said\n{words}")


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    seconds = 40 if full() else 6

    ran = []
    for hook in HOOKS:
        agent = agent_with(build, hook)
        if not agent:
            print(f"-- this kernel has no {hook}")
            continue
        with agent:
            for migrate in (False, True):
                print(f"-- {hook}, {'moved between CPUs' if migrate else 'left alone'}")
                check_run(check, build, seconds, migrate, agent)
        ran.append(hook)
    print("-- agentctl alone, moved between CPUs")
    check_run(check, build, seconds, True)
    print(f"-- hooks that this kernel has: {', '.join(ran)}")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
