# SPDX-License-Identifier: Apache-2.0
"""The profilers of unwindcompare.py: how each takes CPU profiles of the whole host, and how its
output is read. `stacks` gives one row per line of the output: Row(pid, time, frames, count,
lost), frames innermost first as (path or None, file offset), kernel frames left out."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import time

import measure
import tools

sys.path.append(str(tools.ROOT / "tests" / "e2e"))

import batches  # noqa: E402

# ours: whether it is of the load, where the tool itself knows (None: ask the pid). lost: the tool
# took a sample and says that it has no stack for it.
Row = collections.namedtuple("Row", "pid ours frames count lost")
KERNEL_START = 1 << 63


class Located:
    """Addresses of processes that may be gone, as files and offsets. An address counts for a
    pid may be of any program that ran in it; a stack is placed in the one that knows most of it."""

    def __init__(self, log):
        self.log = log

    def frames(self, pid, addresses):
        best = [(None, address) for address in addresses]
        for generation in self.log.by_pid.get(pid, ()):
            found = [self.place(generation, address, index) for index, address in
                     enumerate(addresses)]
            if sum(path is not None for path, _ in found) > \
                    sum(path is not None for path, _ in best):
                best = found
        return best

    @staticmethod
    def place(generation, address, index):
        # A return address may be the first byte behind its function's mapping.
        entry = generation.mapping(1 << 62, address - (index > 0))
        return (entry.path, address - entry.start + entry.page_offset) if entry \
            and entry.path.startswith("/") else (None, address)


class Bpftrace(tools.Bpftrace):
    """With the pid in the key, to know whose a stack is, and addresses beside the names. Symbols
    are cached, which 0.17 does not do by itself: while it looks them up for each stack anew it
    loses the descriptor of its stacks, and of what it prints after that most is empty (error -9).
    Names are then perhaps another process's, which is of no matter here: addresses are its own."""

    environment = {**tools.Bpftrace.environment, "BPFTRACE_CACHE_USER_SYMBOLS": "1"}

    cpu_program = "profile:hz:%d /pid/ { @[pid, comm, ustack(perf), kstack] = count(); }"
    in_kernel = True
    LOST = re.compile(r"failed to look up stack id -?\d+ \(pid (\d+)\)")

    def stacks(self, process, located, _):
        errors = process.stderr_path.read_text(errors="replace")
        lost = {int(pid) for pid in self.LOST.findall(errors)}
        pid, addresses = 0, []
        for line in process.stdout_path.read_text(errors="replace").splitlines():
            head = re.match(r"@\[(\d+), ", line)
            if head:
                pid, addresses = int(head.group(1)), []
            elif line.startswith("\t"):
                addresses.append(int(line.split()[0], 16))
            end = re.search(r"\]: (\d+)$", line)
            if end and not line.startswith("\t"):
                yield Row(pid, None, located.frames(pid, addresses), int(end.group(1)),
                          not addresses and pid in lost)
                addresses = []

    def written(self, process, _):
        return process.stdout_path.stat().st_size


# profile-bpfcc prints names alone. It runs unchanged, but that each name has its address behind it.
BCC_WRAPPER = """
import runpy, sys, bcc
name_of = bcc.BPF.sym
def sym(address, pid, *args, **kwargs):
    return b"%s@%x" % (name_of(address, pid, *args, **kwargs), address)
bcc.BPF.sym = staticmethod(sym)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class ProfileBpfcc(tools.ProfileBpfcc):
    """Its long form, which has the pid. User frames stand behind kernel frames, then who it was."""

    in_kernel = True

    def version(self):
        return f"bpfcc-tools {super().version()}"

    def start(self, folder):
        path = subprocess.run(["which", self.needs], capture_output=True, text=True,
                              check=True).stdout.strip()
        argv = ["/usr/bin/python3", "-c", BCC_WRAPPER, path, "-F", str(self.cpu_hz), "-d"]
        return measure.Process(argv, folder, {"BCC_KERNEL_SOURCE": self.header_folder()})

    def stacks(self, process, located, _):
        addresses, lost, pid = [], False, None
        for line in process.stdout_path.read_text(errors="replace").splitlines():
            frame = re.match(r"    .*@([0-9a-f]+)$", line)
            owner = re.match(r"    -\s+.* \((\d+)\)$", line)
            count = re.match(r" {8}(\d+)$", line)
            if frame:
                addresses.append(int(frame.group(1), 16))
            elif "[Missed User Stack]" in line:
                lost = True
            elif owner:
                pid = int(owner.group(1))
            elif count and pid is not None:
                yield Row(pid, None, located.frames(pid, addresses), int(count.group(1)), lost)
                addresses, lost, pid = [], False, None

    def written(self, process, _):
        return process.stdout_path.stat().st_size


class Perf(tools.Tool):
    """perf record, and then perf script, which unwinds what was recorded. Idle CPUs are left out
    (the modifier I). Inlined functions are not looked for: Debian's perf starts addr2line for
    each, and no other tool here does it. Build-IDs are asked of the kernel, since else perf script
    ends with a buffer overflow wherever the kernel mixes up readers (tests/e2e/processlog.py);
    perf record is then spared to read them at its end."""

    needs = "perf"
    in_kernel = False

    def __init__(self, cpu_hz, graph):
        super().__init__(cpu_hz)
        self.graph, self.name = graph, f"perf, {graph}"

    def version(self):
        return subprocess.run(["perf", "--version"], capture_output=True, text=True).stdout.strip()

    def start(self, folder):
        self.data = folder / "perf.data"
        return measure.Process(["perf", "record", "-a", "-F", str(self.cpu_hz), "-e",
                                "cpu-clock:I", "-k", "CLOCK_MONOTONIC", "--call-graph", self.graph,
                                "--buildid-mmap", "-o", self.data], folder)

    def wait_ready(self, process):
        """Until its rings are open, and what ran before is read from /proc."""
        deadline = time.monotonic() + 30
        while sum("perf_event" in target for target, _ in measure.descriptors(process.pid)) < \
                os.cpu_count() or not self.data.exists() or not self.data.stat().st_size:
            if process.ended() or time.monotonic() > deadline:
                raise RuntimeError(f"perf did not start: {process.last_words()}")
            time.sleep(0.05)
        time.sleep(0.5)

    def script(self, folder):
        """The command of the second half; whoever runs it weighs it."""
        return ["perf", "script", "-i", self.data, "--ns", "--no-inline", "-F",
                "pid,time,ip,sym,dso"], folder / "script"

    # perf gives user frames as offsets in their file, and callers by the byte before the return.
    SAMPLE = re.compile(r"^\s*(-?\d+)\s+(\d+)\.(\d{9}):")
    FRAME = re.compile(r"^\s+([0-9a-f]+) .*\((.*)\)$")

    def stacks(self, process, _, folder):
        pid, frames, self.times = None, [], []
        with open(folder / "script", encoding="utf-8", errors="replace") as text:
            for line in [*text, "\n"]:
                head = self.SAMPLE.match(line)
                frame = self.FRAME.match(line)
                if head:
                    pid = int(head.group(1))
                    self.times.append(int(head.group(2)) * 10**9 + int(head.group(3)))
                elif frame and int(frame.group(1), 16) < KERNEL_START and \
                        not frame.group(2).startswith("[kernel"):
                    path = frame.group(2)
                    frames.append((path if path.startswith("/") else None,
                                   int(frame.group(1), 16)))
                elif not line.strip() and pid is not None:
                    yield Row(pid, None, frames, 1, False)
                    pid, frames = None, []

    def written(self, process, _):
        return self.data.stat().st_size


class Fleetprof(tools.Fleetprof):
    """The daemon as a host runs it, that has been at work for a while: windows are as long as what
    is measured, and the first ones are not counted. Whose a sample is says its control group's
    label; pids are in no batch."""

    in_kernel = True
    warm_s = 12  # in which builds are met, and tables made and loaded

    def __init__(self, cpu_hz, tables, seconds, unit):
        super().__init__(cpu_hz)
        self.name = f"fleetprof, tables {tables}"
        self.unit, self.seconds = unit, seconds
        self.own = (f"unwind.tables={tables}", f"window.length={seconds}s",
                    "window.jitter_percent=0", f"window.drain_interval={min(5, seconds)}s")

    def start(self, folder):
        shared = self.settings
        self.settings = (*self.own, *shared)
        try:
            return super().start(folder)
        finally:
            self.settings = shared

    def await_window(self, process, folder, number):
        """Until the window of that number (from 0) is spooled."""
        deadline = time.monotonic() + (number + 1) * self.seconds + 60
        while len(list((folder / "spool").glob("*.batch"))) <= number:
            if process.ended() or time.monotonic() > deadline:
                raise RuntimeError(f"no window {number} was spooled: {process.last_words()}")
            time.sleep(0.02)

    def windows(self, folder):
        """(batch, its file) of the one that counts, once it is there."""
        paths = sorted((folder / "spool").glob("*.batch"))
        warm = -(-self.warm_s // self.seconds)
        return batches.Batch(paths[warm]), paths[warm]

    def warm(self, process, folder):
        self.await_window(process, folder, -(-self.warm_s // self.seconds) - 1)

    def measured(self, process, folder):
        self.await_window(process, folder, -(-self.warm_s // self.seconds))

    def stacks(self, process, _, folder):
        for sample in self.windows(folder)[0].samples:
            if sample.type != batches.CPU:
                continue
            frames = [(frame.build.path if frame.kind == batches.FILE else None, frame.offset)
                      for frame in sample.frames
                      if frame.kind not in (batches.KERNEL, batches.MODULE)]
            yield Row(None, sample.labels.get("systemd_unit") == self.unit, frames, sample.count,
                      False)

    def written(self, _, folder):
        return self.windows(folder)[1].stat().st_size


def maps_mib(process):
    return measure.map_bytes(measure.family(process.pid)) / (1 << 20)
