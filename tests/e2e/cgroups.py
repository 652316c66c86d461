# SPDX-License-Identifier: Apache-2.0
"""Cgroups as a container runtime makes them: the same path in every hierarchy of this host,
whether it has cgroup v2, v1, or both."""

import os
import pathlib
import time


def hierarchies():
    """Mount points of all cgroup hierarchies, each once."""
    found = {}
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            found.setdefault(kind if kind == "cgroup2" else options, pathlib.Path(path))
    return list(found.values())


class Cgroup:
    """path: below each hierarchy's root, with a leading slash."""

    def __init__(self, path):
        self.folders = [root / path.lstrip("/") for root in hierarchies()]
        self.made = []  # outermost first
        for root, folder in zip(hierarchies(), self.folders):
            for part in [*reversed(folder.relative_to(root).parents), folder.relative_to(root)]:
                self.make(root / part)

    def make(self, folder):
        if folder.exists():
            return
        folder.mkdir()
        self.made.append(folder)
        for name in ("cpuset.cpus", "cpuset.mems"):  # v1: nothing may join before they are set
            above = folder.parent / name
            if above.exists() and above.read_text().strip() and (folder / name).exists():
                (folder / name).write_text(above.read_text())

    def join(self):
        """For a child between fork and exec."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for folder in reversed(self.made):
            for _ in range(50):  # a process that has just ended may still be leaving
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    time.sleep(0.1)
                    continue
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
