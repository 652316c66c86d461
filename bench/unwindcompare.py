#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole stacks of programs without frame pointers, and what they cost: fleetprof with and without
unwind tables, bpftrace, profile-bpfcc and perf record (dwarf, fp) on the same programs at the same
rate.

  unwindcompare.py [--seconds 15] [--rounds 3] [--hz 99] [PROGRAM…]     all programs: see --help
  unwindcompare.py --quick                                              does it work at all
  unwindcompare.py --update docs/unwinding.md

The programs are those of tests/e2e/unwind.py, and `deep`, which has frame pointers and a known
depth: a control, on which each tool must give complete stacks. If one does not there, or if the
judge (bench/unwindroots.py) does not agree with libdwfl on stopped threads, the script says so,
updates no page and exits 1: a wrong figure against a peer is worse than none.

Runs alternate: without a profiler, with the first, without, with the second, and so on, in an order
that rotates; a run with a profiler is compared with the two without beside it. Every tool watches
the whole host and is alone. Tools run as they come: a limit of 127 frames, 8 KiB of stack copied.
The program works in a control group of its own, whose CPU time says how many samples there should
be; the tool's own CPU time is taken of a group too. Which process is whose, and what it had mapped,
a log of forks and mappings says, that runs in all runs, those without a profiler too.
Needs root; installs nothing (bench/setup.sh does) and says which peers could not run."""

import argparse
import bisect
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import measure
import report
import tools
import unwindpeers
import unwindroots
from compare import say, split_able, unable_text
from measure import spread

sys.path.append(str(tools.ROOT / "tests" / "e2e"))

import cgroups  # noqa: E402
import processlog  # noqa: E402
import unwindprograms  # noqa: E402
import unwindstops  # noqa: E402

UNIT = "unwindcompare.service"  # what fleetprof labels the program's samples with
DEPTH_LIMIT = 127  # frames, of all the tools
CONTROL_SHARE = 0.95  # complete, of a program with frame pointers
JUDGE_SHARE = 0.99  # of stacks that libdwfl walked to their end
REFERENCE_STOPS = 150
POLL_S = 0.05


def deep(build, _):
    return unwindprograms.group(build / "tests" / "programs" / "deep", "--depth", "30",
                                "--threads", "1", "--seconds", "100000")


CONTROL = unwindprograms.Load("deep", "deep", lambda: None, deep)


class Group:
    """A control group, and the CPU time of all that ever ran in it, in nanoseconds."""

    def __init__(self, name):
        self.group = cgroups.Cgroup(f"/{name}")
        files = [folder / "cpuacct.usage" for folder in self.group.folders] \
            + [folder / "cpu.stat" for folder in self.group.folders]
        self.file = next(file for file in files if file.exists())

    def cpu_ns(self):
        text = self.file.read_text()
        if self.file.name == "cpuacct.usage":
            return int(text)
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) * 1000

    def pids(self):
        return {int(word) for word in (self.file.parent / "cgroup.procs").read_text().split()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.group.remove()


class Meter:
    """What the program has done by when: CPU time, read all the time, and rounds of its work."""

    def __init__(self, group):
        self.group, self.ended = group, threading.Event()
        self.cpu, self.turns = [], []
        self.reader, self.writer = os.pipe()
        self.threads = [threading.Thread(target=work, daemon=True)
                        for work in (self.poll, self.listen)]

    def poll(self):
        while not self.ended.is_set():
            self.cpu.append((time.monotonic_ns(), self.group.cpu_ns()))
            self.ended.wait(POLL_S)

    def listen(self):
        with open(self.reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if words == ["turn"]:
                    self.turns.append((time.monotonic_ns(), 1.0))
                elif words[:1] == ["progress:"]:  # pgbench, once a second
                    self.turns.append((time.monotonic_ns(), float(words[3])))

    def cpu_at(self, moment_ns):
        while self.cpu[-1][0] < moment_ns:
            time.sleep(POLL_S)
        index = max(1, bisect.bisect_left(self.cpu, (moment_ns, 0)))
        (before, low), (after, high) = self.cpu[index - 1 : index + 1]
        return low + (high - low) * (moment_ns - before) / (after - before)

    def cpu_s(self, begin_ns, end_ns):
        return (self.cpu_at(end_ns) - self.cpu_at(begin_ns)) / 1e9

    def rate(self, begin_ns, end_ns):
        """Rounds a second, from the first that ended to the last; None for too few."""
        turns = [turn for turn in self.turns if begin_ns <= turn[0] <= end_ns]
        if len(turns) < 3:
            return None
        return sum(weight for _, weight in turns[1:]) / ((turns[-1][0] - turns[0][0]) / 1e9)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def close_writer(self):
        os.close(self.writer)

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(5)


class SilentLog(processlog.ProcessLog):
    """The log of a run that has no use for it, but for being disturbed by it as others are."""

    def read(self):
        pass


@contextlib.contextmanager
def at_work(load, build):
    """(the program's control group, its meter) while it works."""
    with Group(UNIT) as group, Meter(group) as meter:
        unwindprograms.started_with = {"preexec_fn": group.group.join, "stdout": meter.writer,
                                       "stderr": meter.writer}
        try:
            with unwindprograms.running(load, build) as pid:
                meter.close_writer()
                yield group, meter, pid
        finally:
            unwindprograms.started_with = {}


# --- one run -------------------------------------------------------------------------------


def first_run_ns(process, hz):
    """When its BPF program began: it runs at `hz` on each CPU, idle ones too."""
    now, runs = time.monotonic_ns(), max(row["runs"] for row in process.counters().values())
    return now - int(runs / (hz * os.cpu_count()) * 1e9)


def alone(meter, seconds):
    """{rate} of a run without a profiler."""
    with tempfile.TemporaryDirectory(prefix="unwindcompare.") as name, \
            SilentLog(pathlib.Path(name)):
        begin = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        return {"rate": meter.rate(begin, end)}


class Marks:
    """Moments of a run, with what the tool had used of CPU by then."""

    def __init__(self, group):
        self.group, self.at = group, {}

    def set(self, name, moment_ns=None):
        self.at[name] = (moment_ns or time.monotonic_ns(), self.group.cpu_ns())

    def cpu_s(self, begin, end):
        return (self.at[end][1] - self.at[begin][1]) / 1e9


def record(tool, process, folder, marks, seconds):
    """From a tool that was started until it is to be stopped; what its BPF programs ran,
    and their maps' MiB."""
    if isinstance(tool, unwindpeers.Perf):
        tool.wait_ready(process)
    else:
        process.wait_ready()
    if isinstance(tool, unwindpeers.Fleetprof):
        tool.warm(process, folder)
    before = process.counters()
    keeps_all = tool.in_kernel and not isinstance(tool, unwindpeers.Fleetprof)
    marks.set("begin", first_run_ns(process, tool.cpu_hz) if keeps_all else None)
    if isinstance(tool, unwindpeers.Fleetprof):
        tool.measured(process, folder)
    else:
        time.sleep(seconds)
    marks.set("end")
    ran = measure.counter_difference(before, process.counters())
    maps_mib = unwindpeers.maps_mib(process) if tool.in_kernel else None
    if keeps_all:
        marks.set("end")
    return ran, maps_mib


def afterwards(tool, folder, tool_group):
    """perf's second half, in the tool's group."""
    if not isinstance(tool, unwindpeers.Perf):
        return
    argv, output = tool.script(folder)
    with open(output, "wb") as file:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE,
                              check=False, preexec_fn=tool_group.group.join)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"perf script ended with {done.returncode}: {' / '.join(words[-2:])}")


def started(tool, folder, tool_group):
    measure.Process.join = tool_group.group.join
    try:
        return tool.start(folder)
    finally:
        measure.Process.join = None


def run(tool, at, seconds):
    """The figures of one tool over one program that is at work."""
    group, meter = at
    with tempfile.TemporaryDirectory(prefix="unwindcompare.") as name, \
            Group("unwindcompare-tool.service") as tool_group:
        folder, marks = pathlib.Path(name) / "tool", Marks(tool_group)
        folder.mkdir()
        with processlog.ProcessLog(pathlib.Path(name)) as log:
            pids = group.pids()
            marks.set("start")
            process = started(tool, folder, tool_group)
            try:
                ran, maps_mib = record(tool, process, folder, marks, seconds)
                marks.set("stop")
            finally:
                process.stop(300)
            if process.told > 1:
                raise RuntimeError("it went on after it was told to end")
            afterwards(tool, folder, tool_group)
            marks.set("done")
        family = set().union(*(log.family(pid) for pid in pids))
        rows = list(tool.stacks(process, unwindpeers.Located(log), folder))
        figures = count(tool, rows, family, marks)
        begin, end = window(tool, folder, marks)
        expected = tool.cpu_hz * meter.cpu_s(begin, end)
        figures.update(got_share=figures["load_samples"] / expected, expected=expected,
                       bytes_per_sample=tool.written(process, folder) / figures["all_samples"],
                       maps_mib=maps_mib, rate=meter.rate(begin, end), lost_events=len(log.lost))
        if ran:
            busiest = max(ran.values(), key=lambda row: row["runs"])["runs"]
            figures["bpf_us"] = sum(row["ns"] for row in ran.values()) / busiest / 1e3
        return figures


def window(tool, folder, marks):
    """What the samples that count cover, on the monotonic clock."""
    if isinstance(tool, unwindpeers.Fleetprof):
        batch, _ = tool.windows(folder)
        ahead = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        return batch.start_ns - ahead, batch.end_ns - ahead
    return marks.at["begin"][0], marks.at["end"][0]


def count(tool, rows, family, marks):
    """Figures of the stacks; and the tool's CPU time, each by the samples it went into."""
    if isinstance(tool, unwindpeers.Perf):  # whose samples have a time; others keep all
        inside = [marks.at["begin"][0] <= moment < marks.at["end"][0] for moment in tool.times]
    else:
        inside = [True] * len(rows)
    every = sum(row.count for row in rows)
    if not every:
        raise RuntimeError("it gave no samples")
    during = [row for row, within in zip(rows, inside) if within]
    mine = [row for row in during if (row.ours if row.ours is not None else row.pid in family)]
    stacks = [row for row in mine if row.frames or row.lost]
    total = sum(row.count for row in stacks)

    def share(of):
        return sum(row.count for row in stacks if of(row)) / total if total else None

    complete = [unwindroots.is_complete(row.frames) for row in stacks]
    whole = sum(row.count for row, good in zip(stacks, complete) if good)
    recorded = sum(row.count for row in during)
    return {"user_stacks": total, "complete": whole / total if total else None,
            "at_limit": share(lambda row: len(row.frames) >= DEPTH_LIMIT),
            "lost": share(lambda row: row.lost),
            "frames": sum(row.count * len(row.frames) for row in stacks) / max(1, total),
            "load_samples": sum(row.count for row in mine), "all_samples": every,
            "start_cpu_s": marks.cpu_s("start", "begin"),
            "recording_cpu_s_per_1000": marks.cpu_s("begin", "end") / recorded * 1000,
            # A daemon does not end: what it does then is no part of its work.
            "after_cpu_s_per_1000": None if isinstance(tool, unwindpeers.Fleetprof)
            else marks.cpu_s("stop", "done") / every * 1000}


# --- all runs ------------------------------------------------------------------------------


def judge(load, build, pid, trouble):
    """Holds the judge of completeness against libdwfl on stopped threads of this program."""
    with tempfile.NamedTemporaryFile(suffix=".stops") as file:
        subprocess.run([build / "tests" / "programs" / "unwindref", "--tree", str(pid),
                        "--executable", f"^({load.executables})$", "--stops",
                        str(REFERENCE_STOPS), "--seconds", "20"], stdout=file,
                       stderr=subprocess.DEVNULL, check=False)
        whole, complete, cut = unwindroots.judge_reference(unwindstops.read(file.name)[0])
    say(f"{load.name}: of {whole} stacks that libdwfl walked to their end {complete} are called "
        f"complete, and {cut} when their beginning is cut off")
    if not whole or complete < JUDGE_SHARE * whole or cut > (1 - JUDGE_SHARE) * whole:
        trouble.append(f"{load.name}: the judge of completeness is wrong: of {whole} whole stacks "
                       f"{complete} are called complete, and {cut} without their beginning")
    return {"whole": whole, "complete": complete, "cut": cut}


def times_without(before, figures, after):
    """How much longer the work took than in the runs beside it."""
    rates = [entry["rate"] for entry in (before, after) if entry["rate"]]
    if not figures.get("rate") or len(rates) != 2:
        return None
    return sum(rates) / 2 / figures["rate"]


def tried(tool, load, at, seconds, unable):
    """A run's figures. One that fails is tried once more, and named if that fails too."""
    for last in (False, True):
        try:
            return run(tool, at, seconds)
        except RuntimeError as error:
            say(f"'{tool.name}' on {load.name} " + ("is left out" if last else "is run again")
                + f": {error}")
            if last:
                unable[f"{tool.name} on {load.name}"] = str(error)
    return None


def program_runs(load, able, unable, options, trouble):
    """{tool: [figures]} of one program, and the judge's figures."""
    results = {tool.name: [] for tool in able}
    with at_work(load, options.build) as (group, meter, pid):
        verdict = judge(load, options.build, pid, trouble)
        before = alone(meter, options.seconds)
        for number in range(options.rounds if load is not CONTROL else 1):
            for index in range(len(able)):
                tool = able[(index + number) % len(able)]
                figures = tried(tool, load, (group, meter), options.seconds, unable)
                if figures is None:
                    continue
                after = alone(meter, options.seconds)
                figures["times_without"] = times_without(before, figures, after)
                before = after
                say(f"{load.name}, round {number + 1}, {tool.name}: " + ", ".join(
                    f"{key} {value:.4g}" for key, value in figures.items() if value is not None))
                results[tool.name].append(figures)
    return results, verdict


def control(results, trouble):
    for name, runs in results.items():
        shares = [figures["complete"] for figures in runs]
        if None in shares or min(shares, default=0) < CONTROL_SHARE:
            trouble.append(f"the control: of a program with frame pointers {name} gave {shares} "
                           "complete")


def column(runs, key, scale=1.0, digits=1):
    return report.cell(spread([figures[key] for figures in runs
                               if figures.get(key) is not None]), scale, digits)


def table(results):
    rows = []
    for load, of_tools in results.items():
        for name, runs in of_tools.items():
            if runs:
                rows.append([load, name, column(runs, "user_stacks", 1, 0),
                             column(runs, "complete", 0.01), column(runs, "at_limit", 0.01),
                             column(runs, "lost", 0.01), column(runs, "got_share", 0.01, 0),
                             column(runs, "bytes_per_sample", 1, 0),
                             column(runs, "maps_mib"), column(runs, "bpf_us"),
                             column(runs, "start_cpu_s", 1, 2),
                             column(runs, "recording_cpu_s_per_1000", 0.001, 0),
                             column(runs, "after_cpu_s_per_1000", 0.001, 0),
                             column(runs, "times_without", 1, 3)])
    return report.table(["program", "tool", "user stacks", "complete %", "at 127 frames %",
                         "stack lost %", "samples got of expected %", "bytes per sample",
                         "maps MiB", "BPF us per sample", "start CPU s",
                         "CPU ms per 1000 samples", "and afterwards", "times without"], rows)


def candidates(options):
    return [unwindpeers.Fleetprof(options.hz, "yes", options.seconds, UNIT),
            unwindpeers.Fleetprof(options.hz, "no", options.seconds, UNIT),
            unwindpeers.Bpftrace(options.hz), unwindpeers.ProfileBpfcc(options.hz),
            unwindpeers.Perf(options.hz, "dwarf"), unwindpeers.Perf(options.hz, "fp")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release",
                        help="build folder with agent/ and tests/programs/ "
                             "(default: build/release)")
    parser.add_argument("--seconds", type=int, default=15, help="length of one run")
    parser.add_argument("--hz", type=int, default=99)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true",
                        help="one round of 4 s, of cxx and the control where none are named")
    parser.add_argument("--tools", default="", help="words of the profilers' names")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="a setting of our agent")
    parser.add_argument("--out", default="bench-results", help="folder for JSON and Markdown")
    parser.add_argument("--update", metavar="PAGE", help="put the table into docs/unwinding.md")
    parser.add_argument("programs", nargs="*",
                        help=", ".join(load.name for load in unwindprograms.programs))
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 4, 1
        options.programs = options.programs or ["cxx"]
    return options


def main():
    measure.end_in_order()
    options = parse()
    if os.geteuid() != 0:
        sys.exit("unwindcompare.py: BPF needs root; run it with sudo")
    if processlog.ProcessLog.why_not():
        sys.exit(f"unwindcompare.py: {processlog.ProcessLog.why_not()}")
    tools.Fleetprof.build, tools.Fleetprof.settings = options.build, tuple(options.set)
    able, unable = split_able(candidates(options))
    able = [tool for tool in able if not options.tools
            or any(word in tool.name for word in options.tools.split(","))]
    loads, absent = unwindprograms.chosen(options.programs)
    unable.update(absent)
    results, verdicts, trouble = {}, {}, []
    with measure.BpfStats():
        for load in [CONTROL, *loads]:
            results[load.name], verdicts[load.name] = program_runs(load, able, unable, options,
                                                                   trouble)
    control(results[CONTROL.name], trouble)
    head = (f"CPU profiles of the whole host at {options.hz} Hz, {options.rounds} alternating runs "
            f"of {options.seconds} s; median (min..max). "
            + ", ".join(sorted({tool.version() for tool in able if tool.version()})) + ".\n\n")
    if trouble:
        options.update = None
    report.write(options, "unwindcompare",
                 {"machine": report.machine(), "programs": results, "judge": verdicts,
                  "unable": unable, "trouble": trouble},
                 head + table(results) + unable_text(unable))
    for line in trouble:
        say(f"not to be believed: {line}")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
