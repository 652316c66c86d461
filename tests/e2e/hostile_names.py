#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs, threads and paths named to spoil what prints them: newlines, semicolons, escape
sequences, bytes that are no UTF-8, names that look like folded stacks, labels or arguments. The
agent goes on, the collector takes its batches, and every output stays what it says it is."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from control_agent import Folder
from hostile_outputs import check_outputs
from reference import Check, arguments, skip_unless_live
from watched import Watch

FEWEST = 10  # samples

# Base names of programs; the kernel makes the first 15 bytes the thread's name.
NAMES = {
    "a newline": b"new\nline 7\n",
    "a semicolon": b"main;leaf 12",
    "an escape sequence": b"\x1b]0;owned\x07\x1b[31m",
    "one-character escapes": b"\xc2\x9b31m\xc2\x9d0;owned\xc2\x9c",
    "no UTF-8": b"\xff\xfe\xc3\x28\xed\xa0\x80",
    "a cut character": "αβγδεζηθικ".encode(),  # 15 bytes end inside one
    "a quotation": b"\"}, {x=\"<&'",
    "a false suffix": b"[kernel]_[k] 5",
    "blanks": b"  7  ",
    "a deletion": b"spin (deleted)",
    "right to left": "\u202egpj.elif".encode(),
    "a long name": b"n" * 255,
}

RENAME = """
import ctypes, os, sys, threading, time
name = bytes.fromhex(sys.argv[1])
def work():
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end: sum(range(1000))
thread = threading.Thread(target=work); thread.start(); thread.join()
"""


def start_all(build, folder, seconds):
    """Each name as a program in a directory of that name, and as a thread of a Python."""
    children = {}
    for what, name in NAMES.items():
        place = os.path.join(bytes(folder), name)
        os.mkdir(place)
        program = os.path.join(place, name)
        shutil.copy(build / "tests" / "programs" / "spin", program)
        # Nobody shall have to wait for so many.
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                   "preexec_fn": lambda: os.nice(19)}
        children[what] = subprocess.Popen([program, b"--seconds", str(seconds).encode()],
                                          **options)
        children["thread: " + what] = subprocess.Popen(
            [sys.executable, "-c", RENAME, name.hex(), str(seconds)], **options)
    return children


def quoted(name):
    """A name as a selector's string. What cannot be written there is matched by its length."""
    text = name.decode(errors="replace")
    for letter, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"),
                           ("\t", "\\t")):
        text = text.replace(letter, escape)
    return text


def is_text(name):
    try:
        return "\0" not in name.decode()
    except UnicodeDecodeError:
        return False


def check_labels(check, watch):
    """Names arrive as they are: a selector that spells them finds them."""
    for what, name in NAMES.items():
        # Of a program that runs already only the kernel's text is known, which a file that was
        # deleted and one that is called so share.
        if is_text(name) and not name.endswith(b" (deleted)"):
            seen = watch.samples('{executable="%s"}' % quoted(name))
            check(seen >= FEWEST, f"{what}: the executable is found by its name ({seen})")
        if is_text(name[:15]):
            seen = watch.samples('{thread="%s"}' % quoted(name[:15]))
            check(seen >= FEWEST, f"{what}: the thread is found by its name ({seen})")


def check_total(check, watch):
    """Folded lines add up to what the JSON says is there: no stack was torn in two."""
    until = str(time.time())
    watch.settle()
    tree = watch.query(format="json", to=until).json()
    total = sum(value for _, value in watch.stacks(to=until))
    check(total == tree["stats"]["samples"],
          f"folded stacks hold every sample ({total} of {tree['stats']['samples']})")


def run(check, build, folder):
    children = start_all(build, folder, 600)
    try:
        with Watch(build, folder) as watch:
            watch.settle()
            watch.settle()
            watch.settle()
            check_labels(check, watch)
            check_total(check, watch)
            for what in ("an escape sequence", "a newline", "no UTF-8", "one-character escapes"):
                check_outputs(check, watch, build, children[what].pid, what)
            check(watch.metric("fleetprof_agent_balance_errors_total") == 0, "the books balance")
            check(not list((watch.agent.spool).rglob("quarantine/*")), "no batch went bad")
            check(watch.agent.stop() == 0, "the agent ends when told")
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    with Folder() as folder:
        names = pathlib.Path(folder) / "names"
        names.mkdir()
        run(check, build, names)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
