# SPDX-License-Identifier: Apache-2.0
"""What the witness (tests/programs/witness.c) wrote: each stack as the kernel gave it, and the
frames that the agent made of it; and the judgement of both against a ProcessLog and the files."""

import collections
import subprocess

from batches import ANON, ERROR, FILE, HAS_BUILD, KERNEL, MODULE, VDSO
from elffile import elf

# The kernel gives a task its new name some microseconds before it announces the exec.
EARLY_SHARE = 0.005

Frame = collections.namedtuple("Frame", "kind id offset name")


class Record:
    """One stack: `addresses` and `frames` are its user side, leaf first."""

    def __init__(self, words):
        self.key, self.source = words[1], words[2]
        self.pid, self.tid, self.time_ns = map(int, words[3:6])
        self.comm = text(words[6])
        self.kernel_frames, self.state = int(words[7]), int(words[8])
        self.walk_end, self.end, self.by_table = words[9], words[10], int(words[11])
        middle = words.index("|")
        self.addresses = [int(word, 16) for word in words[12:middle]]
        self.frames = [frame(word) for word in words[middle + 1 :]]
        self.count = 0

    def unexplained(self):
        """Why some user frame says nothing about where the program was, or None."""
        for entry in self.frames:
            if entry.kind == ERROR:
                return entry.name
            if entry.kind == ANON:
                return "anonymous memory"
            if entry.kind in HAS_BUILD and not entry.id:
                return f"no build-ID: {entry.name}"
        return None


def text(word):
    return "" if word == "-" else bytes.fromhex(word).decode(errors="backslashreplace")


def frame(word):
    kind, identity, offset, name = word.split(":")
    return Frame(int(kind), "" if identity == "-" else identity, int(offset, 16), text(name))


def read(path):
    """The records, with the samples counted under each in its window."""
    last, records = {}, []
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] == "R":
                record = last[words[1]] = Record(words)
                records.append(record)
            elif words[1] in last:  # others could not be resolved
                last[words[1]].count += int(words[2])
    return records


class Judgement:
    """Frames compared with the reference, weighted by samples."""

    def __init__(self):
        self.file_frames = self.right = self.samples = self.without = 0
        self.wrong = collections.Counter()  # said, and not so
        self.missing = collections.Counter()  # not said, or given up with an explanation
        self.unexplained = collections.Counter()
        self.places = collections.Counter()  # (build-ID, offset, is leaf, path)

    def judge(self, record, generation):
        self.samples += record.count
        why = record.unexplained()
        if why:
            self.unexplained[why] += record.count
        for index, address in enumerate(record.addresses):
            found = record.frames[index] if index < len(record.frames) else None
            if not self.judge_frame(record, generation, (index, address), found):
                break

    def judge_frame(self, record, generation, where, found):
        """False at an address that no mapping covers: the walk went astray before it."""
        index, address = where
        # A return address stands behind its call, which may be the last of its mapping.
        place = generation.mapping(record.time_ns, address - (index > 0)) if generation else None
        if place is None:
            if found is not None and found.kind != ERROR:
                self.wrong[f"nothing is mapped there, the agent says {found}"] += record.count
            return False
        offset = address - place.start + place.page_offset
        if place.path == "[vdso]":
            if found is None or (found.kind, found.offset) != (VDSO, address - place.start):
                self.wrong[f"vDSO, the agent says {found}"] += record.count
        elif place.path.startswith("/") and not place.path.startswith("//"):
            self.file_frames += record.count
            file = elf(place.path)
            if file is None or not file.build_id:
                self.without += record.count  # the reference cannot tell: never in this storm
                self.wrong[f"'{place.path}' cannot be read"] += record.count
            elif found is None or found.kind == ERROR:
                self.missing[f"'{place.path}', the agent says "
                             f"{found.name if found else 'nothing'}"] += record.count
            elif (found.kind, found.id, found.offset) != (FILE, file.build_id, offset):
                self.wrong[f"'{place.path}' +{offset:#x}, the agent says {found}"] += record.count
            else:
                self.right += record.count
                self.places[found.id, offset, int(index == 0), place.path] += record.count
        return True


def product_names(build, places):
    """{place: name or "-"} by the symbolizer that agentctl and the collector use."""
    lines = "".join(f"{identity} {offset:x} {leaf} {path}\n"
                    for identity, offset, leaf, path in places)
    output = subprocess.run([build / "tests" / "programs" / "symbolize"], input=lines, text=True,
                            stdout=subprocess.PIPE, check=True, errors="backslashreplace").stdout
    return dict(zip(places, output.splitlines()))


def demangled(names):
    """{name: as c++filt writes it}."""
    names = sorted(names)
    output = subprocess.run(["c++filt"], input="\n".join(names), text=True,
                            stdout=subprocess.PIPE, check=True).stdout
    return dict(zip(names, output.splitlines()))


def files_of(place):
    """(the place's address, its file and the debug file, where the distribution's is there)."""
    identity, offset, leaf, path = place
    debug = elf(f"/usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug")
    return elf(path).address(offset - (not leaf)), [file for file in (elf(path), debug) if file]


def functions_at(place):
    """The functions that cover a place by the symbol tables of its files."""
    address, files = files_of(place)
    if address is None:
        return set()
    return set().union(*(file.functions(address) for file in files))


def labels_at(place):
    """What assembly without sizes may be called by there."""
    address, files = files_of(place)
    return set().union(*(file.labels_before(address) for file in files))


def misnamed(build, places):
    """(frames whose place a symbol covers, Counter of those that are not named by it, frames
    named where no symbol is)."""
    names = product_names(build, list(places))
    truths = {place: functions_at(place) for place in places}
    plain = demangled({name for truth in truths.values() for name in truth})
    covered, wrong, other = 0, collections.Counter(), collections.Counter()
    for place, count in places.items():
        expected = {plain[name] for name in truths[place]}
        covered += count if expected else 0
        if expected and names[place] not in expected | truths[place]:
            wrong[f"{place[3]} +{place[1]:#x}: {names[place]}, not {sorted(expected)}"] += count
        elif not expected and names[place] != "-" and not names[place].endswith("@plt") and \
                names[place] not in labels_at(place):
            other[f"{place[3]} +{place[1]:#x}: {names[place]}"] += count
    return covered, wrong, other


def other_executables(samples, thread):
    """(Counter of executables other than the thread's name, samples of the moment of an exec:
    those are in the kernel and hold no user frame)."""
    wrong, early = collections.Counter(), 0
    for sample in samples:
        executable = sample.labels["executable"]
        if executable == thread:
            continue
        if executable[:1] != "[" and \
                all(entry.kind in (KERNEL, MODULE) for entry in sample.frames):
            early += sample.count
        else:
            wrong[f"'{thread}' under executable '{executable}'"] += sample.count
    return wrong, early


def report(reasons, most=8):
    for reason, count in reasons.most_common(most):
        print(f"        {count} × {reason}")
    if len(reasons) > most:
        print(f"        and {len(reasons) - most} other reasons")
