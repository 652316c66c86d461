# SPDX-License-Identifier: Apache-2.0
"""Runs a reference program (tests/programs) under `agentctl snapshot` and gives both sides:
the program's truth and the folded stacks. The program waits at its gate until the snapshot's
BPF programs are attached, and stays after its work until the snapshot has ended, so that all
of its work and nothing else is in the profile.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77
LIMIT_S = 60  # of a snapshot, beyond the work; it is ended when that is done


class Check:
    """Counts and prints what holds and what does not."""

    def __init__(self):
        self.failures = 0

    def __call__(self, holds, sentence):
        print(("ok    " if holds else "FAIL  ") + sentence, flush=True)
        self.failures += not holds
        return holds


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    return parser.parse_args()


def full():
    return os.environ.get("FP_TEST_FULL", "") not in ("", "0")


def skip_unless_live():
    """The reasons for which no live profile can be had at all."""
    if os.geteuid() != 0:
        skip("needs root to load BPF programs")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        skip("needs a kernel with BTF (/sys/kernel/btf/vmlinux)")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIP)


class Program:
    """A reference program at its gate."""

    def __init__(self, build, name, *options):
        self.path = build / "tests" / "programs" / name
        self.child = subprocess.Popen([self.path, "--gate", *options], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1)
        words = self.child.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError(f"'{self.path}' did not come to its gate")
        self.pid = int(words[1])

    def work(self):
        """Opens the gate; returns the truth when the work is done."""
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"'{self.path}' ended without a word")
        return json.loads(line)

    def leave(self):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


class Agent:
    """A fleetprof-agent of its own: folders, socket and settings that meet no other agent's."""

    def __init__(self, build, program="agent/fleetprof-agent", environment=None, **settings):
        self.folder = tempfile.TemporaryDirectory(prefix="agent.")
        self.socket = pathlib.Path(self.folder.name) / "control.sock"
        os.mkdir(f"{self.folder.name}/spool")
        options = {"agent-user": "", "agent-listen": "", "agent-control-socket": self.socket,
                   "agent-lock-file": f"{self.folder.name}/lock",
                   "agent-state-directory": self.folder.name,
                   "spool-directory": f"{self.folder.name}/spool", **settings}
        self.log = open(f"{self.folder.name}/log", "w+")
        (pathlib.Path(self.folder.name) / "agent.conf").touch()
        self.child = subprocess.Popen(
            [build / program, "--config", f"{self.folder.name}/agent.conf",
             *(f"--{key}={value}" for key, value in options.items())],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, **(environment or {})})
        self.pid = self.child.pid
        deadline = time.monotonic() + 30
        while not (self.socket.exists() and programs_held(self.pid)):
            if self.child.poll() is not None or time.monotonic() > deadline:
                self.child.kill()
                raise RuntimeError(f"the agent did not start:\n{self.words()}")
            time.sleep(0.1)

    def spool(self):
        return pathlib.Path(self.folder.name) / "spool"

    def stop(self):
        """Ends it; what it sampled is then in the spool. The exit code."""
        self.child.terminate()
        return self.child.wait(60)

    def words(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.child.terminate()
        try:
            self.child.wait(60)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()
        self.folder.cleanup()


def programs_held(pid):
    """Ids of the BPF programs and links that a process holds."""
    held = set()
    try:
        for number in os.listdir(f"/proc/{pid}/fdinfo"):
            text = pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text()
            held.update(re.findall(r"^(?:link_id|prog_id):\s*\d+", text, re.M))
    except OSError:
        pass
    return held


def wait_attached(child, sampler_pid, held_before, timeout_s=30):
    """Until the process that samples (agentctl itself, or the agent) holds more programs."""
    deadline = time.monotonic() + timeout_s
    while not programs_held(sampler_pid) - held_before:
        if child.poll() is not None:
            raise RuntimeError(f"agentctl ended with {child.returncode} before it attached:\n"
                               + child.stderr.read())
        if time.monotonic() > deadline:
            child.kill()
            raise RuntimeError("no BPF program was attached")
        time.sleep(0.05)
    time.sleep(1)  # the rest of its programs and CPUs


def snapshot(build, name, program_options, seconds, *options, agent=None):
    """(truth, [(frames, value)], stderr) of one reference program's work of `seconds`, taken
    by agentctl alone or through `agent`."""
    held = programs_held(agent.pid) if agent else set()
    way = ["--socket", agent.socket] if agent else ["--standalone"]
    with tempfile.TemporaryDirectory(prefix="snapshot.") as folder, \
            Program(build, name, "--seconds", str(seconds), *program_options) as program:
        output = pathlib.Path(folder) / "folded"
        child = subprocess.Popen(
            [build / "agent" / "agentctl", "snapshot", *way, "--pid", str(program.pid),
             "--duration", f"{seconds + LIMIT_S}s", "--format", "folded", "-o", output,
             *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True)
        try:
            wait_attached(child, agent.pid if agent else child.pid, held)
            truth = program.work()
            if child.poll() is not None:
                raise RuntimeError("the snapshot ended before the work did")
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        program.leave()
        if child.returncode != 0:
            raise RuntimeError(f"agentctl ended with {child.returncode}:\n{errors}")
        return truth, folded(output.read_text()), errors


def folded(text):
    """[(frames root first, value)]; the marks of kernel, JIT and inlined frames are kept."""
    stacks = []
    for line in text.splitlines():
        stack, _, value = line.rpartition(" ")
        stacks.append((stack.split(";"), int(value)))
    return stacks


def position(frames, path):
    """Index at which the frames of `path` stand one after the other, or -1."""
    for start in range(len(frames) - len(path) + 1):
        if frames[start : start + len(path)] == path:
            return start
    return -1


def value_on(stacks, path):
    """Sum over the stacks that hold the path, given as `a;b;c`."""
    wanted = path.split(";")
    return sum(value for frames, value in stacks if position(frames, wanted) >= 0)


def steal_seconds():
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")
