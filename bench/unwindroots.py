# SPDX-License-Identifier: Apache-2.0
"""Where stacks begin, and so whether one is complete; the same question for every profiler.

A user stack is complete when its outermost frame lies in the code in which a thread begins: the
entry point of the program, the C library's code between it and main (__libc_start_*), its code in
which threads and spawned children begin (start_thread, clone, clone3), or the loader's entry
point. Addresses beyond that lie in no file at all are passed over: walks by frame pointer, ours
too, may read one word too many there.

Names are not asked of the profilers, which give them in their own ways or not at all when the
process is gone: what is judged is a file and an offset in it. Programs are stripped, so their
entry point is the ELF header's; it is crt1.o's _start, the same 34 bytes in all. The C library's
and the loader's internal functions are looked up in their symbols or in the debug file of the
same build (Debian's libc6-dbg).
"""

import bisect
import functools
import os
import pathlib
import re
import struct
import sys

import tools

sys.path.append(str(tools.ROOT / "tests" / "e2e"))

import elffile  # noqa: E402

ENTRY_BYTES = 0x30  # _start of crt1.o and what fills up to the next function
PT_INTERP = 3
LIBC_START = re.compile(r"__libc_start_(main|call_main)\w*|start_thread|(__|__GI___)?clone3?"
                        r"|__clone_internal\w*")
LOADER_START = re.compile(r"_start|_dl_start_user")
LIBC_NEEDED = {"__libc_start_call_main", "start_thread", "clone3"}
LOADER_NEEDED = {"_start"}


def debug_file(elf):
    """The ELF file with the symbols that were stripped, or None."""
    path = f"/usr/lib/debug/.build-id/{elf.build_id[:2]}/{elf.build_id[2:]}.debug"
    return elffile.elf(path) if elf.build_id else None


def offset_of(elf, address):
    """File offset of an address, or None. Debug files have the addresses and not the bytes."""
    for kind, _, offset, start, _, size, *_ in elf.segments:
        if kind == 1 and start <= address < start + size:
            return address - start + offset
    return None


def named_ranges(elf, pattern):
    """{name: (first offset, end)} of the functions of such names. One without a size reaches to
    the next symbol: that is assembly."""
    symbols = set(elf.all_symbols())
    debug = debug_file(elf)
    if debug:
        symbols |= debug.all_symbols()
    starts = sorted({value for value, _, _, kind in symbols if kind in elffile.CODE_TYPES})
    found = {}
    for value, length, name, _ in symbols:
        name = name.partition("@")[0]
        offset = offset_of(elf, value)
        if pattern.fullmatch(name) and offset is not None:
            after = bisect.bisect_right(starts, value)
            end = length or (starts[after] - value if after < len(starts) else ENTRY_BYTES)
            found[name] = (offset, offset + end)
    return found


def entry_range(elf):
    """The program's own entry point; of libraries none, though some have one."""
    entry = struct.unpack_from("<Q", elf.data, 24)[0]
    offset = offset_of(elf, entry) if entry else None
    if offset is None or not any(segment[0] == PT_INTERP for segment in elf.segments):
        return {}
    return {"entry": (offset, offset + ENTRY_BYTES)}


def needed(path, ranges, names):
    missing = names - set(ranges)
    if missing:
        raise RuntimeError(f"'{path}' does not tell where {', '.join(sorted(missing))} is: "
                           "install libc6-dbg")
    return ranges


@functools.lru_cache(maxsize=None)
def ranges_of(path):
    """{name: (first offset, end)} of the code in that file in which threads begin."""
    name = os.path.basename(path)
    elf = elffile.elf(path)
    if elf is None:
        return {}
    if re.fullmatch(r"libc(\.so\.6|-2\.\d+\.so)", name):
        return needed(path, named_ranges(elf, LIBC_START), LIBC_NEEDED)
    if re.fullmatch(r"ld-linux.*\.so\.\d+|ld-2\.\d+\.so", name):
        return needed(path, named_ranges(elf, LOADER_START), LOADER_NEEDED)
    return entry_range(elf)


@functools.lru_cache(maxsize=None)
def real_path(path):
    return os.path.realpath(path)


def is_root(path, offset):
    """A caller is given by its return address or by the call before it; both lie within."""
    return any(start <= offset < end for start, end in ranges_of(real_path(path)).values())


def is_complete(frames):
    """frames: (path or None, file offset), innermost first."""
    for path, offset in reversed(frames):
        if path and path.startswith("/") and pathlib.Path(path).suffix != ".map":
            return is_root(path, offset)
    return False


def judge_reference(stops):
    """(stacks that libdwfl walked to their end, those of them that are called complete, and those
    that still are when their beginning, three frames, is cut off): the last must be none."""
    whole = complete = cut = 0
    for stop in stops:
        frames = []
        for address in stop.reference.frames:
            row = stop.maps.at(address - 1)
            frames.append((row.path, address - row.start + row.offset) if row else (None, address))
        if stop.reference.end != "whole" or len(frames) < 4:
            continue
        whole += 1
        complete += is_complete(frames)
        cut += is_complete(frames[:-3])
    return whole, complete, cut
