# SPDX-License-Identifier: Apache-2.0
"""Results of a benchmark as JSON (everything) and Markdown (what a person compares)."""

import json
import os
import pathlib
import platform
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


def write(folder, name, results, markdown):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    (folder / f"{name}.md").write_text(markdown)
    print(markdown)
    print(f"written: {folder / name}.json and .md")
