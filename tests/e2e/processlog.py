# SPDX-License-Identifier: Apache-2.0
"""What every process of the host had mapped when, as `perf record` saw it: an observer with a
perf event ring, a reader and a clock of its own. It takes no samples; the kernel tells it of
each fork, exec, executable mapping and exit, on the clock on which the agent stamps samples.

It asks for build-IDs in the records although it has no use for them: Linux up to 6.18 at least
leaves the mark "with a build-ID" of one reader's record (the agent's) on the next reader's,
which did not ask and has none in it, and perf's parser then runs over its stack."""

import bisect
import collections
import os
import re
import shutil
import signal
import subprocess
import time

Mapping = collections.namedtuple("Mapping", "start end page_offset path")
LINE = re.compile(r"^.*?\s(\d+)\.(\d{9}): PERF_RECORD_(\w+)(.*)$")
PAIRS = re.compile(r"\((\d+):(\d+)\)")
MMAP = re.compile(r" (-?\d+)/\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (\S+) .*?\]: (\S{4}) (.*)$")
COMM = re.compile(r"( exec)?: (.*):(\d+)/(\d+)$")
START_S = 30


class Generation:
    """One program in one process: from its fork or exec on."""

    def __init__(self, time_ns, comm, mappings=()):
        self.time_ns, self.comm = time_ns, comm
        self.times, self.states = [time_ns], [tuple(mappings)]

    def map(self, time_ns, new):
        kept = [old for old in self.states[-1] if old.end <= new.start or old.start >= new.end]
        self.times.append(time_ns)
        self.states.append(tuple(kept) + (new,))

    def mapping(self, time_ns, address):
        for entry in self.states[max(0, bisect.bisect_right(self.times, time_ns) - 1)]:
            if entry.start <= address < entry.end:
                return entry
        return None


class ProcessLog:
    """Records inside the with block; `generation` answers afterwards."""

    def __init__(self, folder):
        self.path = folder / "perf.data"
        self.by_pid = collections.defaultdict(list)
        self.parents = collections.defaultdict(list)  # pid → [(time, parent)]
        self.lost = []
        self.odd = []  # of tasks and files whose names break perf's lines

    @staticmethod
    def why_not():
        if not shutil.which("perf"):
            return "needs perf (Debian package linux-perf)"
        return None

    def __enter__(self):
        self.child = subprocess.Popen(
            ["perf", "record", "-a", "-e", "dummy:u", "-k", "CLOCK_MONOTONIC", "-m", "4M", "-N",
             "-B", "--buildid-mmap", "--no-bpf-event", "-o", self.path],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        deadline = time.monotonic() + START_S
        while not self.holds_rings():
            if self.child.poll() is not None or time.monotonic() > deadline:
                self.child.kill()
                raise RuntimeError(f"perf did not start: {self.child.stderr.read().decode()}")
            time.sleep(0.05)
        time.sleep(1)  # what already runs is read from /proc first
        return self

    def holds_rings(self):
        try:
            descriptors = os.listdir(f"/proc/{self.child.pid}/fd")
            links = [os.readlink(f"/proc/{self.child.pid}/fd/{fd}") for fd in descriptors]
        except OSError:
            return False
        return sum("perf_event" in link for link in links) >= os.cpu_count() and \
            self.path.exists() and self.path.stat().st_size > 0

    def __exit__(self, *exception):
        self.child.send_signal(signal.SIGINT)
        try:
            _, said = self.child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise RuntimeError("perf does not end") from None
        self.said = said.decode(errors="replace").strip()
        if exception[0] is None:
            self.read()

    def read(self):
        script = subprocess.Popen(
            ["perf", "script", "-i", self.path, "--ns", "--show-mmap-events",
             "--show-task-events", "--show-lost-events"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="backslashreplace")
        events = []
        for line in script.stdout:
            match = LINE.match(line.rstrip("\n"))
            if match:
                seconds, ns, kind, rest = match.groups()
                events.append((int(seconds) * 10**9 + int(ns), kind, rest))
        if script.wait() != 0:
            raise RuntimeError(f"perf script ended with {script.returncode}")
        for time_ns, kind, rest in events:  # perf script sorts by time
            self.event(time_ns, kind, rest)

    def event(self, time_ns, kind, rest):
        if kind == "FORK":
            (child, tid), (parent, _) = [tuple(map(int, pair)) for pair in PAIRS.findall(rest)]
            if child == tid and child != parent:
                before = self.by_pid[parent][-1] if self.by_pid[parent] else None
                self.by_pid[child].append(Generation(
                    time_ns, before.comm if before else "", before.states[-1] if before else ()))
                self.parents[child].append((time_ns, parent))
        elif kind == "COMM":
            match = COMM.match(rest)
            if not match:
                self.odd.append(rest)
                return
            execs, name, pid, tid = match.groups()
            if execs:
                self.by_pid[int(pid)].append(Generation(time_ns, name))
            elif pid == tid and self.by_pid[int(pid)]:
                self.by_pid[int(pid)][-1].comm = name
        elif kind == "MMAP2":
            match = MMAP.match(rest)
            if not match:
                self.odd.append(rest)
                return
            pid, start, size, offset, rights, path = match.groups()
            if "x" in rights and pid != "-1":
                if not self.by_pid[int(pid)]:
                    self.by_pid[int(pid)].append(Generation(time_ns, ""))
                start, size = int(start, 16), int(size, 16)
                self.by_pid[int(pid)][-1].map(time_ns, Mapping(start, start + size,
                                                               int(offset, 16), path))
        elif kind.startswith("LOST"):
            self.lost.append((time_ns, rest))

    def generation(self, pid, time_ns):
        """The program that ran in the process then, or None."""
        generations = self.by_pid.get(pid, ())
        index = bisect.bisect_right([entry.time_ns for entry in generations], time_ns) - 1
        return generations[index] if index >= 0 else None

    def family(self, root):
        """{pid: [times of birth]} of the process and all that descend from it."""
        children = collections.defaultdict(list)
        for pid, births in self.parents.items():
            for time_ns, parent in births:
                children[parent].append((time_ns, pid))
        members, waiting = {root: [self.parents[root][-1][0] if self.parents[root] else 0]}, [root]
        while waiting:
            for time_ns, pid in children[waiting.pop()]:
                if pid not in members:
                    waiting.append(pid)
                members.setdefault(pid, []).append(time_ns)
        return members
