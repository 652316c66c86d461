# SPDX-License-Identifier: Apache-2.0
"""Whatever names a process gives itself: folded stacks stay one line a stack, SVG stays XML, JSON
stays JSON, and a terminal is told nothing but text."""

import gzip
import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree

# What hostile names of these tests hold: a title change, a bell, colours no renderer of ours
# uses (31), and the one-character form of an escape sequence's beginning, as UTF-8 and raw.
FORBIDDEN = (b"\x1b]", b"\x07", b"\x1b[31m", b"\xc2\x9b", b"owned\x1b")
FORMATS = ("folded", "svg", "json", "pprof", "table")
HZ, SECONDS = 397, 1


def take(command):
    run = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                         check=False)
    return run.stdout if run.returncode == 0 else None


def on_terminal(command):
    """All that the command writes to a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return said, child.wait(120)


def has_control(data, but=b"\n"):
    return any((byte < 0x20 or byte == 0x7f) and byte not in but for byte in data)


def is_folded(data):
    """Every line is frames and a value, and no byte acts on a terminal."""
    lines = data.split(b"\n")
    return len(lines) > 1 and lines[-1] == b"" and not has_control(data) and all(
        re.fullmatch(rb".+ \d+", line) for line in lines[:-1])


def is_json(data):
    json.loads(data.decode())  # strict: JSON is UTF-8
    return True


def is_svg(data):
    root = xml.etree.ElementTree.fromstring(data)
    return root.tag.endswith("svg") and not has_control(data, b"\n\t")


def is_table(data):
    return len(data) > 0 and not has_control(data) and not any(
        piece in data for piece in FORBIDDEN)


JUDGES = {"folded": is_folded, "svg": is_svg, "json": is_json, "table": is_table,
          "pprof": lambda data: len(gzip.decompress(data)) > 100}


def judge(check, name, data, where):
    try:
        right = data is not None and JUDGES[name](data)
        reason = "" if right else f": {(data or b'')[:200]!r}"
    except (ValueError, OSError, xml.etree.ElementTree.ParseError) as error:
        right, reason = False, f": {error}"
    check(right, f"{where}: {name} can be read{reason}")


def check_terminal(check, command, where):
    said, code = on_terminal(command)
    found = [piece for piece in FORBIDDEN if piece in said]
    check(code == 0 and said and not found,
          f"{where}: a terminal gets text alone (ended with {code}, {len(said)} bytes, {found})")


def check_outputs(check, watch, build, pid, what):
    """agentctl's formats for the process, and the collector's for all there is."""
    agentctl = build / "agent" / "agentctl"
    through = [agentctl, "--socket", watch.agent.socket]
    words = ["snapshot", "--pid", str(pid), "--hz", str(HZ), "--duration", f"{SECONDS}s"]
    for name in FORMATS:
        data = take([*through, *words, "--quiet", "--format", name])
        judge(check, name, data, f"{what}, agentctl")
    for name in ("table", "folded"):
        check_terminal(check, [*through, *words, "--format", name], f"{what}, {name}")
    check_terminal(check, [*through, "status"], f"{what}, status")
    for name in FORMATS:
        for root in ("thread", "executable"):
            judge(check, name, watch.query(format=name, root=root).body,
                  f"{what}, collector by {root}")
    for path in ("labels", "label/executable/values", "label/thread/values", "builds", "hosts"):
        answer = watch.collector.get(f"/api/v1/{path}", **{"type": "cpu", "from": "0"})
        judge(check, "json", answer.body, f"{what}, /api/v1/{path} ({answer.status})")
    said = watch.agent.log.read_bytes()
    check(not has_control(said), f"{what}: the agent's log is text")
