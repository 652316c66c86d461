#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node and OpenJDK show their JITed functions by name: on the host, in pid and mount namespaces
of their own, and in a container; in a snapshot, in what the agent ships, and when the process
has ended before the agent drained what it sampled. The programs clock the functions themselves,
so the shares are compared as well."""

import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from places import Container, Host, Namespaces
from reference import Check, arguments, folded, full, skip, skip_unless_live, wait_attached
from watched import Watch

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
SNAPSHOT_HZ, SNAPSHOT_S = 397, 10 if full() else 3
HOT_SHARE = 0.6  # of all samples of the program, at least; it is 75 % but for what runs beside
STANDARD_ERRORS = 4
SHORT_S = 2  # how long the processes work that end before the drain
UNNAMED_SHARE = 0.02


class Node:
    thread = "node"
    hot, warm = r"\bhotSum\b.*_\[j\]$", r"\bwarmSum\b.*_\[j\]$"
    caller = r"\boneTurn\b.*_\[j\]$"

    def __init__(self):
        self.program = os.path.realpath(shutil.which("node"))

    def prepare(self, folder):
        shutil.copy(PROGRAMS / "jitload.js", folder)

    def command(self, files, *options):
        # Nothing inlined: the two functions are what the test looks for. Interpreted frames get
        # a symbol each, which without the flag are all one trampoline's.
        return [self.program, "--perf-basic-prof", "--interpreted-frames-native-stack",
                "--no-turbo-inlining", str(files / "jitload.js"), *options]

    def short(self, place):
        """Runs for SHORT_S and ends."""
        with place.start(self.command(place.files, str(SHORT_S))) as running:
            running.ready()
            return running.end()

    def before_work(self, running, pid):
        """V8 writes the map as it compiles."""


class FewFunctions(Node):
    """As people run it in production: only functions, no bytecode handlers and stubs."""

    def command(self, files, *options):
        words = super().command(files, *options)
        return [word.replace("--perf-basic-prof", "--perf-basic-prof-only-functions")
                for word in words]


class Java:
    thread = "java"
    hot, warm = r"JitLoad\.hotSum\b.*_\[j\]$", r"JitLoad\.warmSum\b.*_\[j\]$"
    caller = r"JitLoad\.oneTurn\b.*_\[j\]$|\bInterpreter\b.*_\[j\]$"

    def __init__(self):
        self.program = os.path.realpath(shutil.which("java"))
        self.jcmd = os.path.realpath(shutil.which("jcmd"))

    def prepare(self, folder):
        subprocess.run(["javac", "-d", folder, PROGRAMS / "JitLoad.java"], check=True)

    def command(self, files):
        # -Xbatch: what is hot is compiled before it goes on, so it is in the map.
        return [self.program, "-Xbatch", "-XX:+PreserveFramePointer",
                "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,JitLoad.*Sum", "-cp", str(files), "JitLoad"]

    def short(self, place):
        with place.start(self.command(place.files)) as running:
            self.before_work(running, running.ready())
            running.begin()
            time.sleep(SHORT_S)
            return running.end()

    def before_work(self, running, pid):
        """HotSpot writes the map when it is told to."""
        said = running.run(self.jcmd, str(pid), "Compiler.perfmap")
        if "successfully" not in said:
            raise RuntimeError(f"jcmd: {said}")


def value_of(stacks, pattern):
    return sum(value for frames, value in stacks if re.search(pattern, frames[-1]))


def judge(check, runtime, stacks, truth, where, whole=True):
    """The functions by name, and as often as they ran. whole: the stacks are of the work
    alone."""
    total = sum(value for _, value in stacks)
    hot, warm = value_of(stacks, runtime.hot), value_of(stacks, runtime.warm)
    if not check(hot > 0 and warm > 0, f"{where}: both functions are named "
                 f"({hot} and {warm} of {total} samples)"):
        leaves = {}
        for frames, value in stacks:
            leaves[frames[-1]] = leaves.get(frames[-1], 0) + value
        print(sorted(leaves.items(), key=lambda item: -item[1])[:8])
        return
    if whole:
        check(hot >= HOT_SHARE * total, f"{where}: the hot one has {hot / total:.1%}")
        nameless = sum(value for frames, value in stacks if frames[-1].startswith("["))
        check(nameless <= UNNAMED_SHARE * total,
              f"{where}: {nameless} of {total} samples end in no function")
    if truth:
        said = truth["hot"] / (truth["hot"] + truth["warm"])
        seen = hot / (hot + warm)
        error = STANDARD_ERRORS * math.sqrt(said * (1 - said) / (hot + warm))
        check(abs(seen - said) <= error, f"{where}: of the two it has {seen:.1%}, it says "
              f"{said:.1%} ± {error:.1%}")
    below = sum(value for frames, value in stacks if re.search(runtime.hot, frames[-1]) and
                len(frames) > 1 and re.search(runtime.caller, frames[-2]))
    # One that was compiled again since the map was written is in no map.
    check(below >= 0.75 * hot, f"{where}: its caller is named below it ({below} of {hot})")


def take_snapshot(build, pid, folder):
    output = folder / "snapshot.folded"
    child = subprocess.Popen(
        [build / "agent" / "agentctl", "snapshot", "--standalone", "--pid", str(pid), "--hz",
         str(SNAPSHOT_HZ), "--duration", f"{SNAPSHOT_S}s", "--format", "folded", "-o", output],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_attached(child, child.pid, set())
    _, errors = child.communicate(timeout=120)
    if child.returncode != 0:
        raise RuntimeError(f"agentctl ended with {child.returncode}: {errors}")
    return folded(output.read_text())


def check_snapshot(check, build, folder, runtime, place):
    with place.start(runtime.command(place.files)) as running:
        runtime.before_work(running, running.ready())
        running.begin()
        stacks = take_snapshot(build, running.pid, folder)
        truth = json.loads(running.end())
    judge(check, runtime, stacks, truth, f"{type(runtime).__name__} {place.name}, snapshot")


def check_shipped(check, watch, runtimes, place):
    """In what the agent ships: processes that are gone before the drain."""
    selectors = ['{executable="%s"}' % runtime.thread for runtime in runtimes]
    before = [watch.stacks(selector) for selector in selectors]
    truths = [json.loads(runtime.short(place)) for runtime in runtimes]
    watch.settle()
    for runtime, selector, earlier, truth in zip(runtimes, selectors, before, truths):
        judge(check, runtime, without(watch.stacks(selector), earlier), truth,
              f"{type(runtime).__name__} {place.name}, ended before the drain", whole=False)


def without(stacks, earlier):
    """What has come since: the collector adds up all windows."""
    rest = {}
    for sign, part in ((1, stacks), (-1, earlier)):
        for frames, value in part:
            key = tuple(frames)
            rest[key] = rest.get(key, 0) + sign * value
    return [(list(frames), value) for frames, value in rest.items() if value > 0]


def forget_maps(since):
    """What the runtimes left in the host's /tmp."""
    for path in pathlib.Path("/tmp").glob("perf-*.map"):
        if re.fullmatch(r"perf-\d+\.map", path.name) and path.stat().st_mtime >= since and \
                not os.path.exists(f"/proc/{path.name[5:-4]}"):
            path.unlink()


def run(check, build, folder):
    began = time.time()
    runtimes = [Node(), FewFunctions(), Java()]
    for runtime in runtimes:
        runtime.prepare(folder)
    places = [Host(folder), Namespaces(folder), Container(folder)]
    try:
        for place in places:
            for runtime in runtimes:
                check_snapshot(check, build, folder, runtime, place)
        with Watch(build, folder, {("window", "length"): "6s",
                                   ("window", "drain_interval"): "6s"}) as watch:
            for place in places:
                check_shipped(check, watch, runtimes[1:], place)
    finally:
        for place in places:
            place.close()
        forget_maps(began)


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    for tool in ("node", "java", "javac", "jcmd", "unshare", "nsenter"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    if missing := Container.missing():
        skip(f"{missing} is not installed")
    check = Check()
    with tempfile.TemporaryDirectory(prefix="fleetprof-jit.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        run(check, build, folder)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
