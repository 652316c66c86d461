# SPDX-License-Identifier: Apache-2.0
"""Reads the batches of a spool as docs/spool.md and docs/wire.md describe them, without a line
of the product's own decoder, and says of every sample which of its frames are unexplained."""

import collections
import pathlib
import struct
import subprocess

HEADER_BYTES = 64
CPU, OFF_CPU = 1, 2
FILE, KERNEL, MODULE, VDSO, NAMED, ANON, ERROR = range(1, 8)
HAS_BUILD = (FILE, KERNEL, MODULE, VDSO)
IDENTIFIED = (1, 2, 3)  # kinds of build: GNU, Go, hash

Build = collections.namedtuple("Build", "kind id path")
Frame = collections.namedtuple("Frame", "kind build name offset")
Sample = collections.namedtuple("Sample", "type labels frames count value")


def varints(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def fields(data):
    """{number: value} of a message in which no field but `repeated` ones comes twice; those
    are lists. Values are numbers or bytes."""
    found, position = collections.defaultdict(list), 0

    def number():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 1:
            value = struct.unpack_from("<Q", data, position)[0]
            position += 8
        elif key & 7 == 2:
            size = number()
            value = data[position : position + size]
            position += size
        else:
            raise ValueError(f"wire type {key & 7}")
        found[key >> 3].append(value)
    return found


def column(table, number):
    return varints(b"".join(table[number]))


def pieces(data, sizes):
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


class Batch:
    """One window: `samples` with their labels as a dict and their frames leaf first."""

    def __init__(self, path):
        raw = pathlib.Path(path).read_bytes()
        if raw[:4] != b"FPS1":
            raise ValueError(f"'{path}' is no batch")
        message = fields(subprocess.run(["zstd", "-dcq"], input=raw[HEADER_BYTES:], check=True,
                                        stdout=subprocess.PIPE).stdout)
        self.start_ns, self.end_ns = message[4][0], message[5][0]
        self.read_tables(message)
        self.quality = dict(self.read_quality(message))
        self.samples = list(self.read_samples(fields(message[18][0])))

    def read_tables(self, message):
        table = fields(message[13][0])
        self.strings = [text.decode(errors="backslashreplace") for text in
                        pieces(b"".join(table[1]), column(table, 2))]
        table = fields(b"".join(message[14]))
        self.builds = [Build(kind, identity.hex(), self.strings[path]) for kind, identity, path in
                       zip(column(table, 1), pieces(b"".join(table[3]), column(table, 2)),
                           column(table, 4))]
        self.frames = list(self.read_frames(fields(b"".join(message[15]))))
        table = fields(b"".join(message[16]))
        self.stacks = [tuple(self.frames[index] for index in indexes) for indexes in
                       pieces(column(table, 2), column(table, 1))]
        table = fields(b"".join(message[17]))
        pairs = list(zip(column(table, 2), column(table, 3)))
        self.labels = [{self.strings[name]: self.strings[value] for name, value in part}
                       for part in pieces(pairs, column(table, 1))]

    def read_frames(self, table):
        last = collections.defaultdict(int)
        for kind, build, name, delta in zip(*(column(table, number) for number in (1, 2, 3, 4))):
            if kind in HAS_BUILD:
                last[build] = (last[build] + unzigzag(delta)) % (1 << 64)
                yield Frame(kind, self.builds[build], "", last[build])
            else:
                yield Frame(kind, None, self.strings[name] if kind in (NAMED, ERROR) else "", 0)

    def read_samples(self, table):
        for kind, labels, stack, count, value in zip(*(column(table, number)
                                                       for number in (1, 2, 3, 4, 5))):
            yield Sample(kind, self.labels[labels], self.stacks[stack], count, value)

    def read_quality(self, message):
        for data in message[19]:
            table = fields(data)
            names = b"".join(table[3]).split(b"\0")[:-1]
            yield table[1][0], dict(zip((name.decode() for name in names), column(table, 4)))


def spooled(directory):
    """The batches of a spool in the order they were written."""
    for path in sorted(pathlib.Path(directory).glob("*.batch")):
        yield Batch(path)


def unexplained(frame):
    """What makes a frame say nothing about where the program was, or None."""
    if frame.kind == ERROR:
        return frame.name
    if frame.kind == ANON:
        return "anonymous memory"
    if frame.kind in HAS_BUILD and frame.build.kind not in IDENTIFIED:
        return f"no build-ID: {frame.build.path}"
    return None


def troubles(samples):
    """(samples, samples with an unexplained frame, Counter of why)."""
    total = bad = 0
    reasons = collections.Counter()
    for sample in samples:
        total += sample.count
        why = {reason for frame in sample.frames if (reason := unexplained(frame))}
        if why:
            bad += sample.count
            for reason in why:
                reasons[reason] += sample.count
    return total, bad, reasons
