#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole stacks of programs without frame pointers: bpftrace, bcc's profile, perf record
--call-graph dwarf and fleetprof, on the CPU profile of the same programs at the same rate.

  unwindcompare.py [--seconds 10] [--hz 99] [--rounds 1] [PROGRAM…]

Every tool watches the whole host, alone, while one program works. A user stack counts as whole
when its outermost frame lies where a process or thread begins: for each program those places are
learned first, from stacks that libdwfl walks to their end in stopped threads
(tests/programs/unwindref.c). A tool that reaches the C library's start code, which calls main, is
granted them too. Mappings come from a process log of our own, so that no tool's naming matters;
but bcc prints names alone, so there the names of that start code are looked for.
Bytes are what the tool leaves behind: perf.data, printed stacks, batches; per sample, and in all.
CPU is the tool's own, with what it does at its end; of perf that is recording, and the unwinding
by `perf script` beside it. What runs on the time of others (BPF programs, perf's copying of
stacks) is given where the kernel counts it. Needs root."""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import measure
import report
import tools

sys.path.append(str(tools.ROOT / "tests" / "e2e"))

import batches  # noqa: E402
import processlog  # noqa: E402
import unwindprograms  # noqa: E402
import unwindstops  # noqa: E402

ROOT_STOPS = 300
START_NAMES = re.compile(r"_start|__libc_start_\w+|start_thread|clone3?|__GI___clone\w*|thread_start")
# Frames at a whole stack's outer end that are start code: of the main thread main's caller, its
# caller and _start; of others the thread's start and clone3.
MAIN_ROOTS, THREAD_ROOTS = 3, 2


class Roots:
    """Where stacks of a program begin: {(path, offset)}."""

    def __init__(self, build, load, pid):
        self.places = set()
        with tempfile.NamedTemporaryFile(suffix=".stops") as file:
            subprocess.run([build / "tests" / "programs" / "unwindref", "--tree", str(pid),
                            "--executable", f"^({load.executables})$", "--stops", str(ROOT_STOPS),
                            "--running", "0.5"], stdout=file, stderr=subprocess.DEVNULL, check=True)
            for stop in unwindstops.read(file.name)[0]:
                self.add(stop)

    def add(self, stop):
        frames = stop.reference.frames
        if stop.reference.end != unwindstops.WHOLE or len(frames) < MAIN_ROOTS + 1:
            return
        rows = [stop.maps.at(address - 1) for address in frames[-MAIN_ROOTS:]]
        if any(row is None for row in rows):
            return
        # _start is the program's own; a thread begins in the C library.
        count = THREAD_ROOTS if "/libc." in rows[-1].path else MAIN_ROOTS
        for row, address in list(zip(rows, frames[-MAIN_ROOTS:]))[-count:]:
            self.places.add((os.path.realpath(row.path), address - row.start + row.offset))

    def holds(self, path, offset):
        """Some tools give a caller by its return address, some by the byte before."""
        path = os.path.realpath(path)
        return (path, offset) in self.places or (path, offset + 1) in self.places


class Stacks:
    """What a tool said of one program: samples with a user stack, and those that are whole."""

    def __init__(self):
        self.total = self.whole = self.frames = 0

    def add(self, whole, frames, count=1):
        self.total += count
        self.whole += count * bool(whole)
        self.frames += count * frames

    def share(self):
        return self.whole / self.total if self.total else None


def outermost(log, pid, time_ns, addresses):
    """(path, offset) of the outermost frame; time_ns None: of the process's last program."""
    generations = log.by_pid.get(pid)
    if not generations or not addresses:
        return "", 0
    generation = log.generation(pid, time_ns) if time_ns else generations[-1]
    moment = time_ns or 1 << 62
    place = generation.mapping(moment, addresses[-1] - 1) if generation else None
    return (place.path, addresses[-1] - place.start + place.page_offset) if place else ("", 0)


class Bpftrace(tools.Bpftrace):
    cpu_program = "profile:hz:%d { @[pid, comm, ustack(perf)] = count(); }"
    HEAD = re.compile(r"@\[(\d+), (.*), $")

    def stacks(self, process, log, family, roots):
        found, pid, addresses = Stacks(), 0, []
        for line in process.stdout_path.read_text(errors="replace").splitlines():
            head = self.HEAD.match(line)
            if head:
                pid, addresses = int(head.group(1)), []
            elif line.startswith("\t"):
                addresses.append(int(line.split()[0], 16))
            elif line.startswith("]: ") and pid in family and addresses:
                found.add(roots.holds(*outermost(log, pid, None, addresses)), len(addresses),
                          int(line[3:]))
        return found

    def written(self, process):
        return process.stdout_path.stat().st_size


class ProfileBpfcc(tools.ProfileBpfcc):
    """Folded: comm;outermost;…;innermost count, kernel frames marked and left out."""

    def start(self, folder):
        return measure.Process(["profile-bpfcc", "-F", str(self.cpu_hz), "-f", "-d", "-U"], folder,
                               {"BCC_KERNEL_SOURCE": self.header_folder()})

    def stacks(self, process, log, family, roots):
        found = Stacks()
        comms = {log.by_pid[pid][-1].comm for pid in family if log.by_pid.get(pid)}
        for line in process.stdout_path.read_text(errors="replace").splitlines():
            stack, _, count = line.rpartition(" ")
            comm, *frames = stack.split(";")
            frames = [frame for frame in frames if frame != "-"]
            if count.isdigit() and comm in comms and frames and "[Missed" not in frames[0]:
                found.add(any(START_NAMES.fullmatch(frame) for frame in frames[:2]), len(frames),
                          int(count))
        return found

    def written(self, process):
        return process.stdout_path.stat().st_size


class PerfDwarf(tools.Tool):
    name = "perf record --call-graph dwarf"
    needs = "perf"
    SAMPLE = re.compile(r"^\s*(-?\d+)\s+(\d+)\.(\d+):\s*$")

    def version(self):
        return subprocess.run(["perf", "--version"], capture_output=True, text=True).stdout.strip()

    def start(self, folder):
        self.data = folder / "perf.data"
        return measure.Process(["perf", "record", "-a", "-F", str(self.cpu_hz), "-e",
                                "cpu-clock:u", "-k", "CLOCK_MONOTONIC", "--call-graph", "dwarf",
                                "-o", self.data], folder)

    def wait_ready(self, process):
        time.sleep(2)

    def stacks(self, process, log, family, roots):
        before = os.times()
        text = subprocess.run(["perf", "script", "-i", self.data, "--ns", "--no-inline", "-F",
                               "pid,time,ip"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace").stdout
        after = os.times()
        self.script_cpu_s = after.children_user + after.children_system \
            - before.children_user - before.children_system
        found, pid, time_ns, addresses = Stacks(), 0, 0, []
        for line in [*text.splitlines(), ""]:
            head = self.SAMPLE.match(line)
            if head:
                pid, time_ns = int(head.group(1)), int(head.group(2)) * 10**9 + int(head.group(3))
                addresses = []
            elif line.strip():
                addresses.append(int(line.split()[0], 16))
            elif addresses:
                if pid in family:
                    found.add(roots.holds(*outermost(log, pid, time_ns, addresses)),
                              len(addresses))
                addresses = []
        return found

    def written(self, process):
        return self.data.stat().st_size


class Fleetprof(tools.Fleetprof):
    """The daemon, CPU profile; other samples of the host are in its batches too, as in theirs."""

    def start(self, folder):
        self.folder = folder
        return super().start(folder)

    def stacks(self, process, log, family, roots):
        found = Stacks()
        for batch in batches.spooled(self.folder / "spool"):
            for sample in batch.samples:
                frames = [frame for frame in sample.frames
                          if frame.kind not in (batches.KERNEL, batches.MODULE)]
                if sample.type != batches.CPU or not frames or \
                        not re.fullmatch(self.executables, sample.labels["executable"]):
                    continue
                last = frames[-1]
                found.add(last.kind == batches.FILE and roots.holds(last.build.path, last.offset),
                          len(frames), sample.count)
        return found

    def written(self, process):
        return sum(path.stat().st_size for path in (self.folder / "spool").glob("*.batch"))


def wait_ready(tool, process):
    if isinstance(tool, PerfDwarf):
        tool.wait_ready(process)
    else:
        process.wait_ready()
        time.sleep(1)


def measure_once(tool, build, load, roots, pid, seconds):
    """One tool over one program that is at work."""
    tool.executables = load.executables
    with tempfile.TemporaryDirectory(prefix="unwindcompare.") as name:
        folder = pathlib.Path(name)
        with processlog.ProcessLog(folder) as log:
            (folder / "tool").mkdir()
            process = tool.start(folder / "tool")
            try:
                wait_ready(tool, process)
                before = process.counters()
                time.sleep(seconds)
                ran = measure.counter_difference(before, process.counters())
            finally:
                process.stop()
        found = tool.stacks(process, log, log.family(pid), roots)
        return {"samples": found.total, "whole": found.share(),
                "depth": found.frames / max(found.total, 1),
                "bytes": tool.written(process), "cpu_s": process.cpu_total_s(),
                "script_cpu_s": getattr(tool, "script_cpu_s", None),
                "bpf_s": sum(counter["ns"] for counter in ran.values()) / 1e9 if ran else None}


def candidates(options):
    Fleetprof.build = options.build
    Fleetprof.settings = ("window.length=60s", "unwind.tables=yes", *options.set)
    return [Bpftrace(options.hz), ProfileBpfcc(options.hz), PerfDwarf(options.hz),
            Fleetprof(options.hz)]


def cell(values, form="{:.2f}", scale=1):
    values = sorted(value for value in values if value is not None)
    return form.format(values[len(values) // 2] * scale) if values else "-"


def table(results):
    rows = []
    for (program, tool), runs in results.items():
        def column(name):
            return [run[name] for run in runs]
        rows.append([program, tool, cell(column("samples"), "{:.0f}"),
                     cell(column("whole"), "{:.1f} %", 100), cell(column("depth"), "{:.1f}"),
                     cell(column("bytes"), "{:.0f}", 1 / 1024),
                     cell([run["bytes"] / run["samples"] for run in runs if run["samples"]],
                          "{:.0f}"),
                     cell(column("cpu_s")), cell(column("script_cpu_s")), cell(column("bpf_s"),
                                                                              "{:.3f}")])
    return report.table(["program", "tool", "user stacks", "whole", "frames", "KiB written",
                         "bytes per user stack", "tool CPU s", "unwinding afterwards CPU s",
                         "BPF s"], rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--hz", type=int, default=99)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="a setting of our agent")
    parser.add_argument("--out", default="bench-results", help="folder for JSON and Markdown")
    parser.add_argument("--update", metavar="PAGE", help="put the table into that page")
    parser.add_argument("programs", nargs="*", help="names; default: all")
    return parser.parse_args()


def main():
    options = parse()
    if os.geteuid() != 0:
        sys.exit("unwindcompare.py: BPF needs root; run it with sudo")
    able, unable = unwindprograms.chosen(options.programs)
    profilers, missing = candidates(options), {}
    for tool in list(profilers):
        if tool.why_not():
            missing[tool.name] = tool.why_not()
            profilers.remove(tool)
    results = collections.defaultdict(list)
    with measure.BpfStats():
        for load in able:
            with unwindprograms.running(load, options.build) as pid:
                roots = Roots(options.build, load, pid)
                for _ in range(options.rounds):
                    for tool in profilers:
                        figures = measure_once(tool, options.build, load, roots, pid,
                                               options.seconds)
                        print(load.name, tool.name, figures, file=sys.stderr, flush=True)
                        results[load.name, tool.name].append(figures)
    versions = "".join(f"\n{tool.name}: {tool.version()}." for tool in profilers if tool.version())
    absent = "".join(f"\nNot run: {name}: {why}." for name, why in {**missing, **unable}.items())
    text = (f"CPU profiles of {options.seconds:.0f} s at {options.hz} Hz, the whole host watched, "
            f"{options.rounds} rounds (median).\n\n" + table(results) + versions + absent + "\n")
    report.write(options, "unwindcompare",
                 {"machine": report.machine(), "versions": versions,
                  "results": [{"program": program, "tool": tool, "runs": runs}
                              for (program, tool), runs in results.items()]}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
