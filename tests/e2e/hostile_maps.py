#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perf maps as no runtime writes them: endless, a FIFO, a link, another user's, nonsense, or
with names made to spoil what prints them. Each belongs to a process that runs code of no file;
all of them run at once, beside one whose map is honest. What is wrong is refused or names
nothing, the honest one is named throughout, and the agent survives the death of whoever reads
them."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from control_agent import Folder, wait_for
from hostile_outputs import check_outputs
from reference import Check, arguments, skip_unless_live
from watched import Watch

LOAD_S = 600  # until killed
FEWEST = 10  # samples
RECOVERY_S = 30  # of a role that was killed twice
LIMIT = 1 << 20  # symbols.perf_map_max_size
STRANGER = 65534
HONEST = b"honest_function"
SECRET = b"secret_function"
EVIL = b"evil;name \x1b]0;owned\x07\x1b[31m\xc2\x9b32m\xff\xfe\xc3 end"


class Load:
    """jitcode under a name of its own at its gate, with a perf map that the test makes."""

    def __init__(self, build, folder, name, functions=2):
        self.name = f"fp-map-{name}"
        program = folder / self.name
        shutil.copy(build / "tests" / "programs" / "jitcode", program)
        self.child = subprocess.Popen(
            [program, "--threads", str(functions), "--seconds", str(LOAD_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            preexec_fn=lambda: os.nice(19))  # nobody shall have to wait for so many
        words = self.child.stdout.readline().split()
        self.size = int(words[2])
        self.addresses = [int(word, 16) for word in words[3:]]
        self.map = pathlib.Path(f"/tmp/perf-{self.child.pid}.map")

    def lines(self, name):
        """A line for each function."""
        return b"".join(b"%x %x %s\n" % (address, self.size, name) for address in self.addresses)

    def begin(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def close(self):
        self.child.kill()
        self.child.communicate()
        if self.map.is_symlink() or self.map.exists():
            self.map.unlink()


def honest(load, folder):
    load.map.write_bytes(load.lines(HONEST))


def endless(load, folder):
    """Sparse, so it costs nothing here; its name stands behind the limit."""
    with open(load.map, "wb") as file:
        file.seek(10 << 30)
        file.write(b"\n" + load.lines(SECRET))


def long_list(load, folder):
    """Valid lines past the limit, then the one that matters."""
    line = b"10 10 f\n"
    load.map.write_bytes(line * (LIMIT // len(line) + 1) + load.lines(SECRET))


def fifo(load, folder):
    os.mkfifo(load.map)


def link(load, folder):
    """To a file that nobody but root may read."""
    target = folder / "secret"
    target.write_bytes(load.lines(SECRET))
    target.chmod(0o600)
    load.map.symlink_to(target)


def foreign(load, folder):
    load.map.write_bytes(load.lines(SECRET))
    os.chown(load.map, STRANGER, STRANGER)


def device(load, folder):
    os.mknod(load.map, 0o20644, os.makedev(1, 5))  # /dev/zero


def folder_instead(load, folder):
    load.map.mkdir()


def nonsense(load, folder):
    """What cannot be a line, and numbers that overflow, in front of one that is right."""
    start = b"%x" % load.addresses[0]
    load.map.write_bytes(b"\n".join([
        b"", b" ", b"zz 10 x", start, start + b" ", start + b" 0 empty", start + b" -1 minus",
        start + b" ffffffffffffffff wraps", b"f" * 40 + b" 10 long", b"0x 0x 0x", b"\0" * 300,
        bytes(range(256)) * 40, b"1 1", start + b" 10 " + b"n" * 200000,
        b"ffffffffffffffff ffffffffffffffff end", load.lines(HONEST)]))


def evil(load, folder):
    load.map.write_bytes(load.lines(EVIL))


def overlapping(load, folder):
    """A map that changes its mind: the last one holds."""
    load.map.write_bytes(b"%x %x whole_process\n" % (0x1000, 0x7fffffffe000) +
                         load.lines(b"first_version") + load.lines(HONEST))


def growing(load, folder):
    """Half a line when the agent first looks; the rest comes while it runs (grow)."""
    load.map.write_bytes(load.lines(HONEST)[:-5])


def grow(load):
    with open(load.map, "ab") as file:
        file.write(load.lines(HONEST)[-5:])


# What each map must lead to: the name its frames have, None: no name at all.
MAPS = {"honest": (honest, HONEST), "endless": (endless, None), "long": (long_list, None),
        "fifo": (fifo, None), "link": (link, None), "foreign": (foreign, None),
        "device": (device, None), "folder": (folder_instead, None),
        "nonsense": (nonsense, HONEST), "overlap": (overlapping, HONEST),
        "growing": (growing, HONEST), "evil": (evil, EVIL), "absent": (lambda *_: None, None)}


def role_pid(agent):
    """The child that parses."""
    children = pathlib.Path(f"/proc/{agent.child.pid}/task/{agent.child.pid}/children")
    for child in children.read_text().split():
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            continue
        if b"--symbols-role" in words:
            return int(child)
    return 0


def named(stacks):
    """Samples by the name of their innermost JIT frame; what has none under ''."""
    counts = {}
    for frames, value in stacks:
        name = next((frame for frame in reversed(frames) if frame.endswith("_[j]")), "")
        counts[name] = counts.get(name, 0) + value
    return counts


def check_names(check, watch):
    for name, (_, wanted) in MAPS.items():
        program = f"fp-map-{name}"
        counts = named(watch.stacks('{executable="%s"}' % program))
        total = sum(counts.values())
        if not check(total >= FEWEST, f"'{program}' was sampled ({total})"):
            continue
        if wanted is None:
            check(set(counts) == {""}, f"'{program}' is given no name ({counts})")
        elif wanted == EVIL:
            most = max(counts, key=counts.get)
            check(most.startswith("evil") and most.endswith("end_[j]") and "owned" in most and
                  most.isprintable() and ";" not in most and
                  "\\x1b" in most,
                  f"'{program}' has its name, made harmless ({most})")
        else:
            right = counts.get(wanted.decode() + "_[j]", 0)
            check(right > 0.5 * total and not any("secret" in key or "whole" in key or
                                                  "first" in key for key in counts),
                  f"'{program}' is named {wanted.decode()} ({counts})")


def check_role_killed(check, watch):
    """The one that parses is killed: counted, started again, and names go on."""
    starts = 'fleetprof_agent_symbol_child_starts_total{child="symbols"}'
    before, pid = watch.metric(starts), role_pid(watch.agent)
    if not check(pid > 0 and before, f"the symbols role runs ({pid}, {before} starts)"):
        return
    for _ in range(2):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: role_pid(watch.agent) not in (0, pid), "the role is started again")
        pid = role_pid(watch.agent)
    wait_for(lambda: watch.metric(starts) >= before + 2, "its starts are counted")
    check(watch.agent.get("healthz") == 200, "the agent is healthy")
    # What was sampled meanwhile, and in the pause before a role that died twice, has no names.
    deadline = time.monotonic() + RECOVERY_S
    total = ours = 0
    while not (total and ours > total / 2) and time.monotonic() < deadline:
        watch.settle()
        watch.since = time.time()
        watch.settle()
        watch.settle()
        counts = named(watch.stacks('{executable="fp-map-honest"}'))
        total, ours = sum(counts.values()), counts.get(HONEST.decode() + "_[j]", 0)
    check(total > 0 and ours > total / 2,
          f"the new one knows the maps within {RECOVERY_S} s ({counts})")


def check_rights(check, watch):
    pid = role_pid(watch.agent)
    if not check(pid > 0, "the symbols role runs"):
        return
    facts = dict(line.split(":\t", 1) for line in
                 pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    check(int(facts["CapPrm"], 16) == 0 and int(facts["CapEff"], 16) == 0,
          "the symbols role has no capability")
    check(facts["Seccomp"] == "2", "its system calls are filtered")
    check("0" not in facts["Uid"].split(), f"it is not root ({facts['Uid']})")
    check(facts["NoNewPrivs"] == "1", "it gains nothing by exec")


def run(check, build, folder, loads):
    for name, (make, _) in MAPS.items():
        loads[name] = Load(build, folder, name)
        make(loads[name], folder)
    with Watch(build, folder, {("symbols", "perf_map_max_size"): "1MiB"}) as watch:
        for load in loads.values():
            load.begin()
        time.sleep(4)  # the first windows see half of the growing one
        grow(loads["growing"])
        time.sleep(1)
        watch.settle()
        watch.since = time.time()
        for _ in range(3):
            watch.settle()
        check_names(check, watch)
        check_rights(check, watch)
        check_role_killed(check, watch)
        check_outputs(check, watch, build, loads["evil"].child.pid, "a JIT name")
        refused = watch.metric("fleetprof_agent_perf_maps_refused_total")
        check(refused and refused >= 4, f"refused maps are counted ({refused})")
        check(watch.metric("fleetprof_agent_balance_errors_total") == 0, "the books balance")
        check(watch.agent.stop() == 0, "the agent ends when told")


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    loads = {}
    with Folder() as folder:
        try:
            run(check, build, folder, loads)
        finally:
            for load in loads.values():
                if load.map.is_dir():
                    load.map.rmdir()
                load.close()
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
