# SPDX-License-Identifier: Apache-2.0
"""Measures a running tool from outside: BPF run time, CPU time, resident memory, map memory.

Nothing here knows one profiler from another. A tool is a process and its descendants; its
BPF programs and maps are those its file descriptors refer to (/proc/PID/fdinfo).
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

STATS_SWITCH = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def end_in_order():
    """From now on SIGTERM ends the run as an exception does: what it started is ended, what it
    changed is put back. An agent left behind would be part of every later measurement."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class BpfStats:
    """Run-time statistics of BPF programs, on inside the with block."""

    def __enter__(self):
        self.before = STATS_SWITCH.read_text()
        STATS_SWITCH.write_text("1")
        return self

    def __exit__(self, *exception):
        STATS_SWITCH.write_text(self.before)


def bpftool(*arguments):
    output = subprocess.run(["bpftool", "-j", *arguments], capture_output=True, text=True)
    if output.returncode != 0:
        raise RuntimeError(f"bpftool {' '.join(arguments)}: {output.stdout or output.stderr}")
    return json.loads(output.stdout)


def family(pid):
    """The process and its descendants that still live."""
    members, waiting = [], [pid]
    while waiting:
        member = waiting.pop()
        members.append(member)
        try:
            for task in os.listdir(f"/proc/{member}/task"):
                children = pathlib.Path(f"/proc/{member}/task/{task}/children").read_text()
                waiting += [int(child) for child in children.split()]
        except OSError:
            pass
    return members


def descriptors(pid):
    """(link target, fdinfo text) of every descriptor of a process."""
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            if "bpf" in target or "perf_event" in target:
                yield target, pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text()
        except OSError:
            pass


def bpf_ids(pids):
    """Ids of the programs and maps that the processes hold."""
    programs, maps = set(), set()
    for pid in pids:
        try:
            for _, text in descriptors(pid):
                for line in text.splitlines():
                    key, _, value = line.partition(":")
                    if key == "prog_id":
                        programs.add(int(value))
                    elif key == "map_id":
                        maps.add(int(value))
        except OSError:
            pass
    return programs, maps


def program_counters(pids):
    """{id: {name, type, ns, runs}} of the processes' programs."""
    ids, _ = bpf_ids(pids)
    counters = {}
    for program in bpftool("prog", "show"):
        if program["id"] in ids:
            counters[program["id"]] = {
                "name": program.get("name", ""),
                "type": program["type"],
                "ns": program.get("run_time_ns", 0),
                "runs": program.get("run_cnt", 0),
            }
    return counters


def counter_difference(before, after):
    """What the programs of `after` ran since `before`, those that ran at all."""
    difference = {}
    for number, now in after.items():
        then = before.get(number, {"ns": 0, "runs": 0})
        runs = now["runs"] - then["runs"]
        if runs > 0:
            difference[number] = {**now, "ns": now["ns"] - then["ns"], "runs": runs}
    return difference


def map_bytes(pids):
    """Kernel memory of all maps the processes hold or their programs use."""
    programs, maps = bpf_ids(pids)
    for program in bpftool("prog", "show"):
        if program["id"] in programs:
            maps.update(program.get("map_ids", []))
    return sum(m.get("bytes_memlock", 0) for m in bpftool("map", "show") if m["id"] in maps)


def resident_bytes(pids):
    total = 0
    for pid in pids:
        try:
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        except OSError:
            pass
    return total


def proportional_bytes(pids):
    """Resident memory in which a page that several processes share counts once for all of them."""
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except OSError:
            pass
    return total


def cpu_seconds(pids):
    """User and system time of living processes and of the children they have waited for."""
    ticks = 0
    for pid in pids:
        try:
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        ticks += sum(int(field) for field in text[text.rindex(")") + 2 :].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


class Watch(threading.Thread):
    """Follows the resident memory of a process family."""

    def __init__(self, pid, period_s=0.2):
        super().__init__(daemon=True)
        self.pid, self.period_s = pid, period_s
        self.peak_bytes = 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(self.period_s):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(family(self.pid)))

    def end(self):
        self.ended.set()
        self.join()


class Process:
    """One run of a tool: started, found ready, stopped, weighed."""

    join = None  # what puts the tool into a control group, called before it is executed

    @classmethod
    def before_exec(cls):
        """A shell's background jobs ignore SIGINT, and an ignored signal survives exec."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        if cls.join:
            cls.join()

    def __init__(self, argv, folder, environment=None, stop_signal=signal.SIGINT):
        self.argv, self.stop_signal = argv, stop_signal
        self.stdout_path = folder / "stdout"
        self.stderr_path = folder / "stderr"
        self.started = time.monotonic()
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, **(environment or {})},
                preexec_fn=self.before_exec, start_new_session=True)
        self.pid = self.child.pid
        self.watch = Watch(self.pid)
        self.watch.start()
        self.usage = None

    def counters(self):
        return program_counters(family(self.pid))

    def ended(self):
        """Takes the exit status and resource usage, once there is one."""
        if self.usage is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid != 0:
                self.child.returncode = os.waitstatus_to_exitcode(status)
                self.usage = usage
        return self.usage is not None

    def wait_ready(self, timeout_s=60):
        """Until a program of the tool has run. Returns the seconds since its start."""
        while time.monotonic() - self.started < timeout_s:
            if self.ended():
                self.watch.end()
                raise RuntimeError(f"ended at its start: {self.last_words()}")
            if any(counter["runs"] > 0 for counter in self.counters().values()):
                return time.monotonic() - self.started
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"no BPF program ran within {timeout_s} s: {self.last_words()}")

    def last_words(self):
        lines = self.stderr_path.read_text(errors="replace").strip().splitlines()
        lines += self.stdout_path.read_text(errors="replace").strip().splitlines()[:1]
        return lines[-1] if lines else "no message"

    def stop(self, timeout_s=60):
        """Ends the tool. Its resource usage is then known, with that of its children. bpftrace
        0.17 sometimes loses the signal: one whose programs still run seconds later is told again.
        `told` says how often it was."""
        self.told = 0
        if not self.ended():
            self.tell()
        deadline, again, runs = time.monotonic() + timeout_s, time.monotonic() + 3, None
        while not self.ended():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            elif time.monotonic() > again:
                before, runs = runs, sum(row["runs"] for row in self.counters().values())
                if before is not None and runs > before and not self.ended():
                    self.tell()
                again = time.monotonic() + 3
            time.sleep(0.02)
        self.watch.end()

    def tell(self):
        self.told += 1
        os.kill(self.pid, self.stop_signal)

    def cpu_total_s(self):
        return self.usage.ru_utime + self.usage.ru_stime

    def peak_resident_bytes(self):
        return max(self.watch.peak_bytes, self.usage.ru_maxrss * 1024)


def spread(values):
    """median, min and max; None for no values."""
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "values": list(values)}


def busy_and_steal():
    """Seconds all CPUs were busy, and stolen, since boot."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(field) for field in fields]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(ticks[:3]) + sum(ticks[5:7])) / tick, ticks[7] / tick
