# SPDX-License-Identifier: Apache-2.0
"""What stacks of tests/programs/unwindchurn.c can be: which code may be there at which time, by what
the program put down of itself, and who calls whom in it."""

import bisect
import collections
import functools
import re
import struct

from batches import ANON, FILE
from elffile import elf
from unwindjudge import WHOLE_ENDS, at_entry_point

ENTRY = struct.Struct("<IIIIQ")  # struct state of unwindchurn.c
GONE, HERE, CHILD_OF = range(3)
MADE, MADE_BARE = 100, 101
# Who may call a function of ours; N stands for the same number in both. Made code is in between
# where it was made: it calls churn_spin and is called by churn_work.
CALLERS = {"churn_spin": ("churn_middle_N", "[made]"), "churn_middle_N": ("churn_enter_N",),
           "churn_enter_N": ("churn_work",), "[made]": ("churn_work",)}


class States:
    """Of each process the numbers of the code that may be there, from time to time."""

    def __init__(self, path):
        self.times, self.sets = collections.defaultdict(list), collections.defaultdict(list)
        for pid, number, what, _, time_ns in ENTRY.iter_unpack(path.read_bytes()):
            before = self.sets[pid][-1] if self.sets[pid] else frozenset()
            if what == CHILD_OF:
                now = self.at(number, time_ns)
            else:
                now = before | {number} if what == HERE else before - {number}
            self.times[pid].append(time_ns)
            self.sets[pid].append(now)

    def __contains__(self, pid):
        return pid in self.times

    def at(self, pid, time_ns):
        """Before its first word a child has what its parent had, and a program is about to say."""
        index = bisect.bisect_right(self.times[pid], time_ns) - 1
        return self.sets[pid][max(index, 0)]

    def changes(self, pid):
        return len(self.times[pid])


class Code:
    """The programs and libraries, by build-ID: what lies at their paths may be something else."""

    def __init__(self, paths):
        self.files = {elf(str(path)).build_id: (int(re.search(r"_(\d+)", path.name)[1]),
                                                elf(str(path))) for path in paths}

    def number(self, frame):
        """Of a frame in one of them, or None."""
        return self.files[frame.id][0] if frame.kind == FILE and frame.id in self.files else None

    @functools.lru_cache(maxsize=None)
    def function(self, frame, leaf):
        """A function of ours by name, "[made]" for anonymous memory, None for what is not ours."""
        if frame.kind != FILE or frame.id not in self.files:
            return "[made]" if frame.kind == ANON else None
        file = self.files[frame.id][1]
        names = file.functions(file.address(frame.offset - (not leaf)))
        return max((name for name in names if re.match(r"churn_[a-z]+(_\d+)?$|_start$", name)),
                   key=len, default=None)

    def is_outermost(self, frame, leaf):
        """In the code at the program's entry point, or the dynamic linker's."""
        return frame.kind == FILE and (self.function(frame, leaf) == "_start" or
                                       at_entry_point(frame.name, frame.offset - (not leaf)))


def may_call(caller, called):
    number = (re.search(r"_\d+$", called) or [""])[0]
    return any(re.fullmatch(re.escape(name).replace("_N", number or r"_\d+"), caller or "")
               for name in CALLERS[pattern(called)])


def pattern(name):
    return re.sub(r"_\d+$", "_N", name) if name else None


class Judgement:
    """Of stacks, each counted as often as it came. All code in one must have been there; and each
    pair of a function of ours and what is said to have called it must be one that there is, where
    tables found all of it and frame pointers led through made code alone: elsewhere nobody keeps
    any, and what they say was never to be believed."""

    def __init__(self, code, states, warm_ns):
        self.code, self.states, self.warm_ns = code, states, warm_ns
        self.samples = self.by_pointer = self.pairs = self.guessed = 0
        # How they ended, of those from warm_ns on: before, no table was there.
        self.ends, self.wrong = collections.Counter(), collections.Counter()

    def whole(self):
        return sum(self.ends[end] for end in WHOLE_ENDS)

    def judge(self, record):
        there = self.states.at(record.pid, record.time_ns)
        self.samples += record.count
        if record.time_ns >= self.warm_ns:
            self.ends[record.end] += record.count
        self.judge_there(record, there)
        made = MADE in there and sum(frame.kind == ANON for frame in record.frames[:-1])
        if len(record.addresses) - 1 - record.by_table > made:
            self.by_pointer += record.count
        else:
            self.judge_calls(record)
        self.judge_end(record)

    def judge_there(self, record, there):
        for frame in record.frames:
            number = self.code.number(frame)
            if number is not None and number not in there or \
                    frame.kind == FILE and number is None and "churn_" in frame.name or \
                    frame.kind == ANON and not there & {MADE, MADE_BARE}:
                self.wrong[f"{frame} where {sorted(there)} are"] += record.count

    def judge_calls(self, record):
        names = [self.code.function(frame, index == 0)
                 for index, frame in enumerate(record.frames)]
        for called, caller, frame in zip(names, names[1:], record.frames[1:]):
            if pattern(called) in CALLERS:
                self.pairs += record.count
                if not may_call(caller, called):
                    self.wrong[f"{called} called by {caller or frame}"] += record.count

    def judge_end(self, record):
        """What is said to be whole must be: proven by a table, or else guessed."""
        if record.end not in WHOLE_ENDS or not record.frames or \
                self.code.is_outermost(record.frames[-1], len(record.frames) == 1):
            return
        if record.end == "outermost":
            self.wrong[f"{record.frames[-1]} said to be the outermost"] += record.count
        elif record.time_ns >= self.warm_ns:
            self.guessed += record.count
