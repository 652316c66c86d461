#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What off-CPU profiling costs the worst program for it: two threads that hand a byte to and
fro at full speed, on one CPU and on two, with and without a profiler.

  pingpong.py [--runs 7] [--places one,two] [--require 1.10]   run time with / without
  pingpong.py --hooks [--runs 3]                               BPF nanoseconds, per hook of ours

The runs alternate: without, with ours, without, with a peer, without, and so on, in an order
that rotates, with ours at its defaults before each of the others; a run with a profiler is compared
with the two without beside it. The threads have a real-time priority, so that other load does not
disturb them. A run is several bursts with pauses: the kernel takes a twentieth of a second from
real-time threads that have kept others waiting for nearly a whole one, and no burst lasts that long
(a burst that does is counted and said). A profiler starts before its run and settles: what its
start costs is not asked here (bench/largehost.py tells ours), and while it still works, waking one
of the two threads on a virtual CPU that is busy takes several times as long as on an idle one.

--hooks tells what a switch costs of which no interval is kept and what a kept interval costs
beyond that: two runs per hook, with a quantum that keeps nothing (on the way out: the least
budget) and with a budget that keeps all, and their kernel statistics solved for both. Needs root;
installs nothing (bench/setup.sh does) and says which peers could not run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import measure
import report
import tools
from compare import say, split_able, unable_text
from measure import spread

THROTTLE = pathlib.Path("/proc/sys/kernel/sched_rt_runtime_us")
LONGEST_BURST_S = 0.9
PAUSE_S = 0.2
# Round trips of a burst: a third of a second or so where nothing disturbs it.
PLACES = {"one": ("one CPU", ["--same-cpu"], 40000), "two": ("two CPUs", [], 10000)}
HOOKS = ("irq_work", "sched_exit_tp", "fexit", "way_out")


class NoBpfStats:
    """No run-time statistics inside the with block: they cost two clock reads a run. Some hosts
    have them on all the time."""

    def __enter__(self):
        self.before = measure.STATS_SWITCH.read_text()
        measure.STATS_SWITCH.write_text("0")
        return self

    def __exit__(self, *exception):
        measure.STATS_SWITCH.write_text(self.before)


class OffcputimeBpfcc(tools.Tool):
    """bcc's: a kprobe at the end of every switch."""

    name = "offcputime-bpfcc"
    needs = "offcputime-bpfcc"

    def why_not(self):
        reason = super().why_not()
        if reason is None and tools.ProfileBpfcc.header_folder() is None:
            reason = "BCC needs kernel headers (linux-headers-amd64), none under /usr/src"
        if reason is None and not kernel_has("register_kprobe"):
            reason = "it needs kprobes, and this kernel is built without (CONFIG_KPROBES)"
        return reason

    def start(self, folder):
        return measure.Process([self.needs, "-f"], folder,
                               {"BCC_KERNEL_SOURCE": tools.ProfileBpfcc.header_folder()})


def kernel_has(symbol):
    """Whether the kernel has the function; unknown counts as yes."""
    try:
        with open("/proc/kallsyms", encoding="ascii", errors="replace") as table:
            words = (line.split() for line in table)
            return any(len(line) > 2 and line[2] == symbol for line in words)
    except OSError:
        return True


class Ours(tools.Fleetprof):
    """The daemon with its defaults but for what the name says."""

    def __init__(self, name, cpu, settings=()):
        super().__init__(0, True)
        self.name, self.cpu = name, cpu
        self.settings = (*tools.Fleetprof.settings, *settings)

    def configuration(self, folder):
        text = super().configuration(folder)
        # Without a rate of ours in it the daemon takes its own.
        return text.replace("[cpu]\nenabled = no", "[cpu]\nenabled = yes") if self.cpu else text


# --- run time ------------------------------------------------------------------------------


def burst(programs, place):
    """Seconds and round trips of one burst under a real-time priority."""
    _, options, round_trips = PLACES[place]
    output = subprocess.run(["chrt", "-f", "10", programs / "pingpong", *options,
                             "--round-trips", str(round_trips)],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if output.returncode != 0:
        raise SystemExit("pingpong.py: a real-time priority cannot be had: "
                         + output.stderr.strip())
    truth = json.loads(output.stdout)
    return truth["wall_ns"] / 1e9, truth["round_trips"]


def play(arguments, place):
    """Microseconds per round trip over the bursts of a run, and how many were too long."""
    seconds = trips = too_long = 0
    for _ in range(arguments.bursts):
        time.sleep(PAUSE_S)
        took, played = burst(arguments.programs, place)
        seconds, trips, too_long = seconds + took, trips + played, too_long + \
            (took > LONGEST_BURST_S)
    return 1e6 * seconds / trips, too_long


def play_with(tool, arguments, place):
    with tempfile.TemporaryDirectory(prefix="pingpong.") as folder:
        with measure.BpfStats(): # without them nobody can tell that it runs
            process = tool.start(pathlib.Path(folder))
            process.wait_ready()
        try:
            time.sleep(arguments.settle)
            return play(arguments, place)
        finally:
            process.stop()


def round_of(able, number):
    """A round's order: the others rotate, and the first of all comes before each of them."""
    first, others = able[0], able[1:]
    turned = [others[(index + number) % len(others)] for index in range(len(others))]
    return [tool for other in turned for tool in (first, other)] or [first]


def alternate(arguments, place, able, unable):
    """{tool: {figure: [values]}} of one place, with "none" among them."""
    raw = {"none": {"us": [], "too_long": []}}

    def note(name, took, too_long, ratio=None):
        row = raw.setdefault(name, {"us": [], "too_long": [], "ratio": []})
        row["us"].append(took)
        row["too_long"].append(too_long)
        if ratio is not None:
            row["ratio"].append(ratio)

    before = play(arguments, place)
    note("none", *before)
    for number in range(arguments.runs):
        for tool in round_of(able, number):
            if tool.name in unable:
                continue
            try:
                took, too_long = play_with(tool, arguments, place)
            except RuntimeError as error:
                unable[tool.name] = str(error)
                raw.pop(tool.name, None)
                say(f"'{tool.name}' is left out: {error}")
                continue
            after = play(arguments, place)
            ratio = took / ((before[0] + after[0]) / 2)
            note("none", *after)
            note(tool.name, took, too_long, ratio)
            say(f"{PLACES[place][0]}, run {number + 1}, {tool.name}: {took:.2f} us, "
                f"{ratio:.3f} of without")
            before = after
    return raw


def place_table(raw):
    rows = []
    for name, figures in raw.items():
        rows.append([name, len(figures["us"]), report.cell(spread(figures["us"])),
                     report.cell(spread(figures.get("ratio")), digits=3),
                     f"{sum(figures['too_long'])}"])
    return report.table(["profiler", "runs", "us per round trip", "times without",
                         "bursts above 0.9 s"], rows)


def run_times(arguments):
    candidates = [Ours("fleetprof, off-CPU", False), Ours("fleetprof, all", True),
                  tools.Offcputime(0, True), OffcputimeBpfcc(0, True), tools.Bpftrace(0, True)]
    able, unable = split_able([tool for tool in candidates
                               if any(word in tool.name for word in arguments.tools.split(","))])
    results, text, failed = {}, "", False
    for place in arguments.places.split(","):
        with NoBpfStats():
            results[place] = alternate(arguments, place, able, unable)
        text += f"\n### On {PLACES[place][0]}\n\n" + place_table(results[place])
        ours = results[place].get("fleetprof, off-CPU", {}).get("ratio")
        if arguments.require is not None and ours:
            failed |= statistics.median(ours) > arguments.require
    head = (f"## A ping-pong at full speed\n\n{arguments.runs} rounds of alternating runs, each of "
            f"{arguments.bursts} bursts under a real-time priority (sched_rt_runtime_us "
            f"{THROTTLE.read_text().strip()}); median (min..max). \"Times without\": each run "
            f"against the mean of the two without beside it.\n")
    report.write(arguments, "pingpong", {"machine": report.machine(), "places": results,
                                         "unable": unable}, head + text + unable_text(unable))
    return 1 if failed else 0


# --- nanoseconds per hook ------------------------------------------------------------------


def settings_of(hook, kept):
    """Settings with which every interval is kept, or none (on the way out: the fewest)."""
    if kept:
        choice = "off_cpu.walk_budget=1000000"
    else:
        choice = "off_cpu.walk_budget=10" if hook == "way_out" else "off_cpu.quantum=1h"
    return [f"off_cpu.hook={hook}", "window.drain_interval=1s", choice]


def walks(metrics):
    return sum(value for row, value in metrics.items()
               if row.startswith("fleetprof_agent_off_cpu_walks_total"))


def hook_run(hook, kept, arguments):
    """(BPF nanoseconds, switches, kept intervals) of a run's bursts."""
    tool = Ours("fleetprof", False, settings_of(hook, kept))
    with tempfile.TemporaryDirectory(prefix="pingpong.") as folder:
        process = tool.start(pathlib.Path(folder))
        try:
            process.wait_ready()
            play(arguments, "one") # a budget takes its time to bite, or to be let go of
            time.sleep(2.5)
            kept_before, before = walks(tool.metrics()), process.counters()
            play(arguments, "one")
            ran = measure.counter_difference(before, process.counters())
            time.sleep(2.5) # a drain, and the metrics follow
            kept_count = walks(tool.metrics()) - kept_before
        finally:
            process.stop()
    return (sum(program["ns"] for program in ran.values()),
            max(program["runs"] for program in ran.values()), kept_count)


def solve(few, many):
    """ns = a × switches + b × kept, from two runs."""
    (ns1, switches1, kept1), (ns2, switches2, kept2) = few, many
    determinant = switches1 * kept2 - switches2 * kept1
    return ((ns1 * kept2 - ns2 * kept1) / determinant,
            (switches1 * ns2 - switches2 * ns1) / determinant)


def hook_costs(arguments):
    results, rows, unable = {}, [], {}
    with measure.BpfStats():
        for hook in HOOKS:
            values = []
            try:
                for number in range(arguments.runs):
                    runs = [hook_run(hook, kept, arguments) for kept in (False, True)]
                    values.append((*solve(*runs), *runs))
                    say(f"{hook}, run {number + 1}: {values[-1][0]:.0f} ns per switch, "
                        f"{values[-1][1]:.0f} ns per kept interval; {runs}")
            except RuntimeError as error:
                unable[hook] = str(error)
                say(f"'{hook}' is left out: {error}")
                continue
            results[hook] = [{"ns_per_switch": value[0], "ns_per_kept": value[1],
                              "few": value[2], "many": value[3]} for value in values]
            rows.append([hook, *(report.cell(spread([row[key] for row in results[hook]]), digits=0)
                                 for key in ("ns_per_switch", "ns_per_kept"))])
    head = (f"## Nanoseconds of the scheduler's hooks\n\nA ping-pong on one CPU, "
            f"{arguments.runs} pairs of runs; median (min..max).\n\n")
    report.write(arguments, "hooks", {"machine": report.machine(), "hooks": results,
                                      "unable": unable},
                 head + report.table(["hook", "BPF ns per switch", "and ns per kept interval"],
                                     rows) + unable_text(unable))
    return 0


# -------------------------------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release",
                        help="build folder with agent/ and tests/programs/ (default: build/release)")
    parser.add_argument("--runs", type=int,
                        help="rounds, in each of which every profiler runs (7; 3 with --hooks)")
    parser.add_argument("--bursts", type=int, default=5, help="bursts of a run")
    parser.add_argument("--places", default="one,two", help="of one,two: CPUs to play on")
    parser.add_argument("--tools", default="fleetprof,offcputime,bpftrace",
                        help="words of the profilers' names")
    parser.add_argument("--settle", type=float, default=5, help="seconds a profiler runs before")
    parser.add_argument("--hooks", action="store_true", help="nanoseconds per hook instead")
    parser.add_argument("--require", type=float,
                        help="fail when ours with CPU sampling off is above this, in any place")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="a setting of our agent")
    parser.add_argument("--out", default="bench-results", help="folder for JSON and Markdown")
    parser.add_argument("--update", metavar="PAGE", help="put the tables into docs/overhead.md")
    return parser.parse_args()


def main():
    measure.end_in_order()
    arguments = parse()
    if os.geteuid() != 0:
        say("pingpong.py: BPF needs root; run it with sudo")
        return 5
    arguments.programs = arguments.build / "tests" / "programs"
    tools.Fleetprof.build = arguments.build
    tools.Fleetprof.settings = tuple(arguments.set)
    if not (arguments.programs / "pingpong").exists():
        say(f"pingpong.py: no reference programs in '{arguments.programs}': build them first")
        return 5
    arguments.runs = arguments.runs or (3 if arguments.hooks else 7)
    return hook_costs(arguments) if arguments.hooks else run_times(arguments)


if __name__ == "__main__":
    sys.exit(main())
