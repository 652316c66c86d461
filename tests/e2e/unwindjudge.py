# SPDX-License-Identifier: Apache-2.0
"""Judges stacks against the reference that unwindref gives (unwindstops.py): those of our walker
compiled natively, and those that the agent's witness (witnessed.py) saw come from the kernel for
the very same stops. A stop by ptrace is an interval off the CPU, in the state `stopped`, and the
thread's registers and stack are at its end what they were when it was walked."""

import bisect
import collections
import math
import struct

import unwindstops
from batches import FILE, VDSO
from elffile import elf

AGREE_SHARE = 0.995
MANY = 2000  # stacks, of which that share is asked for; of fewer, chance decides as well
ENTRY_AT, ENTRY_BYTES = 24, 64  # e_entry in an ELF header; code at an entry point
CRT_BYTES = 64  # of a function that runs first or last; the longest has 53
CRT_CALLERS = ("ld-linux", "libc.so")  # _dl_init, _dl_fini, __libc_start_main
STOPPED = 3  # enum fp_away_reason in bpf/abi.h
COUNTED_SHARE = 0.98  # of the stops are among the intervals that the agent counted
WHOLE_ENDS = ("root", "outermost")


def in_file(prefix, frames=3):
    """One of the innermost frames is of such a file."""
    return lambda stop: any(stop.maps.place(address, index == 0)[0].startswith(prefix)
                            for index, address in enumerate(stop.reference.frames[:frames]))


def both_end_without_entry(stop):
    return stop.reference.frames == stop.ours.frames and \
        stop.reference.end != unwindstops.WHOLE and stop.ours.end in ("no_table", "broken", "root")


def at_entry_point(path, offset):
    """The offset is in the code at the file's entry point."""
    file = elf(path)
    address = file.address(offset) if file else None
    return address is not None and \
        0 <= address - struct.unpack_from("<Q", file.data, ENTRY_AT)[0] < ENTRY_BYTES


def entry_point(stop):
    """Both end in the code at a file's entry point, of which the reference knows nothing."""
    leaf = len(stop.ours.frames) == 1
    row = stop.maps.at(stop.ours.frames[-1] - (not leaf))
    return row is not None and stop.reference.frames == stop.ours.frames and \
        stop.reference.end != unwindstops.WHOLE and stop.ours.end == unwindstops.WHOLE and \
        at_entry_point(row.path, stop.ours.frames[-1] - (not leaf) - row.start + row.offset)


def follows_plt_call(maps, address):
    """The instruction before the address calls an entry of its file's procedure linkage table."""
    row = maps.at(address - 1)
    file = elf(row.path) if row else None
    end = file.address(address - row.start + row.offset - 1) if file else None
    if end is None:
        return False
    at = address - row.start + row.offset - 5
    start, size = file.section(".plt")
    target = end + 1 + struct.unpack_from("<i", file.data, at + 1)[0] - start
    return file.data[at] == 0xe8 and 0 <= target < size


def binds_at_first_call(stop):
    """The reference ends in the dynamic linker, and ours with whoever called the function that it is
    about to bind."""
    known = len(stop.reference.frames)
    return 1 < known < len(stop.ours.frames) and stop.ours.end == unwindstops.WHOLE and \
        stop.ours.frames[:known] == stop.reference.frames and \
        stop.maps.place(stop.ours.frames[known - 1])[0].startswith("ld-linux") and \
        follows_plt_call(stop.maps, stop.ours.frames[known])


def runs_first_or_last(stop):
    """The reference ends in a function of the crt files or, led on by the frame pointer, lacks its
    caller. Ours goes on with who calls those."""
    theirs, ours = list(stop.reference.frames), list(stop.ours.frames)
    known = next((i for i, pair in enumerate(zip(theirs, ours)) if len(set(pair)) > 1), len(theirs))
    if not 0 < known < len(ours) or stop.ours.end != unwindstops.WHOLE or \
            theirs[known:] not in ([], ours[known + 1 :]):
        return False
    address = ours[known - 1] - (known > 1)
    row = stop.maps.at(address)
    file = elf(row.path) if row else None
    at = file.address(address - row.start + row.offset) if file else None
    return at is not None and \
        any(0 <= at - first < CRT_BYTES for first in file.first_and_last) and \
        stop.maps.place(ours[known])[0].startswith(CRT_CALLERS)


def goes_further(stop):
    """Ours is the one that is held against the code."""
    return binds_at_first_call(stop) or runs_first_or_last(stop)


# (what it is, a predicate over a stop that disagrees), the first that holds counts.
EXPLAINED = [
    ("no entry covers the code where programs begin (the dynamic linker's _start): ours knows that "
     "it is the outermost, the reference does not", entry_point),
    ("no entry covers the code and no frame pointer leads on: both end there",
     both_end_without_entry),
    ("the dynamic linker binds a function at its first call: the reference ends there, ours goes on "
     "to the call of the function's entry in the PLT", binds_at_first_call),
    ("no entry covers the code that runs first and last (_init, _fini, frame_dummy, "
     "__do_global_dtors_aux): the reference ends there or lacks the caller, ours has it",
     runs_first_or_last),
    ("the C++ runtime is about to leave for a handler: until it is there, its own frame is made "
     "over into the handler's, which no entry describes", in_file("libgcc_s.so")),
]


def explained(stop):
    return next((text for text, holds in EXPLAINED if holds(stop)), None)


def enough(agree, count, share):
    """As many agree as the share asks for; of few stacks three standard deviations less."""
    others = (1 - share) * count
    return agree >= count - others - (0 if count >= MANY else 3 * math.sqrt(others))


def judge_native(check, name, stops, agree_share=AGREE_SHARE):
    """The natively compiled walker against libdwfl."""
    agree = sum(stop.agrees() for stop in stops)
    whole = sum(stop.ours.end == unwindstops.WHOLE for stop in stops)
    check(enough(agree, len(stops), agree_share),
          f"{name}: {100 * agree / len(stops):.2f} % of {len(stops)} stacks agree with libdwfl "
          f"frame by frame; {100 * whole / len(stops):.2f} % whole, "
          f"{len({tuple(stop.ours.frames) for stop in stops})} different ones, "
          f"{sum(len(stop.ours.frames) for stop in stops) / len(stops):.1f} frames on average")
    reasons, open_cases = collections.Counter(), []
    for stop in stops:
        if not stop.agrees():
            why = explained(stop)
            reasons[why or "?"] += 1
            if why is None:
                open_cases.append(stop)
    for why, count in reasons.most_common():
        print(f"        {count} × {why}")
    check(not open_cases, f"{name}: {len(open_cases)} differences are of no known class")
    for stop in open_cases[:3]:
        print(f"      {stop.difference()}")
        unwindstops.tell(stop)


def by_thread(tries):
    """{tid: (begins, stops)}, to find the stop that a moment belongs to."""
    threads = collections.defaultdict(lambda: ([], []))
    for stop in tries:
        begins, list_of = threads[stop.tid]
        begins.append(stop.begin_ns)
        list_of.append(stop)
    return threads


def stop_of(threads, record):
    begins, list_of = threads.get(record.tid, ([], []))
    index = bisect.bisect_right(begins, record.time_ns) - 1
    return list_of[index] if index >= 0 else None


def misplaced(record, stop):
    """A frame that the agent gave another build or offset than it has, or None."""
    for index, (address, frame) in enumerate(zip(record.addresses, record.frames)):
        row = stop.maps.at(address - (index > 0))
        if row is None or not row.build_id or frame.kind not in (FILE, VDSO):
            continue
        if (frame.id, frame.offset) != (row.build_id, address - row.start + row.offset):
            return f"{frame} is {row.path} +{address - row.start + row.offset:#x}"
    return None


def in_order(frames, reference):
    """All of them stand in the reference, in its order: callers may be missing, none is made up."""
    rest = iter(reference)
    return all(frame in rest for frame in frames)


class KernelJudgement:
    """Of each record what the agent shipped: it may have cut what it could not believe. A stack is
    sent once in a window, and counted as often as it came."""

    def __init__(self):
        self.kinds, self.ends, self.wrong = collections.Counter(), collections.Counter(), []

    def judge(self, record, stop):
        self.ends[record.end] += record.count
        kind = self.kind(record, stop)
        wrong = misplaced(record, stop)
        self.kinds["wrong" if wrong else kind] += record.count
        if wrong or kind == "wrong":
            self.wrong.append((record, stop, wrong))

    def kind(self, record, stop):
        shipped = record.addresses[: len(record.frames)]
        further = goes_further(stop)
        reference = (stop.ours if further else stop.reference).frames
        by_table = record.by_table >= len(record.addresses) - 1
        if shipped == reference and record.end in WHOLE_ENDS:
            return "of a known class" if further else "agree"
        if shipped == reference[: len(shipped)]:
            if record.end == "depth":
                return "agree"
            if record.end not in WHOLE_ENDS:
                return "end early and say so"
        if not further and explained(stop):
            return "of a known class"
        if not by_table and in_order(shipped, reference):
            return "lack callers, by frame pointer"
        return "wrong" if by_table else "went astray by frame pointer"


def stacks_in_common(stops, records):
    """Stops whose very frames, as the reference has them, the agent counted as often."""
    theirs = collections.Counter((stop.maps.pid, tuple(stop.reference.frames)) for stop in stops)
    ours = collections.Counter()
    for record in records:
        ours[record.pid, tuple(record.addresses[: len(record.frames)])] += record.count
    return (theirs & ours).total()


def judge_kernel(check, name, stopped, records, agree_share=AGREE_SHARE):
    """The walker in the kernel against libdwfl: (stops, tries), each record of a stop with that
    stop, and all that was counted with all stops. agree_share: less where stacks may be cut."""
    stops, tries = stopped
    threads, judgement = by_thread(tries), KernelJudgement()
    of_stops = [record for record in records if record.source == "off_cpu" and
                record.state == STOPPED and record.tid in threads]
    for record in of_stops:
        stop = stop_of(threads, record)
        if isinstance(stop, unwindstops.Stop):
            judgement.judge(record, stop)
    counted = sum(record.count for record in of_stops)
    check(COUNTED_SHARE * len(stops) <= counted <= len(tries),
          f"{name}: the agent counted {counted} stops; there were {len(stops)}, "
          f"{len(tries)} with those not walked here")
    count, agree = judgement.kinds.total(), judgement.kinds["agree"]
    check(count > 0 and enough(agree, count, agree_share),
          f"{name}: {100 * agree / max(count, 1):.2f} % of {count} stacks of stops, "
          f"{len(of_stops)} of them sent, were walked in the kernel as by libdwfl, frame by frame: "
          f"{dict(judgement.kinds)}; ends: {dict(judgement.ends)}")
    common = stacks_in_common(stops, of_stops)
    check(enough(common, len(stops), agree_share),
          f"{name}: of {common} of {len(stops)} stops the agent counted the very frames of libdwfl")
    check(not judgement.wrong, f"{name}: {len(judgement.wrong)} hold a frame that is not there")
    for record, stop, why in judgement.wrong[:3]:
        print(f"      {record.walk_end} {record.end} {record.by_table} {why or ''}")
        print("        in the kernel: " + " ".join(f"{address:x}" for address in record.addresses))
        unwindstops.tell(stop)
