# SPDX-License-Identifier: Apache-2.0
"""A load for tests of stacks: Python and C calling each other in the ways that real programs do
(callbacks from sort, re, sqlite and ctypes, generators, exceptions, deep recursion), and threads
that wait for locks, queues, timers and pipes. Works until it is killed."""

import ctypes
import decimal
import hashlib
import json
import os
import queue
import re
import select
import sqlite3
import threading
import time
import zlib

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
LIBC = ctypes.CDLL(None)


class Node:
    def __init__(self, depth):
        self.left = Node(depth - 1) if depth else None
        self.right = Node(depth - 1) if depth else None

    def __iter__(self):
        if self.left:
            yield from self.left
        yield id(self)
        if self.right:
            yield from self.right


def trees():
    return sum(value & 1 for value in Node(7))


def recursion(depth=60):
    if depth == 0:
        raise LookupError("the bottom")
    try:
        return recursion(depth - 1)
    except KeyError:
        return 0


def exceptions():
    caught = 0
    for _ in range(20):
        try:
            recursion()
        except LookupError:
            caught += 1
    return caught


def sorting():
    words = [str(hash((i, "x")) % 9973) for i in range(800)]
    return sorted(words, key=lambda word: (len(word), word[::-1]))[0]


def texts():
    text = "a1 b22 c333 " * 100
    return len(re.sub(r"([a-z])(\d+)", lambda match: match.group(2) * 2, text))


def documents():
    data = {str(i): [i, i / 7, {"x": [None, True, "é" * (i % 5)]}] for i in range(150)}
    return len(json.loads(json.dumps(data, indent=1, sort_keys=True)))


def bytes_work():
    data = os.urandom(1000) * 40
    return hashlib.sha256(zlib.decompress(zlib.compress(data, 6))).digest()[0]


def numbers():
    with decimal.localcontext() as context:
        context.prec = 60
        return sum((decimal.Decimal(i).sqrt() for i in range(1, 60)), decimal.Decimal(0))


def database(connection):
    connection.execute("delete from t")
    connection.executemany("insert into t values (?, ?)", ((i, str(i * 37)) for i in range(200)))
    return connection.execute("select sum(twice(a)) from t where b like '%7%' group by a % 3 "
                              "order by twice(a)").fetchall()


def foreign_calls():
    values = (ctypes.c_int * 200)(*((i * 7919) % 1000 for i in range(200)))
    LIBC.qsort(values, len(values), ctypes.sizeof(ctypes.c_int),
               COMPARE(lambda a, b: a[0] - b[0]))
    return values[0]


def consumer(inbox, outbox):
    while True:
        outbox.put(sum(range(inbox.get() % 1000)))


def piper(reader, writer):
    while True:
        select.select([reader], [], [], 0.05)
        if select.select([reader], [], [], 0)[0]:
            os.write(writer, os.read(reader, 100).upper())


def start_threads():
    inbox, outbox = queue.Queue(), queue.Queue()
    to_reader, to_writer = os.pipe()
    from_reader, from_writer = os.pipe()
    threading.Thread(target=consumer, args=(inbox, outbox), daemon=True).start()
    threading.Thread(target=piper, args=(to_reader, from_writer), daemon=True).start()
    return inbox, outbox, to_writer, from_reader


def wait_a_little(inbox, outbox, to_writer, from_reader):
    inbox.put(300)
    outbox.get()
    os.write(to_writer, b"ping")
    os.read(from_reader, 100)
    time.sleep(0.002)


def main():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("create table t (a integer, b text)")
    connection.create_function("twice", 1, lambda value: value * 2)
    threads = start_threads()
    while True:
        for work in (trees, exceptions, sorting, texts, documents, bytes_work, numbers,
                     foreign_calls):
            work()
        database(connection)
        wait_a_little(*threads)
        print("turn", flush=True)


if __name__ == "__main__":
    main()
