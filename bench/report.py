# SPDX-License-Identifier: Apache-2.0
"""Results of a benchmark as JSON (everything) and Markdown (what a person compares)."""

import json
import os
import pathlib
import platform
import sys
import time


def machine():
    return {
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "load_average": os.getloadavg(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def cell(spread, scale=1.0, digits=2):
    """`median (min..max)`."""
    if spread is None:
        return "-"
    numbers = [spread[key] / scale for key in ("median", "min", "max")]
    return "{:.{d}f} ({:.{d}f}..{:.{d}f})".format(*numbers, d=digits)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(arguments, name, results, markdown):
    """JSON and Markdown into the folder --out; with --update also into that page."""
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    results["command"] = " ".join(sys.argv)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    (folder / f"{name}.md").write_text(markdown)
    print(markdown)
    print(f"written: {folder / name}.json and .md")
    if arguments.update:
        update(pathlib.Path(arguments.update), name, markdown)


def update(page, name, markdown):
    """Replaces what stands between the two marks of that name in a page."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    head, found, rest = page.read_text().partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"'{page}' has no marks '{begin.strip()}' and '{end}'")
    page.write_text(f"{head}{begin}\n{markdown.strip()}\n\n{measured_on()}\n\n{end}{tail}")
    print(f"updated: {page}")


def measured_on():
    facts = machine()
    return (f"*{facts['time'][:10]}, Linux {facts['kernel']}, {facts['machine']}, "
            f"{facts['cpus']} CPUs, load average {facts['load_average'][0]:.1f} at the end.*")
