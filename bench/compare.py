#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fleetprof beside other profilers, on this machine, in interleaved runs.

  compare.py sample-cost   BPF nanoseconds per CPU sample, 30 user frames, 99 and 999 Hz
  compare.py switch-cost   BPF nanoseconds per context switch and a ping-pong's slow-down
  compare.py storm         a compile storm with CPU and off-CPU profiles: CPU time, memory, losses

Needs root. Installs nothing (bench/setup.sh does) and says which peers could not run. Every
round runs every tool once, in an order that rotates, alone: tools do not measure each other.
Only figures of one session are to be compared: the same program differs by a factor of two
between sessions on a shared machine.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure
import report
import tools
from measure import spread


def scratch():
    return tempfile.TemporaryDirectory(prefix="compare.")


class Load:
    """A reference program that runs while tools are measured."""

    def __init__(self, programs, name, *arguments):
        self.child = subprocess.Popen([programs / name, *arguments], stdout=subprocess.PIPE,
                                      text=True)

    def truth(self):
        """Waits for its end; the line it prints."""
        output, _ = self.child.communicate()
        if self.child.returncode != 0:
            raise RuntimeError(f"{self.child.args[0]} ended with {self.child.returncode}")
        return json.loads(output)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.child.poll() is None:
            self.child.terminate()  # the storm removes its files
            self.child.wait()
        self.child.stdout.close()


def say(text):
    print(text, file=sys.stderr, flush=True)


def rounds(candidates, count):
    """(round, tool) with the order rotated; a tool that cannot run is left out, once said."""
    able = [tool for tool in candidates if tool is not None]
    for number in range(count):
        for index in range(len(able)):
            yield number, able[(index + number) % len(able)]


def split_able(candidates):
    able, unable = [], {}
    for tool in candidates:
        reason = tool.why_not()
        if reason is None:
            able.append(tool)
        else:
            unable[tool.name] = reason
            say(f"'{tool.name}' does not run here: {reason}")
    return able, unable


def unable_text(unable):
    return "".join(f"\nNot run: {name}: {reason}.\n" for name, reason in unable.items())


# --- sample-cost ---------------------------------------------------------------------------


def sample_once(tool, programs, seconds):
    cpus = str(os.cpu_count())
    with scratch() as folder, Load(programs, "deep", "--depth", "30", "--threads", cpus, "--pin",
                                   "--seconds", "600"):
        process = tool.start(pathlib.Path(folder))
        try:
            process.wait_ready()
            time.sleep(0.5)
            before, start = process.counters(), time.monotonic()
            time.sleep(seconds)
            ran = measure.counter_difference(before, process.counters())
            seconds = time.monotonic() - start  # bpftool takes its time on a busy host
        finally:
            process.stop()
    runs = sum(counter["runs"] for counter in ran.values())
    return {"ns_per_run": sum(counter["ns"] for counter in ran.values()) / runs,
            "runs_per_s": runs / seconds}


def sample_cost(arguments):
    results, tables, failed = {"machine": report.machine(), "rates": {}}, "", False
    with measure.BpfStats():
        for hz in arguments.hz:
            able, unable = split_able([tools.Fleetprof(hz), tools.ProfileBpfcc(hz),
                                       tools.Bpftrace(hz)])
            values = collect(rounds(able, arguments.pairs), unable,
                             lambda tool: sample_once(tool, arguments.programs,
                                                      arguments.seconds))
            rows, ratio = sample_rows(values)
            failed |= ratio is not None and arguments.require is not None \
                and ratio > arguments.require
            results["rates"][hz] = {"tools": values, "unable": unable, "ratio": ratio}
            tables += f"\n### {hz} Hz\n\n" + report.table(
                ["tool", "ns per sample", "samples per s", "to the better peer"], rows)
            tables += unable_text(unable)
    head = (f"## BPF nanoseconds per CPU sample, 30 user frames\n\n"
            f"{arguments.pairs} interleaved rounds of {arguments.seconds} s; "
            f"median (min..max).\n")
    report.write(arguments, "sample-cost", results, head + tables)
    return 1 if failed else 0


def collect(schedule, unable, once):
    """{tool name: {figure: spread}} of all rounds; a tool that fails is dropped and named."""
    raw = {}
    for number, tool in schedule:
        if tool.name in unable:
            continue
        try:
            figures = once(tool)
        except RuntimeError as error:
            unable[tool.name] = str(error)
            raw.pop(tool.name, None)
            say(f"'{tool.name}' is left out: {error}")
            continue
        say(f"round {number + 1}, {tool.name}: " + ", ".join(
            f"{key} {value:.1f}" for key, value in figures.items()
            if isinstance(value, float)))
        for key, value in figures.items():
            raw.setdefault(tool.name, {}).setdefault(key, []).append(value)
    return {name: {key: spread(values) if isinstance(values[0], (int, float)) else values
                   for key, values in figures.items()} for name, figures in raw.items()}


def ratio_to_better(values, key, ours="fleetprof"):
    peers = [figures[key]["median"] for name, figures in values.items()
             if name not in (ours, "none")]
    if ours not in values or not peers:
        return None
    return values[ours][key]["median"] / min(peers)


def sample_rows(values):
    ratio = ratio_to_better(values, "ns_per_run")
    rows = [[name, report.cell(figures["ns_per_run"], digits=0),
             report.cell(figures["runs_per_s"], digits=1),
             f"{ratio:.2f}" if name == "fleetprof" and ratio is not None else ""]
            for name, figures in values.items()]
    return rows, ratio


# --- switch-cost ---------------------------------------------------------------------------


class Nothing(tools.Tool):
    name = "none"

    def why_not(self):
        return None


def play(programs, seconds):
    with Load(programs, "pingpong", "--same-cpu", "--seconds", str(seconds)) as load:
        return load.truth()


def switch_once(tool, programs, seconds):
    if tool.name == "none":
        return {"us_per_round_trip": play(programs, seconds)["us_per_round_trip"]}
    with scratch() as folder:
        process = tool.start(pathlib.Path(folder))
        try:
            process.wait_ready()
            time.sleep(0.5)
            before = process.counters()
            truth = play(programs, seconds)
            ran = measure.counter_difference(before, process.counters())
        finally:
            process.stop()
    # A tool with several programs runs each of them at a switch: the busiest counts them.
    switches = max(counter["runs"] for counter in ran.values())
    return {"us_per_round_trip": truth["us_per_round_trip"],
            "ns_per_switch": sum(counter["ns"] for counter in ran.values()) / switches,
            "switches_per_s": switches / seconds}


def switch_cost(arguments):
    with measure.BpfStats():
        able, unable = split_able([Nothing(), tools.Fleetprof(0, True),
                                   tools.Offcputime(0, True), tools.Bpftrace(0, True)])
        values = collect(rounds(able, arguments.pairs), unable,
                         lambda tool: switch_once(tool, arguments.programs, arguments.seconds))
    base = values["none"]["us_per_round_trip"]["median"]
    ratio = ratio_to_better(values, "ns_per_switch")
    rows = [[name, report.cell(figures["us_per_round_trip"]),
             f"{figures['us_per_round_trip']['median'] / base:.2f}",
             report.cell(figures.get("ns_per_switch"), digits=0),
             report.cell(figures.get("switches_per_s"), digits=0),
             f"{ratio:.2f}" if name == "fleetprof" and ratio is not None else ""]
            for name, figures in values.items()]
    head = (f"## Cost of a context switch, ping-pong on one CPU\n\n"
            f"{arguments.pairs} interleaved rounds of {arguments.seconds} s; "
            f"median (min..max).\n\n")
    text = head + report.table(["tool", "us per round trip", "times none", "BPF ns per switch",
                                "switches per s", "to the better peer"], rows)
    report.write(arguments, "switch-cost",
                 {"machine": report.machine(), "tools": values, "unable": unable, "ratio": ratio},
                 text + unable_text(unable))
    return 1 if arguments.require is not None and (ratio or 0) > arguments.require else 0


# --- storm ---------------------------------------------------------------------------------


def storm_once(tool, programs, seconds):
    if tool.name == "none":
        with Load(programs, "storm", "--seconds", str(seconds)) as load:
            return {"compiles": load.truth()["compiles"]}
    with scratch() as folder:
        process = tool.start(pathlib.Path(folder))
        try:
            attach_s = process.wait_ready()
            before = process.counters()
            with Load(programs, "storm", "--seconds", str(seconds)) as load:
                compiles = load.truth()["compiles"]
            ran = measure.counter_difference(before, process.counters())
            figures = {"compiles": compiles, "attach_s": attach_s,
                       "map_bytes": measure.map_bytes(measure.family(process.pid)),
                       "facts": tool.before_stop(process)}
        finally:
            process.stop()
        figures.update(cpu_s=process.cpu_total_s(), peak_bytes=process.peak_resident_bytes(),
                       bpf_s=sum(counter["ns"] for counter in ran.values()) / 1e9,
                       programs=list(ran.values()))
        losses = tool.losses(process)
        figures["losses"] = losses
        if losses.get("reported"):
            figures["lost_share"] = losses["lost"] / losses["reported"]
    return figures


def named(tool, name):
    tool.name = name
    return tool


def storm(arguments):
    hz = arguments.hz[0]
    candidates = [Nothing(), named(tools.Fleetprof(hz, True), "fleetprof"),
                  named(tools.ProfileBpfcc(hz), "profile-bpfcc"),
                  named(tools.Bpftrace(hz), "bpftrace"),
                  named(tools.Bpftrace(0, True), "bpftrace off-CPU"),
                  tools.Offcputime(0, True)]
    with measure.BpfStats():
        able, unable = split_able(candidates)
        values = collect(rounds(able, arguments.pairs), unable,
                         lambda tool: storm_once(tool, arguments.programs, arguments.seconds))
    mib = 1 << 20
    profiles = {"fleetprof": "CPU + off-CPU", "profile-bpfcc": "CPU", "bpftrace": "CPU",
                "bpftrace off-CPU": "off-CPU", "offcputime": "off-CPU", "none": "-"}
    rows = [[name, profiles[name], report.cell(figures.get("cpu_s")),
             report.cell(figures.get("bpf_s")),
             report.cell(figures.get("peak_bytes"), mib, 1),
             report.cell(figures.get("map_bytes"), mib, 1),
             lost_cell(figures), report.cell(figures.get("attach_s")),
             report.cell(figures.get("compiles"), digits=0)]
            for name, figures in values.items()]
    shipping = f"shipping to {arguments.ship_to}" if arguments.ship_to else \
        "keeping its batches in the spool"
    head = (f"## Compile storm of {arguments.seconds} s, CPU profiles at {hz} Hz\n\n"
            f"{arguments.pairs} interleaved rounds; median (min..max). fleetprof runs as the "
            f"daemon, both profiles on, {shipping}.\n\n")
    text = head + report.table(
        ["tool", "profiles", "tool CPU s", "BPF s", "peak RSS MiB", "BPF maps MiB",
         "lost stacks", "attach s", "compiles"], rows)
    report.write(arguments, "storm",
                 {"machine": report.machine(), "tools": values, "unable": unable},
                 text + unable_text(unable))
    return 0


def lost_cell(figures):
    shares = figures.get("lost_share")
    if shares is None:
        return "-"
    return (f"{100 * shares['median']:.2f} % ({100 * shares['min']:.2f}.."
            f"{100 * shares['max']:.2f}) of {figures['losses'][0]['of']}")


# -------------------------------------------------------------------------------------------

SECTIONS = {"sample-cost": sample_cost, "switch-cost": switch_cost, "storm": storm}
DEFAULT_SECONDS = {"sample-cost": 10, "switch-cost": 5, "storm": 60}
DEFAULT_PAIRS = {"sample-cost": 5, "switch-cost": 5, "storm": 3}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=[*SECTIONS, "all"])
    parser.add_argument("--build", type=pathlib.Path, default=tools.ROOT / "build" / "release",
                        help="build folder with agent/ and tests/programs/ (default: build/release)")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    parser.add_argument("--pairs", type=int, help="rounds")
    parser.add_argument("--hz", type=lambda text: [int(hz) for hz in text.split(",")],
                        default=None, help="rates, e.g. 99,999")
    parser.add_argument("--ship-to", default="", help="collector's URL; default: spool only")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="a setting of our agent")
    parser.add_argument("--out", default="bench-results", help="folder for JSON and Markdown")
    parser.add_argument("--update", metavar="PAGE", help="put the tables into docs/overhead.md")
    parser.add_argument("--require", type=float,
                        help="fail when our cost is above this share of the better peer's")
    return parser.parse_args()


def main():
    measure.end_in_order()
    arguments = parse()
    if os.geteuid() != 0:
        say("compare.py: BPF needs root; run it with sudo")
        return 5
    arguments.programs = arguments.build / "tests" / "programs"
    tools.Fleetprof.build = arguments.build
    tools.Fleetprof.ship_to = arguments.ship_to
    tools.Fleetprof.settings = tuple(arguments.set)
    if not (arguments.programs / "deep").exists():
        say(f"compare.py: no reference programs in '{arguments.programs}': build them first")
        return 5
    status = 0
    for section in SECTIONS if arguments.section == "all" else [arguments.section]:
        settings = argparse.Namespace(**vars(arguments))
        settings.seconds = arguments.seconds or DEFAULT_SECONDS[section]
        settings.pairs = arguments.pairs or DEFAULT_PAIRS[section]
        settings.hz = arguments.hz or ([99, 999] if section == "sample-cost" else [99])
        status |= SECTIONS[section](settings)
    return status


if __name__ == "__main__":
    sys.exit(main())
