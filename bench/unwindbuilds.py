#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unwindbuilds.py --build DIR [--builds N] [--seconds S] [--memory SIZE]: the agent with many builds
live. Makes N programs of one source, each a build of its own, runs them all at once, mostly asleep,
and reports how many got their unwind table, the agent's CPU time and its memory against the bound.
Exits 1 when memory goes beyond the bound or fewer than 90 % of the builds have a table while
nothing was evicted. Root."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from measure import end_in_order

SOURCE = r"""
#include <time.h>
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
__attribute__((noinline)) static int CAT(work_, N)(int n)
{
	volatile char room[64 + N % 512];
	int sum = 0;
	for (int i = 0; i < 20000; i++)
		room[i % sizeof(room)] = (char)(i + n);
	for (unsigned i = 0; i < sizeof(room); i++)
		sum += room[i];
	return n ? sum + CAT(work_, N)(n - 1) : sum;
}
int main(void)
{
	for (;;) {
		struct timespec nap = { 0, 200000000 };
		CAT(work_, N)(5);
		nanosleep(&nap, 0);
	}
}
"""


def make(folder, number):
    program = folder / f"build{number}"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-DN={number}", "-x", "c", "-", "-o",
                    str(program)], input=SOURCE.encode(), check=True)
    return program


def configure(folder, memory):
    text = (f"[window]\nlength = 10s\n[spool]\ndirectory = {folder}/spool\n"
            f"[unwind]\ntables = yes\nmemory = {memory}\n"
            f"[agent]\nuser =\nstate_directory = {folder}/state\nlock_file = {folder}/lock\n"
            f"control_socket = {folder}/sock\nlisten =\n")
    (folder / "state").mkdir()
    (folder / "agent.conf").write_text(text)


def status(build, folder):
    output = subprocess.run([build / "agent/agentctl", "status", "--json", "--socket",
                             f"{folder}/sock"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)


def cpu_seconds(pid):
    parts = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(options, folder, programs):
    agent = subprocess.Popen([options.build / "agent/fleetprof-agent", "--config",
                              str(folder / "agent.conf")])
    try:
        time.sleep(options.seconds)
        middle, started = cpu_seconds(agent.pid), time.monotonic()
        time.sleep(options.seconds)
        steady = (cpu_seconds(agent.pid) - middle) / (time.monotonic() - started) * 100
        unwind = status(options.build, folder)["unwind"]
        unwind["resident_mib"] = resident_mib(agent.pid)
        unwind["first_cpu_s"], unwind["steady_percent"] = middle, steady
        return unwind
    finally:
        agent.terminate()
        agent.wait()


def report(options, unwind):
    print(f"{options.builds} builds live: {unwind['tables']} tables, {unwind['rows']} rows, "
          f"{unwind['rules']} rules, {unwind['bytes'] / 2**20:.1f} of "
          f"{unwind['bytes_max'] / 2**20:.0f} MiB, {unwind['evicted']} evicted, "
          f"{unwind['no_room']} without room; {unwind['processes']} processes")
    print(f"agent: {unwind['first_cpu_s']:.2f} s of CPU in the first {options.seconds} s, then "
          f"{unwind['steady_percent']:.2f} % of a CPU; RSS {unwind['resident_mib']:.1f} MiB; "
          f"{unwind['asked_ns'] / 1e6 / max(1, unwind['asked']):.1f} ms from asking to a table")
    if unwind["bytes"] > unwind["bytes_max"]:
        sys.exit("memory is beyond its bound")
    if unwind["tables"] < 0.9 * options.builds and not unwind["evicted"] + unwind["no_room"]:
        sys.exit("builds are without their table, though there was room")


def main():
    end_in_order()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--builds", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--memory", default="64MiB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unwindbuilds-") as name:
        folder = pathlib.Path(name)
        configure(folder, options.memory)
        programs = [make(folder, number) for number in range(options.builds)]
        running = [subprocess.Popen([str(program)]) for program in programs]
        try:
            unwind = measure(options, folder, programs)
        finally:
            for process in running:
                process.kill()
                process.wait()
    report(options, unwind)


if __name__ == "__main__":
    main()
