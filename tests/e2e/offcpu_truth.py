#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Known sleeps appear as off-CPU time of the right length on the right stack, also when the
sleepers are moved between CPUs, whichever hook closes the intervals. The right length lies between
all the time that a wait took and that without what the thread spent on a CPU or preempted."""

import os
import pathlib
import sys

from reference import Agent, Check, arguments, full, skip_unless_live, snapshot, value_on

TOLERANCE = 0.01
LOST_NONE = "; 0 lost."  # in the snapshot's summary: intervals dropped, or found unclosed
KINDS = ("nanosleep", "futex", "pipe", "poll")
HOOKS = ("sched_exit_tp", "way_out")
KERNEL_SIDE = {  # a kernel function that must be on the stack above the wait
    "nanosleep": "nanosleep", "futex": "futex", "pipe": "pipe_read", "poll": "poll"}


def check_kind(check, entry, stacks):
    kind, most = entry["kind"], entry["off_cpu_ns"]
    other = entry["on_cpu_ns"] + entry["preempted_ns"]
    path = f"sleep_driver_{kind};wait_{kind}"
    seen = value_on(stacks, path)
    check(most - other - TOLERANCE * most <= seen <= most + TOLERANCE * most,
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


def offered(hook):
    """sched_exit_tp came with 6.16."""
    return hook != "sched_exit_tp" or \
        b"btf_trace_sched_exit_tp" in pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes()


def check_run(check, build, seconds, migrate, agent=None):
    failures = check.failures
    truth, stacks, words = snapshot(build, "sleeper", ["--migrate"] if migrate else [], seconds,
                                "--off-cpu", agent=agent)
    kinds = {entry["kind"]: entry for entry in truth["kinds"]}
    for kind in KINDS:
        check_kind(check, kinds[kind], stacks)
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

    for hook in HOOKS:
        if not offered(hook):
            print(f"-- this kernel has no {hook}")
            continue
        with Agent(build, **{"off-cpu-hook": hook}) as agent:
            for migrate in (False, True):
                print(f"-- {hook}, {'moved between CPUs' if migrate else 'left alone'}")
                check_run(check, build, seconds, migrate, agent)
    print("-- agentctl alone, moved between CPUs")
    check_run(check, build, seconds, True)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
