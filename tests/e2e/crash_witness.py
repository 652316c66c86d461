# SPDX-License-Identifier: Apache-2.0
"""An independent witness of a spool directory: learns from the kernel (inotify) of every file
that is renamed into place, and keeps a second link to it, so that the batch can still be read
after the ship role has unlinked it. The link is made while the file still has its temporary
name, that is before anybody can have shipped it."""

import collections
import ctypes
import os
import pathlib
import struct
import threading

IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_Q_OVERFLOW = 0x40, 0x80, 0x100, 0x4000
EVENT = struct.Struct("iIII")
HEADER_SIZE = 64  # docs/spool.md

Batch = collections.namedtuple("Batch", "id samples payload life")


def parse(data, life):
    """A spool file → Batch."""
    if len(data) < HEADER_SIZE or data[:3] != b"FPS":
        raise ValueError("not a spool file")
    (size,) = struct.unpack_from("<I", data, 4)
    (samples,) = struct.unpack_from("<Q", data, 32)
    payload = data[HEADER_SIZE:]
    if len(payload) != size:
        raise ValueError(f"{len(payload)} bytes of payload, the header says {size}")
    return Batch(data[16:32], samples, payload, life)


class Witness(threading.Thread):
    def __init__(self, spool, keep):
        super().__init__(daemon=True)
        self.spool, self.keep = pathlib.Path(spool), pathlib.Path(keep)
        self.life = 0           # of the agent; set by mark()
        self.renamed = {}       # final name → life
        self.lost_events = False
        self.spooled = threading.Event()  # set at every batch
        self.cookies = {}       # cookie → temporary name
        self.marks = {}         # name → event
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_CLOEXEC)
        mask = IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE
        if self.libc.inotify_add_watch(self.fd, bytes(self.spool), mask) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch '{self.spool}'")
        self.start()

    def run(self):
        while True:
            data = os.read(self.fd, 65536)
            while data:
                _, mask, cookie, length = EVENT.unpack_from(data)
                name = data[EVENT.size:EVENT.size + length].rstrip(b"\0").decode()
                data = data[EVENT.size + length:]
                self.handle(mask, cookie, name)

    def handle(self, mask, cookie, name):
        if mask & IN_Q_OVERFLOW:
            self.lost_events = True
        elif mask & IN_CREATE and name in self.marks:
            self.marks[name].set()
        elif mask & IN_CREATE:
            self.link(name, name)
        elif mask & IN_MOVED_FROM:
            self.cookies[cookie] = name
        elif mask & IN_MOVED_TO and name.endswith(".batch"):
            self.renamed[name] = self.life
            self.spooled.set()
            temporary = self.keep / self.cookies.pop(cookie, "none")
            if temporary.exists():
                temporary.rename(self.keep / name)
            else:
                self.link(name, name)

    def link(self, name, to):
        try:
            os.link(self.spool / name, self.keep / to)
        except OSError:
            pass  # gone already, or a directory: batches() reports what is missing

    def mark(self, life):
        """Everything renamed so far belongs to lives before; what follows to this one."""
        name = f"mark-{life}"
        event = self.marks[name] = threading.Event()
        (self.spool / name).touch()
        if not event.wait(30):
            raise RuntimeError("the kernel does not report the spool's events")
        (self.spool / name).unlink()
        self.life = life

    def batches(self):
        """({name: Batch}, [names that were renamed but could not be kept])."""
        kept, missing = {}, []
        for name, life in sorted(self.renamed.items()):
            try:
                kept[name] = parse((self.keep / name).read_bytes(), life)
            except (OSError, ValueError) as error:
                missing.append(f"{name}: {error}")
        return kept, missing
