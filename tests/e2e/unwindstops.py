# SPDX-License-Identifier: Apache-2.0
"""What unwindref (tests/programs/unwindref.c) printed: stops of threads, each with the stack that
libdwfl found and the one that our walker did, and how the two differ."""

import bisect
import collections
import os

WHOLE = "whole"

Mapping = collections.namedtuple("Mapping", "start end offset build_id path")
Chain = collections.namedtuple("Chain", "end frames")


class Maps:
    """The executable files of one process, by address."""

    def __init__(self, pid):
        self.pid, self.rows, self.starts = pid, [], []

    def add(self, row):
        self.rows.append(row)
        self.starts.append(row.start)

    def at(self, address):
        index = bisect.bisect_right(self.starts, address) - 1
        if index >= 0 and address < self.rows[index].end:
            return self.rows[index]
        return None

    def place(self, address, leaf=False):
        """(file name, offset) as a person reads it."""
        row = self.at(address - (not leaf))
        if row is None:
            return "[no file]", address
        return os.path.basename(row.path), address - row.start + row.offset


class Missed:
    """A thread was perhaps stopped, and not walked."""

    def __init__(self, words):
        self.tid, self.begin_ns = int(words[1]), int(words[2])


class Stop:
    def __init__(self, maps, words):
        self.maps, self.tid = maps, int(words[2])
        self.begin_ns, self.end_ns = int(words[3]), int(words[4])
        middle = words.index("|")
        self.reference = chain(words[5:middle])
        self.ours = chain(words[middle + 1 :])

    def common(self):
        """Frames from the leaf on in which both agree."""
        count = 0
        for one, other in zip(self.reference.frames, self.ours.frames):
            if one != other:
                break
            count += 1
        return count

    def agrees(self):
        """The same frames, and neither knows of any further out; or as many as we take."""
        return self.reference.frames == self.ours.frames and \
            self.reference.end == self.ours.end == WHOLE or \
            self.ours.end == "depth" and self.common() == len(self.ours.frames)

    def difference(self):
        """(class, the frame at which the two part or end)."""
        common = self.common()
        ours, reference = len(self.ours.frames), len(self.reference.frames)
        leaf = common <= 1
        at = self.maps.place(self.ours.frames[common - 1], leaf) if common else ("", 0)
        if common == ours < reference:
            return f"ours ends with '{self.ours.end}'", at
        if common == reference < ours:
            return f"the reference ends with '{self.reference.end}', ours goes on and ends " \
                   f"with '{self.ours.end}'", at
        if common == ours == reference:
            return f"the same frames, but '{self.reference.end}' and '{self.ours.end}'", at
        return "different callers", at


def chain(words):
    return Chain(words[0], [int(word, 16) for word in words[1:]])


def read(path):
    """(stops, all that may have been a stop), in order."""
    maps, stops, tries = {}, [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] == "V":
                maps[int(words[1])] = Maps(int(words[2]))
            elif words[0] == "M":
                maps[int(words[1])].add(Mapping(
                    *(int(word, 16) for word in words[2:5]), "" if words[5] == "-" else words[5],
                    bytes.fromhex(words[6]).decode(errors="backslashreplace")))
            elif words[0] == "S":
                stops.append(Stop(maps[int(words[1])], words))
                tries.append(stops[-1])
            elif words[0] == "X":
                tries.append(Missed(words))
    return stops, tries


def differences(stops):
    """Counter of (class, file) and an example of each."""
    counts, examples = collections.Counter(), {}
    for stop in stops:
        if stop.agrees():
            continue
        kind, (file, offset) = stop.difference()
        counts[kind, file] += 1
        examples.setdefault((kind, file), (stop, offset))
    return counts, examples


def tell(stop):
    """Both stacks side by side, leaf first."""
    longest = max(len(stop.reference.frames), len(stop.ours.frames))
    for index in range(longest):
        row = []
        for frames in (stop.reference.frames, stop.ours.frames):
            if index < len(frames):
                file, offset = stop.maps.place(frames[index], index == 0)
                row.append(f"{file}+{offset:#x}")
            else:
                row.append("-")
        mark = " " if len(set(row)) == 1 else "!"
        print(f"        {mark} {index:3} {row[0]:44} {row[1]}")
    print(f"          end {stop.reference.end:44} {stop.ours.end}")
