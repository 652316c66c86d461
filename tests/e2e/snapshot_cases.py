#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`agentctl snapshot` in the cases that people meet: through the agent and without one, every
format, processes that are not there, end, or are no processes, Ctrl-C, and files that cannot
be written."""

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

from control_agent import Agent, Folder, run, wait_for
from reference import Check, arguments, skip_unless_live

SPIN = "while :; do :; done"


class Spinner:
    def __enter__(self):
        self.child = subprocess.Popen(["/bin/sh", "-c", SPIN])
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
            check(agent.metric("fleetprof_agent_snapshots_total") >= 10, "they were counted")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
