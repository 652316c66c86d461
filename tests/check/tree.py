#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tree.py <rule> <source root>: the conventions a compiler does not check.

Rules: includes (who may include whom), sizes (lines of a source file), licences (the SPDX
line), contents (nothing generated, nothing large, no debugging left), links (a page's links
into the tree lead somewhere). Prints one line per breach, `file:line: what`, and exits 1 when there was one.
"""

import os
import re
import subprocess
import sys

MAX_SOURCE_LINES = 450
MAX_FILE_BYTES = 1 << 20

# Directory -> directories whose headers it may include. Data goes one way.
MAY_INCLUDE = {
    "common": {"common"},
    "proto": {"common", "proto"},
    "profile": {"common", "proto", "profile"},
    "agent": {"common", "proto", "profile", "agent"},
    "collector": {"common", "proto", "profile", "collector", "ui"},
    "ui": {"common", "ui"},  # the page the collector serves, embedded
    "bpf": {"bpf"},
}
# Of bpf/, user space sees the one header that is written for it; these tests also compile
# the programs' pure logic natively.
SHARED_BPF_HEADER = "bpf/abi.h"
MAY_INCLUDE_BPF = ("bpf/", "tests/bpf/", "tests/unit/bpf/", "tests/programs/unwindref_walker.c")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SOURCE = (".c", ".h")
COMMENTED = (".c", ".h", ".sh", ".py", ".cmake", "CMakeLists.txt")


def files_of(root):
    helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources.sh")
    output = subprocess.run([helper, root], check=True, capture_output=True).stdout
    return [name for name in output.decode("utf-8", "surrogateescape").split("\n") if name]


def read_lines(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")


def includes_of(root, name):
    for number, line in enumerate(read_lines(root, name), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def include_breach(name, header):
    """Why `name` may not include the root-relative `header`, or None."""
    owner, target = name.split("/")[0], header.split("/")[0]
    if target == "bpf" and not name.startswith(MAY_INCLUDE_BPF):
        if owner in MAY_INCLUDE and "bpf" not in MAY_INCLUDE[owner] and owner != "agent":
            return f"{owner}/ has nothing to do with bpf/"
        if header != SHARED_BPF_HEADER:
            return f"of bpf/, user space includes {SHARED_BPF_HEADER} alone"
        return None
    if owner in MAY_INCLUDE and target not in MAY_INCLUDE[owner]:
        return f"{owner}/ may not include {target}/"
    return None


def resolve(root, name, header):
    """The header's path from the root, or None when it is not one of the tree's."""
    for path in (os.path.join(os.path.dirname(name), header), header):
        path = os.path.normpath(path)
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


SKELETON_USER = re.compile(r"agent/sampler(_[a-z]+)?\.[ch]")


def check_includes(root, names):
    skeleton_users = []
    for name in names:
        if not name.endswith(SOURCE):
            continue
        for number, quoted, header in includes_of(root, name):
            if header.endswith(".skel.h"):
                skeleton_users.append((name, number))
            if name == SHARED_BPF_HEADER:
                yield f"{name}:{number}: this header includes nothing"
            if not quoted:
                continue
            if ".." in header.split("/") and not name.startswith("tests/"):
                yield f"{name}:{number}: '{header}' must be written from the root"
            path = resolve(root, name, header)
            breach = path and include_breach(name, path)
            if breach:
                yield f"{name}:{number}: {breach} ('{header}')"
    product = [user for user in skeleton_users if not user[0].startswith("tests/")]
    for name, number in product:
        if not name.endswith(".c"):
            yield f"{name}:{number}: a header must not include a skeleton"
    for name, number in product:
        if not SKELETON_USER.fullmatch(name):
            yield f"{name}:{number}: of all files agent/sampler*.c alone include a skeleton"
    if not product:
        yield ".:0: no file includes a skeleton"


def check_sizes(root, names):
    for name in names:
        if name.endswith(SOURCE):
            count = len(read_lines(root, name)) - 1
            if count > MAX_SOURCE_LINES:
                yield f"{name}:{count}: more than {MAX_SOURCE_LINES} lines"


def check_licences(root, names):
    for name in names:
        if not name.endswith(COMMENTED):
            continue
        wanted = "GPL-2.0-only OR BSD-2-Clause" if name.startswith("bpf/") else "Apache-2.0"
        if name.endswith((".cmake", "CMakeLists.txt")):
            wanted = "Apache-2.0"
        head = "\n".join(read_lines(root, name)[:2])
        if f"SPDX-License-Identifier: {wanted}" not in head:
            yield f"{name}:1: the SPDX line for {wanted} is missing"


# Put together, so that this file does not report itself.
LEFTOVERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b|bpf_" + "printk")


def check_contents(root, names):
    for name in names:
        path = os.path.join(root, name)
        if os.path.islink(path):
            continue
        size = os.path.getsize(path)
        if size > MAX_FILE_BYTES:
            yield f"{name}:0: {size} bytes, more than {MAX_FILE_BYTES}"
        with open(path, "rb") as file:
            head = file.read(4096)
        if os.path.basename(name) == "vmlinux.h" or b"__VMLINUX_H__" in head:
            if not name.startswith("tests/check/"):
                yield f"{name}:0: a generated vmlinux.h"
        if not name.endswith(COMMENTED):
            continue
        for number, line in enumerate(read_lines(root, name), 1):
            if LEFTOVERS.search(line):
                yield f"{name}:{number}: left in the code: {line.strip()[:80]}"


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def check_links(root, names):
    for name in names:
        if not name.endswith(".md"):
            continue
        for number, line in enumerate(read_lines(root, name), 1):
            for target in LINK.findall(line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                path = os.path.normpath(os.path.join(os.path.dirname(name), target))
                if not os.path.exists(os.path.join(root, path)):
                    yield f"{name}:{number}: the link to '{target}' leads nowhere"


RULES = {
    "includes": check_includes,
    "sizes": check_sizes,
    "licences": check_licences,
    "contents": check_contents,
    "links": check_links,
}


def main(arguments):
    if len(arguments) != 3 or arguments[1] not in RULES:
        print(__doc__, file=sys.stderr)
        return 2
    root = arguments[2]
    names = files_of(root)
    if not any(name.endswith(".c") for name in names):
        print(f"no sources found below '{root}'", file=sys.stderr)
        return 2
    breaches = list(RULES[arguments[1]](root, names))
    for breach in breaches:
        print(breach)
    print(f"{len(names)} files, {len(breaches)} breaches of '{arguments[1]}'")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
