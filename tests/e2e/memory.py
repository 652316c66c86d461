#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that makes a new stack with every wait: the agent closes windows early instead of
growing, says so, keeps its books balanced and loses nothing of what it took."""

import argparse
import os
import pathlib
import subprocess
import sys

from control_agent import Agent, Folder

SECONDS = 20
MIB = 1 << 20


def peak_rss(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build
    if os.geteuid() != 0:
        print("skipped: sampling the host needs root")
        return 77
    settings = {
        ("window", "length"): "60s",
        ("window", "drain_interval"): "2s",
        ("limits", "window_memory"): "4MiB",
        ("off_cpu", "walk_budget"): "100000",  # every stack is new: all of them count
    }
    failures = []
    with Folder() as folder, Agent(build, folder, settings) as agent:
        start = peak_rss(agent.child.pid)
        subprocess.run([build / "tests" / "programs" / "manystacks", "--seconds", str(SECONDS)],
                       check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        early = agent.metric("fleetprof_agent_windows_closed_early_total")
        unbalanced = agent.metric("fleetprof_agent_balance_errors_total")
        growth = peak_rss(agent.child.pid) - start
        maps = agent.metric("fleetprof_agent_bpf_map_bytes")
        print(f"{early:.0f} windows closed early, {unbalanced:.0f} epochs out of balance, "
              f"{growth / MIB:.1f} MiB above the start's {start / MIB:.1f} MiB, "
              f"{maps / MIB:.1f} MiB of maps")
        if early < 1:
            failures.append("no window was closed early: the load or the bound does nothing")
        if unbalanced:
            failures.append("epochs out of balance")
        # One drain's stacks come on top of the bound, and encoding needs its copy of a window.
        if growth > 40 * MIB:
            failures.append("memory grew past what bounded windows need")
        code = agent.stop()
        if code != 0:
            failures.append(f"the agent ended with {code}: {agent.said()}")
        if "could not be spooled" in agent.said():
            failures.append(f"a window was lost: {agent.said()}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
