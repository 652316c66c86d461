#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What can happen to a thread while it is blocked: it stays so for the whole window or over
several, is moved, its process executes another program or is killed or stopped, the agent is
killed and starts anew. Never is there more time than passed, and what was in the windows is
right. The thread says itself how long it waited (tests/programs/blocked)."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import control_agent
from batches import OFF_CPU, spooled
from reference import (Check, arguments, folded, position, skip_unless_live, value_on,
                       wait_attached)

LEAF = "wait_blocked"
SHARE = 0.02  # of the truth
SLACK_S = 0.05  # between a clock of ours and the moment that it is for
CLOCKS_S = 0.001  # a window's end in one clock, and the cut of what is blocked in another
DURATION_S = 4
WINDOW_S = 2


class Blocked:
    """tests/programs/blocked."""

    def __init__(self, build):
        self.child = subprocess.Popen([build / "tests" / "programs" / "blocked"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      bufsize=1)
        self.pid = int(self.answer("ready"))

    def answer(self, word=""):
        words = self.child.stdout.readline().split()
        if not words or not word in words[0]:
            raise RuntimeError(f"'blocked' said {words} where '{word}' was due")
        return words[-1]

    def say(self, line):
        self.child.stdin.write(line + "\n")

    def block(self):
        """Returns when the thread waits; its number."""
        self.say("block")
        tid = int(self.answer("blocked"))
        self.began = time.monotonic()
        control_agent.wait_for(lambda: state(self.pid, tid) == "S", "the thread is blocked")
        return tid

    def release(self):
        """Seconds that the thread waited."""
        self.say("release")
        return int(self.answer()) / 1e9

    def execute(self):
        self.say("exec")
        self.answer("ready")

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()


def state(pid, tid):
    text = pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text()
    return text[text.rindex(")") + 2]


# --- one snapshot --------------------------------------------------------------------------


def snapshot(build, program, action):
    """(folded stacks, seconds within which the window lies, what `action` returned)."""
    with tempfile.TemporaryDirectory(prefix="blocked.") as folder:
        output = pathlib.Path(folder) / "folded"
        began = time.monotonic()
        child = subprocess.Popen(
            [build / "agent" / "agentctl", "snapshot", "--standalone", "--pid", str(program.pid),
             "--duration", f"{DURATION_S}s", "--off-cpu", "--format", "folded", "-o", output],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            wait_attached(child, child.pid, set())
            result = action(program)
            _, errors = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        wall = time.monotonic() - began
        if child.returncode != 0:
            raise RuntimeError(f"agentctl ended with {child.returncode}:\n{errors}")
        return folded(output.read_text()), wall, result


def check_bounds(check, stacks, wall):
    """Nothing negative (it would be some hundred years) and nothing above the clock."""
    most = max((value for _, value in stacks), default=0)
    check(most <= wall * 1e9, f"no stack has more than the {wall:.2f} s that passed "
          f"({most / 1e9:.3f} s)")


def check_value(check, what, seconds, least, most):
    check(least <= seconds <= most, f"{what}: {seconds:.4f} s of {least:.4f} to {most:.4f} s")


def check_truth(check, what, seconds, truth):
    check_value(check, what, seconds, truth * (1 - SHARE), truth * (1 + SHARE))


def blocked_throughout(check, build):
    with Blocked(build) as program:
        program.block()
        stacks, wall, _ = snapshot(build, program, lambda program: None)
    check_bounds(check, stacks, wall)
    check_value(check, "the length of the window", value_on(stacks, LEAF) / 1e9,
                DURATION_S * (1 - SHARE), wall)


def as_long_as_the_window(check, build):
    """By the profile's own word, to the nanosecond."""
    with Blocked(build) as program:
        program.block()
        threads = len(os.listdir(f"/proc/{program.pid}/task"))
        for _ in range(3):
            taken = subprocess.run(
                [build / "agent" / "agentctl", "snapshot", "--standalone", "--pid",
                 str(program.pid), "--duration", "1s", "--off-cpu", "--format", "json"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
            profile = json.loads(taken.stdout)
            most = threads * profile["duration_ns"] / 1e9
            # Attaching takes some of the window, more of it on a busy machine.
            check_value(check, f"{threads} threads", profile["total"] / 1e9, most * 0.8, most)


def released_in_the_window(check, build):
    def action(program):
        attached = time.monotonic()
        time.sleep(1)
        truth = program.release()
        return time.monotonic() - attached, truth

    with Blocked(build) as program:
        program.block()
        time.sleep(1)
        stacks, wall, (least, truth) = snapshot(build, program, action)
    check_bounds(check, stacks, wall)
    # It was away before: only what lies in the window counts, which is all since the snapshot had
    # attached, and some of what attaching took.
    check_value(check, "its part of the wait", value_on(stacks, LEAF) / 1e9, least - SLACK_S,
                truth - 1)


def moved(check, build):
    def action(program):
        tid = program.block()
        cpus = sorted(os.sched_getaffinity(0))
        for turn in range(20):
            os.sched_setaffinity(tid, {cpus[turn % len(cpus)]})
            time.sleep(0.05)
        return program.release()

    with Blocked(build) as program:
        stacks, wall, truth = snapshot(build, program, action)
    check_bounds(check, stacks, wall)
    check_truth(check, "the wait", value_on(stacks, LEAF) / 1e9, truth)


def executed(check, build):
    def action(program):
        program.block()
        time.sleep(1)
        program.execute()
        first = time.monotonic() - program.began
        time.sleep(0.2)
        program.block()
        time.sleep(0.5)
        return first, program.release()

    with Blocked(build) as program:
        stacks, wall, (first, second) = snapshot(build, program, action)
    check_bounds(check, stacks, wall)
    check_value(check, "until the exec, and the wait after it", value_on(stacks, LEAF) / 1e9,
                (1 + second) * (1 - SHARE), first + second + SLACK_S)


def killed(check, build):
    def action(program):
        program.block()
        time.sleep(1)
        os.kill(program.pid, signal.SIGKILL)
        program.child.wait()
        return time.monotonic() - program.began

    with Blocked(build) as program:
        stacks, wall, truth = snapshot(build, program, action)
    check_bounds(check, stacks, wall)
    check_value(check, "until the end", value_on(stacks, LEAF) / 1e9, 1 - SHARE, truth + SLACK_S)


def stopped(check, build):
    def action(program):
        tid = program.block()
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(program.pid, signal.SIGSTOP)
        control_agent.wait_for(lambda: state(program.pid, tid) == "T", "the thread is stopped")
        time.sleep(1)
        os.kill(program.pid, signal.SIGCONT)
        most = time.monotonic() - began
        time.sleep(0.5)
        return most, program.release()

    with Blocked(build) as program:
        stacks, wall, (most, truth) = snapshot(build, program, action)
    check_bounds(check, stacks, wall)
    check_truth(check, "the wait and the stop in it", value_on(stacks, LEAF) / 1e9, truth)
    seen = sum(value for frames, value in stacks if position(frames, [LEAF]) >= 0 and
               any("do_signal_stop" in frame for frame in frames)) / 1e9
    check_value(check, "the stop", seen, 1 - SHARE, most + SLACK_S)


# --- windows of the daemon -----------------------------------------------------------------


def daemon(build, folder):
    return control_agent.Agent(build, folder, {
        ("cpu", "enabled"): "no", ("window", "length"): f"{WINDOW_S}s",
        ("window", "jitter_percent"): "0"})


def parts(agent):
    """[(seconds of a window, seconds of the blocked thread in it)]"""
    found = []
    for batch in spooled(agent.spool):
        value = sum(sample.value for sample in batch.samples if sample.type == OFF_CPU and
                    sample.labels.get("thread") == "held")
        found.append(((batch.end_ns - batch.start_ns) / 1e9, value / 1e9))
    return found


def check_parts(check, found):
    check(all(value <= length + CLOCKS_S for length, value in found),
          "no window has more of it than passed: "
          + ", ".join(f"{value:.3f} of {length:.3f} s" for length, value in found))


def over_windows(check, build):
    with control_agent.Folder() as folder, Blocked(build) as program:
        with daemon(build, folder) as agent:
            time.sleep(WINDOW_S * 0.7)
            program.block()
            time.sleep(WINDOW_S * 4)
            truth = program.release()
            time.sleep(WINDOW_S * 2)
        found = parts(agent)
    check_parts(check, found)
    whole = [value for length, value in found if value >= length * (1 - SHARE)]
    check(len(whole) >= 3, f"{len(whole)} windows are filled by it")
    check_truth(check, "all parts together", sum(value for _, value in found), truth)
    check(found[-1][1] == 0, "nothing of it comes later")


def over_restart(check, build):
    with control_agent.Folder() as folder, Blocked(build) as program:
        program.block()
        with daemon(build, folder) as agent:
            time.sleep(WINDOW_S * 2.5)
            agent.child.kill()
            agent.child.wait()
        before = len(parts(agent))
        with daemon(build, folder) as agent:
            time.sleep(WINDOW_S * 2.5)
            truth = program.release()
            time.sleep(0.5)
        found = parts(agent)
    check(0 < before < len(found), f"windows of both agents ({before}, {len(found) - before})")
    check_parts(check, found)
    covered = sum(length for length, _ in found)
    check_value(check, "what lies in windows", sum(value for _, value in found),
                (covered - 0.5) * (1 - SHARE) - SLACK_S, min(covered, truth) + SLACK_S)


PID_MAX = pathlib.Path("/proc/sys/kernel/pid_max")
CANNOT = 77  # of tests/programs/collide


@contextlib.contextmanager
def many_ids():
    """Ids of more than 16 bits can be had."""
    before = PID_MAX.read_text()
    if int(before) < 1 << 18:
        PID_MAX.write_text(str(1 << 18))
    try:
        yield
    finally:
        PID_MAX.write_text(before)


def collide(build, seconds, while_it_runs):
    """What tests/programs/collide measured."""
    with many_ids(), subprocess.Popen(
            [build / "tests" / "programs" / "collide", "--seconds", str(seconds), "--gate"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        if not program.stdout.readline():
            raise RuntimeError("no two ids that are alike in their lower 16 bits can be had"
                               if program.wait() == CANNOT else "'collide' failed")
        with while_it_runs:
            program.stdin.write("go\n")
            program.stdin.flush()
            truth = json.loads(program.stdout.readline())
            time.sleep(0.5)
        program.stdin.close()
        return {thread["name"]: thread["off_cpu_ns"] / 1e9 for thread in truth["threads"]}


def alike(check, build):
    """A budget that keeps every interval: what is wrong is nobody's chance."""
    with control_agent.Folder() as folder:
        agent = control_agent.Agent(build, folder, {
            ("cpu", "enabled"): "no", ("window", "length"): f"{WINDOW_S}s",
            ("off_cpu", "walk_budget"): "5000"})
        truth = collide(build, WINDOW_S * 2.5, agent)
        seen = {name: 0 for name in truth}
        for batch in spooled(agent.spool):
            for sample in batch.samples:
                name = sample.labels.get("thread")
                if sample.type == OFF_CPU and name in seen:
                    seen[name] += sample.value / 1e9
    for name, seconds in truth.items():
        # Its clock also counts what it waits for a CPU when it has one already.
        check_value(check, f"the {name} one", seen[name], seconds * 0.9, seconds * (1 + SHARE))


CASES = {
    "blocked throughout": blocked_throughout,
    "as long as the window": as_long_as_the_window,
    "released in the window": released_in_the_window,
    "moved between CPUs": moved,
    "the process executes another program": executed,
    "killed": killed,
    "stopped and continued": stopped,
    "blocked over several windows": over_windows,
    "the agent is killed and starts anew": over_restart,
    "two threads with ids alike in their lower 16 bits": alike,
}


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    for name, case in CASES.items():
        print(f"-- {name}", flush=True)
        case(check, build)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
