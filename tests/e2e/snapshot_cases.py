#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`agentctl snapshot` in the cases that people meet: through the agent and without one, every
format, what can be looked at and by whom, processes that are not there, end, or are no processes,
Ctrl-C, and files that cannot be written."""

import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

from batches import column, fields
from control_agent import Agent, Folder, as_user, run, wait_for
from reference import Check, arguments, skip_unless_live

SPIN = "while :; do :; done"
# Computes, waits for a child, and is woken by its end.
MIX = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; sleep 0.02; done"
USER = "games"
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
FORMATS = ("folded", "json", "table", "svg", "pprof")


class Spinner:
    def __init__(self, loop=SPIN, user=None):
        self.command = [*(as_user(user) if user else []), "/bin/sh", "-c", loop]

    def __enter__(self):
        self.child = subprocess.Popen(self.command)
        wait_for(lambda: pathlib.Path(f"/proc/{self.child.pid}/comm").read_text() == "sh\n",
                 "the loop runs")
        return str(self.child.pid)

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def folded_sum(text):
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def check_formats(check, take, folder, pid):
    """take: agentctl snapshot, one way or the other."""
    short = ("--pid", pid, "--duration", "1s")
    folded = take(*short, "--format", "folded")
    check(folded.returncode == 0 and folded.stdout.startswith("sh;") and
          folded_sum(folded.stdout) > 0, f"folded stacks begin with the thread ({folded.stderr})")
    check("samples" in folded.stderr and "\r" not in folded.stderr,
          "the summary is on standard error, without a progress line")
    check(take(*short, "--quiet").stderr == "", "--quiet is quiet")
    raw = take(*short, "--raw", "--quiet")
    check(re.search(r"^sh;.*\b[0-9a-f]{40}\+0x[0-9a-f]+ \d+$", raw.stdout, re.M) is not None,
          "--raw gives build-ID and offset")
    table = take(*short, "--format", "table", "--quiet")
    check(table.returncode == 0 and f"pid {pid}" in table.stdout, "a table names the process")
    svg = take(*short, "--format", "svg", "--quiet")
    root = xml.etree.ElementTree.fromstring(svg.stdout)
    check(root.tag.endswith("svg"), "an SVG is well-formed")
    packed = folder / "out.pb.gz"
    check(take(*short, "--format", "pprof", "-o", packed, "--quiet").returncode == 0 and
          len(gzip.decompress(packed.read_bytes())) > 100, "pprof is gzip'ed")
    packed = json.loads(take(*short, "--format", "json", "--quiet").stdout)
    check(isinstance(packed, dict) and "sh" in json.dumps(packed), "JSON is JSON")


def check_both(check, take, folder, pid):
    short = ("--pid", pid, "--duration", "1s", "--both")
    picture = folder / "both.svg"
    result = take(*short, "--format", "svg", "-o", picture)
    files = sorted(path.name for path in folder.glob("both*"))
    check(result.returncode == 0 and files == ["both.cpu.svg", "both.off_cpu.svg"] and
          result.stderr.count("wrote '") == 2, f"both with -o are two files, and said so ({files})")
    result = take(*short, "--format", "svg")
    check(result.returncode == 2 and result.stdout == "", "both as SVG on standard output are not")
    result = take(*short, "--format", "table")
    check("CPU" in result.stdout and "Off-CPU" in result.stdout, "a table has both sections")
    result = take(*short, "--format", "folded")
    check(all(line.startswith(("cpu;", "off_cpu;")) for line in result.stdout.splitlines()),
          "folded lines say which they are")


def pprof_sum(packed):
    """Of the last of the values that each sample has, which is nanoseconds."""
    return sum(column(fields(sample), 2)[-1] for sample in fields(gzip.decompress(packed))[2])


def written_sum(path, form):
    """What the file says that there is in all; None where it does not say."""
    if form == "pprof":
        return pprof_sum(path.read_bytes())
    text = path.read_text()
    if form == "json":
        return json.loads(text)["total"]
    if form == "folded":
        return folded_sum(text)
    if form == "svg":
        xml.etree.ElementTree.fromstring(text)
    return None


def told(words, what):
    """The nanoseconds that the summary calls `what`."""
    number, unit = re.search(rf"([\d.,]+) (ns|µs|ms|s) {what}", words).groups()
    return float(number.replace(",", "")) * UNITS[unit]


def near(seen, truth):
    """As near as three digits and a rounding can be."""
    return abs(seen - truth) <= 0.006 * truth + 1


def check_wall(check, take, folder, pid, forms):
    short = ("--pid", pid, "--duration", "1s", "--wall")
    for form in forms:
        path = folder / f"wall.{form}"
        result = take(*short, "--format", form, "-o", path)
        check(result.returncode == 0 and result.stderr.startswith(("Wall: ", "agentctl: "))
              and sorted(folder.glob("wall*")) == [path],
              f"wall time is one file, and summed up ({form})")
        total = written_sum(path, form)
        together = told(result.stderr, "of the threads' time")
        check(total is None or near(total, together),
              f"{form}: {total} ns are what the summary says, {together:.0f} ns")
        if form == "folded":
            check_parts(check, path.read_text(), result.stderr)
        path.unlink()


def check_parts(check, text, words):
    """What was computing has no mark, everything else has one."""
    sums = {"on the CPU": 0, "blocked": 0, "ready to run": 0}
    marks = {"[blocked: interruptible]": "blocked", "[blocked: uninterruptible]": "blocked",
             "[stopped]": "blocked", "[preempted]": "ready to run", "[woken]": "ready to run"}
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        sums[marks.get(stack.rsplit(";", 1)[1], "on the CPU")] += int(value)
    for part, value in sums.items():
        check(near(value, told(words, part)), f"{value} ns are {part}")
    check(all(sums.values()), "the loop does all three")


def check_queue_and_wakers(check, take, folder, pid, forms):
    short = ("--pid", pid, "--duration", "1s", "--off-cpu", "--run-queue", "--wakers")
    for form in forms:
        result = take(*short, "--format", form, "-o", folder / f"queue.{form}")
        paths = {path.name.split(".")[1]: path for path in folder.glob("queue.*")}
        kinds = {"off_cpu", "run_queue", "waker"}
        check(result.returncode == 0 and
              set(paths) == (kinds if form != "table" else {"table"}),
              f"each picture has a file, but a table is one ({form}: {sorted(paths)})")
        check(all(f"\n{title}: " in f"\n{result.stderr}" for title in
                  ("Off-CPU", "Run queue", "Wakers")), "and each is summed up")
        sums = {kind: written_sum(path, form) for kind, path in paths.items()}
        said = dict(zip(("off_cpu", "run_queue", "waker"), (
            told(result.stderr, "blocked on"), told(result.stderr, "ready to run on"),
            told(result.stderr, "blocked before them"))))
        check(all(total is None or near(total, said[kind]) for kind, total in sums.items()),
              f"{form}: what the files hold is what the summary says ({sums}, {said})")
        check(0 < said["waker"] <= said["off_cpu"] * 1.1,
              f"no more was ended by wakers than was waited for ({said})")
        for path in paths.values():
            path.unlink()
    result = take(*short, "--format", "folded")
    lines = result.stdout.splitlines()
    check({line.split(";")[0] for line in lines} == {"off_cpu", "run_queue", "waker"},
          "folded lines say which they are, of three as well")
    woken = [line for line in lines if line.startswith("waker;")]
    check(all(line.count(";[woken by ") == 1 for line in woken) and
          any(";[woken by sleep];" in line for line in woken),
          "each wake-up has a waker, and the child that ends is one")
    check(not [line for line in lines if ";[woken" in line and line not in woken],
          "and only they")


def check_refused(check, take, pid):
    short = ("--pid", pid, "--duration", "1s")
    for more, words in ((("--wall", "--cpu"), "--wall is one picture"),
                        (("--wall", "--wakers"), "--wall is one picture"),
                        (("--run-queue", "--wakers", "--format", "svg"), "several pictures"),
                        (("--off-cpu", "--run-queue", "--format", "json"), "several pictures")):
        result = take(*short, *more)
        check(result.returncode == 2 and result.stdout == "" and words in result.stderr and
              result.stderr.count("\n") == 1, f"{' '.join(more)} is refused ({words})")


def check_others(check, agent):
    """Who wakes may be anybody, so wakers are for root and the group; the rest is the owner's."""
    with Spinner(MIX, USER) as pid:
        def take(*words):
            return agent.ctl("snapshot", "--pid", pid, "--duration", "1s", "--raw", "--format",
                             "folded", *words, user=USER)

        for more in (("--wakers",), ("--off-cpu", "--wakers")):
            result = take(*more)
            check(result.returncode == 4 and result.stdout == "" and
                  result.stderr.count("\n") == 1 and
                  "wakers may be other users' processes" in result.stderr,
                  f"wakers are refused to the owner of a process ({' '.join(more)})")
        result = take("--wall")
        check(result.returncode == 0 and folded_sum(result.stdout) > 0 and
              "[woken by" not in result.stdout, f"wall time is not ({result.stderr[:60]!r})")


def check_processes(check, take):
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    result = take("--pid", str(gone.pid), "--duration", "1s")
    check(result.returncode == 1 and f"no process {gone.pid}" in result.stderr,
          f"a process that is not there ({result.stderr.strip()})")
    result = take("--pid", "2", "--duration", "1s")
    check(result.returncode == 1 and "kernel thread" in result.stderr,
          f"a kernel thread ({result.stderr.strip()})")
    began = time.monotonic()
    with Spinner() as pid:
        threading.Timer(3, os.kill, (int(pid), signal.SIGTERM)).start()
        result = take("--pid", pid, "--duration", "60s", "--format", "folded")
    check(result.returncode == 0 and "ended after" in result.stderr and
          folded_sum(result.stdout) > 0 and time.monotonic() - began < 50,
          f"a process that ends meanwhile leaves what was collected ({result.stderr!r})")
    code = "import threading,time; t = threading.Thread(target=time.sleep, args=(60,)); " \
           "t.start(); print(t.native_id, flush=True)"
    threads = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    thread = threads.stdout.readline().strip()
    result = take("--pid", thread, "--duration", "1s", "--off-cpu")
    threads.kill()
    threads.communicate()
    check(result.returncode == 0 and
          f"{thread} is a thread of process {threads.pid}" in result.stderr,
          f"a thread's number takes its process ({result.stderr!r})")


def tracing_descriptors(pid):
    links = pathlib.Path(f"/proc/{pid}/fd").iterdir()
    return sum("perf" in os.readlink(link) for link in links)


def check_interrupt(check, command, pid, folder, agent):
    out = folder / "early.folded"
    before = tracing_descriptors(agent.child.pid) if agent else 0
    child = subprocess.Popen([*command, "snapshot", "--pid", pid, "--duration", "60s", "-o", out],
                             stderr=subprocess.PIPE, text=True)
    sampler = agent.child.pid if agent else child.pid
    wait_for(lambda: tracing_descriptors(sampler) > before, "it samples")
    time.sleep(3)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    check(child.returncode == 0 and "ended early" in err and folded_sum(out.read_text()) > 0,
          f"Ctrl-C ends early and writes what was collected ({err.splitlines()[:1]})")


def check_output(check, take, folder, pid):
    result = take("--pid", pid, "--duration", "1s", "-o", "/nonexistent/folder/out")
    check(result.returncode == 1 and "'/nonexistent/folder/out'" in result.stderr,
          "a file that cannot be written is named")
    old = folder / "kept"
    old.write_text("old")
    result = take("--pid", pid, "--duration", "1s", "--format", "folded", "-o", "/dev/full")
    check(result.returncode == 1, "a full device is an error")
    check(not [path for path in folder.iterdir() if path.name.startswith("kept.")] and
          old.read_text() == "old", "no partial file is left")


def check_terminal(check, command, pid):
    """On a terminal: a table by default, a progress line, colours."""
    import pty
    master, slave = pty.openpty()
    child = subprocess.Popen([*command, "snapshot", "--pid", pid, "--duration", "3s"],
                             stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    data = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    child.wait()
    os.close(master)
    check(child.returncode == 0 and b"of 3 s" in data and b"Ctrl-C ends early" in data and
          b"pid " + pid.encode() in data, "a terminal gets progress and a table")


def check_way(check, folder, command, agent=None):
    print("-- through the agent" if agent else "-- without an agent", flush=True)

    def take(*words):
        return run([*command, "snapshot", *words])

    with Spinner() as pid:
        check_formats(check, take, folder, pid)
        check_both(check, take, folder, pid)
        check_interrupt(check, command, pid, folder, agent)
        check_output(check, take, folder, pid)
        check_terminal(check, command, pid)
        check_refused(check, take, pid)
    with Spinner(MIX) as pid:
        forms = FORMATS[:1] if agent else FORMATS  # agentctl writes them, one way or the other
        check_wall(check, take, folder, pid, forms)
        check_queue_and_wakers(check, take, folder, pid, forms)
    check_processes(check, take)
    for path in folder.glob("both*"):
        path.unlink()


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    with Folder() as folder:
        agentctl = build / "agent" / "agentctl"
        (folder / "alone").mkdir()
        check_way(check, folder / "alone", [agentctl, "--socket", folder / "none.sock"])
        result = run([agentctl, "--socket", folder / "none.sock", "snapshot", "--pid", "1"],
                     user="nobody")
        check(result.returncode == 3 and "no agent answers" in result.stderr,
              "without an agent and without root it is code 3")
        with Agent(build, folder) as agent:
            (folder / "agent").mkdir()
            check_way(check, folder / "agent", [agentctl, "--socket", agent.socket], agent)
            check_others(check, agent)
            check(agent.metric("fleetprof_agent_snapshots_total") >= 10, "they were counted")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
