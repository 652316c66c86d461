#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""boot.py --series 6.1 --part off_cpu --build DIR --cache DIR: boots Debian's newest cloud kernel
of the series with our programs on it and judges what they report (guest.sh)."""

import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile

import guest
import kernel

SKIP = 77
LIMIT_S = 1000  # some 100 s on an idle host
TAIL_LINES = 40
PRINTED_MAX = 4000  # characters of stacks

TREE = "server_loop;"
PATHS = [TREE + path for path in (
    "do_query;parse_row;leaf_tokenize", "do_query;parse_row;leaf_unescape",
    "do_query;index_row;leaf_compare", "do_query;index_row;leaf_hash",
    "do_ingest;leaf_io", "do_ingest;leaf_alloc")]
SLEEPS = {  # kind of sleep: the kernel's part of the stack
    "nanosleep": "nanosleep", "futex": "futex", "pipe": "pipe_read", "poll": "poll"}
RAW_FRAME = re.compile(r"[0-9a-f]{40}\+0x[0-9a-f]+(_\[k\])?")
HOOKS = {  # the setting's word: what the daemon's log says, and how it is told to people
    "way_out": "on the way out", "fexit": "at the end of schedule",
    "irq_work": "in an interrupt of our own"}
# Of the time that a program measured. An emulated CPU stops, what happened meanwhile then comes at
# once, and the brake lets chance into the estimate; more of it into that of one kind of waits.
OFF_CPU_SHARE = 0.1
KIND_SHARE = 0.2
CROWD, CROWD_S = 4, 2  # threads, and how long each works: by_hook in guest.sh
BLOCKED_S = 2  # the snapshot's length in blocked_throughout of guest.sh
ASLEEP_HOOK = "irq_work"  # whose daemon sees the machine fall asleep
ASLEEP_RUN_S = 4  # how long the threads wait in `asleep` of guest.sh
CPU_HZ = 99
# Of the samples that a load is due. An emulated CPU that its host lets wait loses ticks; one
# that is no longer sampled gives none.
RESUMED = 0.1


class Report:
    """The machine's sections, and what is expected of them."""

    def __init__(self, sections):
        self.sections = sections
        self.failures = 0

    def check(self, holds, sentence):
        print(("ok    " if holds else "FAIL  ") + sentence, flush=True)
        self.failures += not holds

    def text(self, name):
        return self.sections[name].text if name in self.sections else ""

    def ran(self, name, sentence):
        """The section's command ended with 0; otherwise shows what it said."""
        section = self.sections.get(name)
        holds = section is not None and section.status == 0
        self.check(holds, sentence)
        if not holds:
            print(section.text if section else f"(no section '{name}')")

    def stacks(self, name):
        """[(frames root first, value)]"""
        lines = [line.rpartition(" ") for line in self.text(name).splitlines() if line]
        return [(stack.split(";"), int(value)) for stack, _, value in lines if value.isdigit()]


def on_path(stacks, path):
    return [(frames, value) for frames, value in stacks if f";{path};" in f";{';'.join(frames)};"]


def total(stacks):
    return sum(value for _, value in stacks)


def check_programs(report):
    report.ran("verifier", "every BPF program loads within the verifier's budget")
    report.check("sched_exit_tp: no; fexit: yes" in report.text("verifier"),
                 "with the program at the end of schedule, which this kernel takes")
    report.ran("testrun", "the BPF programs do what they should in test runs")
    print("\n".join(line for line in report.text("verifier").splitlines() if "verified" in line))
    report.ran("unwind", "walks by unwind tables are as the C library has them")
    report.ran("unwind_file", "and so they are where only the kernel knows what is mapped")
    report.ran("balance", "the books balance for every source")
    report.ran("doctor", "agentctl doctor finds nothing that fails")
    doctor = report.text("doctor")
    report.check("PASS" in doctor and "FAIL" not in doctor, "no row of it says FAIL")
    print(doctor)


def check_complete(report, name):
    report.ran(f"{name}.summary", f"{name}: the snapshot is taken")
    summary = report.text(f"{name}.summary")
    complete = "User stacks: all complete." in summary and \
        "Frames that cannot be named" not in summary
    report.check(complete, f"{name}: all stacks complete, all frames in files with a build-ID")
    if not complete:
        print(summary)


def check_calltree(report):
    check_complete(report, "calltree")
    stacks = report.stacks("calltree.stacks")
    whole = total(stacks)
    for path in PATHS:
        value = total(on_path(stacks, path))
        report.check(value > 0, f"calltree: {value} of {whole} samples on '{path}'")
    inside = total(on_path(stacks, TREE.rstrip(";")))
    report.check(0.95 * whole <= inside, f"calltree: {inside} of {whole} under server_loop")
    kernel_side = [frames for frames, _ in on_path(stacks, PATHS[4])
                   if any(frame.endswith("_[k]") for frame in frames)]
    report.check(len(kernel_side) > 0, "calltree: leaf_io goes on in the kernel, with names")
    # Neither libc nor the vDSO comes with names of local functions; everything else here does.
    nameless = {frame for frames, _ in stacks for frame in frames
                if "+0x" in frame and not frame.startswith(("libc.so.6+", "[vdso]+"))}
    report.check(not nameless, f"calltree: every frame of our own has a name {nameless or ''}")


def check_raw(report):
    check_complete(report, "calltree_raw")
    frames = {frame for frames, _ in report.stacks("calltree_raw.stacks") for frame in frames[1:]}
    odd = {frame for frame in frames if not RAW_FRAME.fullmatch(frame)}
    report.check(frames and not odd,
                 f"calltree_raw: {len(frames)} frames, each a build-ID and an offset {odd or ''}")


def number(report, name, *keys):
    """A number of a JSON object that a section printed; NaN, which compares to nothing, when
    it is not there."""
    try:
        value = json.loads(report.text(name))
        for key in keys:
            value = value[key]
        return value
    except (ValueError, KeyError, TypeError):
        return float("nan")


def truth(report, name, *keys):
    return number(report, f"{name}.truth", *keys)


def passed_s(report, name):
    """What passed between two sections by the clock that goes on while the machine sleeps."""
    before, after = [float((report.text(f"{name}.{when}").split() or ["nan"])[0])
                     for when in ("before", "after")]
    return after - before


def check_within(report, what, value_ns, least_ns, most_ns, share=OFF_CPU_SHARE):
    report.check(least_ns * (1 - share) <= value_ns <= most_ns * (1 + share),
                 f"{what}: {value_ns / 1e9:.3f} s of {least_ns / 1e9:.3f} to {most_ns / 1e9:.3f} s")


def check_taken(report, name):
    report.ran(f"{name}.attached", f"{name}: a snapshot through the daemon begins")
    summary = report.text(f"{name}.summary")
    whole = "; 0 lost, " in summary and "Frames that cannot be named" not in summary
    report.check(whole, f"{name}: it loses no interval and all frames are in files with a build-ID")
    if not whole:
        print(summary, report.text(f"{name}.stacks")[:PRINTED_MAX], sep="\n")


def check_waits(report, name, blocked, *ready, frozen=False):
    """Each kind of wait has the time that the program measured; its thread is blocked on the right
    stack, and may be ready to run wherever it is. frozen: a signal may have taken it from there
    to where threads stand while the machine sleeps."""
    kinds = truth(report, name, "kinds")
    stacks = report.stacks(f"{name}.{blocked}")
    queued = [entry for section in ready for entry in report.stacks(f"{name}.{section}")]
    sums = [0, 0, 0]
    for kind in kinds if isinstance(kinds, list) else []:
        word, most = kind["kind"], kind["off_cpu_ns"]
        if word not in SLEEPS:
            continue
        waits = [entry for entry in stacks if f"wait_{word}" in entry[0]]
        right = [entry for entry in on_path(waits, f"sleep_driver_{word};wait_{word}")
                 if any(SLEEPS[word] in frame and frame.endswith("_[k]") for frame in entry[0])
                 or frozen and "__refrigerator_[k]" in entry[0]]
        least = most - kind["on_cpu_ns"] - kind["preempted_ns"]
        seen = total(waits) + total(on_path(queued, f"wait_{word}"))
        check_within(report, f"{name}: {kind['waits']} {word} waits, {kind['migrated']} of them "
                     "moved", seen, least, most, KIND_SHARE)
        report.check(total(right) == total(waits), f"{name}: blocked on the stack of wait_{word}, "
                     f"ending in the kernel's '{SLEEPS[word]}'")
        sums = [was + more for was, more in zip(sums, (seen, least, most))]
    report.check(sums[0] > 0, f"{name}: there are waits")
    check_within(report, f"{name}: all of them", *sums)


def check_waker(report, name):
    """What waits for the pipe is woken by its writer, and nothing else wakes it."""
    blocked = total(on_path(report.stacks(f"{name}.stacks.off_cpu"), "wait_pipe"))
    woken = on_path(report.stacks(f"{name}.stacks.waker"), "wait_pipe")
    by_writer = sum(value for frames, value in woken
                    if "sleep_driver_writer" in frames[frames.index("wait_pipe"):])
    check_within(report, f"{name}: woken by the writer", by_writer, blocked, blocked)
    report.check(by_writer == total(woken), f"{name}: by nobody else")


def check_crowd(report, name):
    """Its threads are not blocked, but at their start and end."""
    cpu_ns = truth(report, name, "cpu_ns")
    seen = total(on_path(report.stacks(f"{name}.stacks"), "spin_loop"))
    check_within(report, f"{name}: ready to run, not running", seen,
                 CROWD * CROWD_S * 1e9 - cpu_ns, CROWD * truth(report, name, "wall_ns") - cpu_ns)


def check_blocked(report, name):
    report.ran(f"{name}.summary", f"{name}: a snapshot of a thread that is blocked throughout")
    seen = total(on_path(report.stacks(f"{name}.stacks"), "wait_blocked"))
    check_within(report, f"{name}: the length of the window, no more than passed", seen,
                 BLOCKED_S * 1e9, passed_s(report, name) * 1e9, 0.01)


def check_asleep(report, name):
    """The program's clock stood still while the machine slept, and so must ours have: for the
    threads that wait again and again, and for the one that waits for them all the time."""
    clock = [float(line.split()[0]) for line in report.text(f"{name}.suspend").splitlines()
             if line[:1].isdigit()]
    slept_s = clock[1] - clock[0] if len(clock) == 2 else 0
    report.check(slept_s >= guest.ASLEEP_S, f"{name}: the machine sleeps for {slept_s:.1f} s")
    check_taken(report, name)
    check_waits(report, name, "stacks", frozen=True)
    seen = total([entry for entry in report.stacks(f"{name}.stacks")
                  if "sleeper_main" not in entry[0]])
    most_s = passed_s(report, name) - guest.ASLEEP_S
    report.check(ASLEEP_RUN_S * 1e9 <= seen <= most_s * 1e9, f"{name}: the first thread waits for "
                 f"{seen / 1e9:.3f} s of {most_s:.3f} s that the machine was awake")


def check_off_cpu(report):
    report.ran("threshold", "threshold sampling is unbiased with both hooks")
    print(report.text("threshold"))
    for hook, words in HOOKS.items():
        report.ran(f"{hook}.start", f"the daemon starts with stacks taken {words}")
        report.check(f"off-CPU: {hook}" in report.text(f"{hook}.log"), "and does take them there")
        check_taken(report, f"{hook}.sleeper")
        check_waits(report, f"{hook}.sleeper", "stacks")
        check_taken(report, f"{hook}.parts")
        check_waits(report, f"{hook}.parts", "stacks.off_cpu", "stacks.run_queue")
        check_waker(report, f"{hook}.parts")
        check_taken(report, f"{hook}.crowd")
        check_crowd(report, f"{hook}.crowd")
        check_blocked(report, f"{hook}.blocked")
        if hook == ASLEEP_HOOK:
            check_asleep(report, f"{hook}.asleep")
        status = report.text(f"{hook}.status").strip()
        report.check(status == "0", f"it ends cleanly when told to ({status})")


def check_daemon(report):
    report.ran("daemon.start", "the daemon starts")
    log = report.text("daemon.log")
    report.check("off-CPU: irq_work" in log,
                 "it takes off-CPU stacks in an interrupt of our own, the cheapest hook")
    status = report.text("daemon.status").strip()
    report.check(status == "0", f"it ends cleanly when told to ({status})")
    if report.failures:
        print(log)


def check_hotplug(report):
    report.ran("hotplug.attached", "hotplug: a snapshot through the daemon begins")
    report.ran("hotplug.toggle", "hotplug: CPU 1 leaves and comes back five times")
    report.ran("hotplug.pin", "hotplug: then a load is put on it")
    due = number(report, "hotplug.truth", "cpu_ns") / 1e9 * CPU_HZ
    seen = total(on_path(report.stacks("hotplug.stacks"), "spin_loop;spin_leaf"))
    report.check(seen >= RESUMED * due, f"hotplug: {seen} of the {due:.0f} samples it is due")
    if not seen >= RESUMED * due:
        print(report.text("hotplug.summary"))
    report.check(number(report, "hotplug.status", "cpus") == guest.CPUS,
                 "hotplug: the daemon samples both CPUs")
    balance = number(report, "hotplug.status", "balance_errors")
    report.check(balance == 0, f"hotplug: the books of every epoch balance ({balance} do not)")
    report.ran("events", "hotplug: process events of a CPU that came back arrive, none is lost")


PARTS = {
    "programs": (check_programs, check_calltree, check_raw, check_hotplug, check_daemon),
    "off_cpu": (check_off_cpu,)}


def tail(path, name):
    lines = path.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
    print(f"-- the end of the {name}:")
    print("\n".join(lines), flush=True)


def run(options, folder):
    package = kernel.fetch(options.series, options.cache)
    if package is None:
        print(f"SKIP: apt offers no cloud kernel of the series {options.series}")
        return SKIP
    loads = options.build / "tests/programs"
    programs = [options.build / path for path in (
        "agent/agentctl", "agent/fleetprof-agent", "tests/bpf/bpf_verifier",
        "tests/bpf/bpf_testrun", "tests/bpf/bpf_unwind_kernel", "tests/bpf/bpf_unwind_file",
        "tests/bpf/bpf_balance", "tests/bpf/bpf_threshold", "tests/kernels/kernels_events")] + [
            loads / name for name in ("calltree_fp", "sleeper", "spin", "blocked", "waits")]
    # What is started by its path, which is built in.
    kept = [options.build / "bpf/fleetprof_bpf/fleetprof_bpf.bpf.o"] + [
        loads / name for name in ("mixed.sh", "spin", "storm", "pingpong", "waits")]
    image = guest.build_image(
        folder / "root", pathlib.Path(__file__).with_name("guest.sh"), programs, kept,
        folder / "initrd")
    print(f"-- {package.name}", flush=True)
    console, reported = guest.boot(kernel.unpack_image(package, folder / "kernel"), image,
                                   options.part, folder, LIMIT_S)
    sections, ended = guest.sections(reported)
    report = Report(sections)
    report.check(ended, "the machine came to its end")
    report.check(report.text("uname").strip().startswith(options.series + "."),
                 f"its kernel is {report.text('uname').strip()}")
    for judge in PARTS[options.part]:
        judge(report)
    if report.failures:
        tail(folder / "qemu", "emulator's words")
        tail(console, "console")
        tail(reported, "report")
    if options.keep:
        shutil.copytree(folder, options.keep, dirs_exist_ok=True)
    return 1 if report.failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", required=True, help="such as 6.1")
    parser.add_argument("--part", choices=PARTS, required=True, help="of what guest.sh can do")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="of kernel packages")
    parser.add_argument("--keep", type=pathlib.Path, help="copy the machine and its words here")
    options = parser.parse_args()
    options.build = options.build.resolve()
    missing = [tool for tool in ("qemu-system-x86_64", "busybox", "cpio", "dpkg-deb", "apt-get")
               if not shutil.which(tool)]
    if missing:
        print(f"SKIP: {', '.join(missing)} not installed")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="kernels.") as folder:
        return run(options, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
