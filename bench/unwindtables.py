#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an unwind table costs to make and to keep: CPU time, memory, rows, rules and bytes, for
libraries and programs as Debian ships them.

  unwindtables.py [--build build/release] [--runs 7] [--out …] [--update docs/unwinding.md] [FILE …]

Each file is done in a process of its own (tests/programs/unwindtable, the code that the symbols
role runs), `runs` times in turn; peak memory is that of the process. A file that is not installed
is said and left out.
"""

import argparse
import glob
import json
import pathlib
import subprocess

import report

HERE = pathlib.Path(__file__).resolve().parent
# What it is about → where Debian 12 puts it (package).
FILES = {
    "libc": "/lib/x86_64-linux-gnu/libc.so.6",  # libc6
    "libstdc++": "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",  # libstdc++6
    "libcrypto": "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",  # libssl3
    "libpython 3.11": "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",  # libpython3.11
    "python 3.11": "/usr/bin/python3.11",  # python3.11-minimal
    "postgres": "/usr/lib/postgresql/*/bin/postgres",  # postgresql
    "cc1plus": "/usr/lib/gcc/x86_64-linux-gnu/*/cc1plus",  # g++
    "node": "/usr/bin/node",  # nodejs
    "libLLVM 14": "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",  # libllvm14
    "chromium": "/usr/lib/chromium/chromium",  # chromium
}


def make(program, path):
    output = subprocess.run([program, path], capture_output=True, text=True, check=False).stdout
    return json.loads(output)


def spread(values):
    ordered = sorted(values)
    return {"median": ordered[len(ordered) // 2], "min": ordered[0], "max": ordered[-1]}


def measure(program, path, runs):
    """The table's figures, with the spread of its cost; or why there is none."""
    results = [make(program, path) for _ in range(runs)]
    if "error" in results[0]:
        return results[0]
    return {**results[0],
            "cpu_ms": spread([result["cpu_ms"] for result in results]),
            "peak_kib": spread([result["peak_kib"] for result in results])}


def row(name, result):
    if "error" in result:
        return [name, result["error"]] + ["-"] * 7
    cannot = sum(value for key, value in result.items() if key.startswith("cannot_"))
    return [name, f"{result['entries']:,}", f"{result['rows']:,}", f"{result['rules']:,}",
            f"{cannot:,}", f"{result['bytes'] / 1024:,.0f}",
            f"{result['bytes'] / result['rows']:.2f}",
            f"{report.cell(result['cpu_ms'], 1, 1)}",
            f"{result['peak_kib']['median'] / 1024:.1f}"]


def find(arguments):
    """(name, path) of what is there."""
    wanted = {path: path for path in arguments.files} or FILES
    for name, pattern in wanted.items():
        paths = sorted(glob.glob(pattern))
        if not paths:
            print(f"{name}: not installed ({pattern}), left out")
        for path in paths[-1:]:
            yield name, path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=HERE.parent / "build" / "release", type=pathlib.Path)
    parser.add_argument("--runs", default=7, type=int)
    parser.add_argument("--out", default="bench-results")
    parser.add_argument("--update", help="a page with marks for this table")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    program = arguments.build / "tests" / "programs" / "unwindtable"
    if not program.exists():
        raise SystemExit(f"'{program}' is not built")
    results = {name: measure(program, path, arguments.runs) for name, path in find(arguments)}
    markdown = report.table(
        ["build", "entries", "rows", "rules", "rows that cannot", "KiB", "bytes a row",
         "CPU ms to make", "peak MiB"],
        [row(name, result) for name, result in results.items()])
    report.write(arguments, "unwindtables", {"machine": report.machine(), "builds": results},
                 markdown)


if __name__ == "__main__":
    main()
