#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of tree.py finds its breach in a small tree, and nothing in a clean one."""

import os
import subprocess
import sys
import tempfile
import unittest

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree.py")
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
BPF_SPDX = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"

CLEAN = {
    "common/buf.h": SPDX,
    "common/buf.c": SPDX + '#include "buf.h"\n#include <stdio.h>\n',
    "proto/batch.h": SPDX + '#include "common/buf.h"\n',
    "profile/tree.h": SPDX + '#include "proto/batch.h"\n',
    "agent/sampler.h": SPDX + '#include "bpf/abi.h"\n',
    "agent/sampler.c": SPDX + '#include "sampler.h"\n#include "fleetprof_bpf.skel.h"\n',
    "agent/agentctl/main.c": SPDX + '#include "agent/sampler.h"\n',
    "collector/store.h": SPDX + '#include "profile/tree.h"\n',
    "bpf/abi.h": BPF_SPDX,
    "bpf/walk.h": BPF_SPDX + '#include "abi.h"\n',
    "tests/unit/bpf/walk_test.c": SPDX + '#include "bpf/walk.h"\n',
    "tests/unit/common/buf_test.c": SPDX + '#include "../cases.h"\n#include "common/buf.h"\n',
    "tests/unit/cases.h": SPDX,
    "docs/a.md": "[b](b.md#part) [c](../README.md) [d](https://example.org/x) [e](#here)\n",
    "docs/b.md": "",
    "README.md": "![picture](docs/a.md)\n",
}

# rule, file, content, what the report says
BREACHES = [
    ("includes", "common/log.c", SPDX + '#include "proto/batch.h"\n', "common/log.c:2: common/ may not include proto/"),
    ("includes", "proto/x.c", SPDX + '#include "profile/tree.h"\n', "proto/ may not include profile/"),
    ("includes", "profile/x.c", SPDX + '#include "agent/sampler.h"\n', "profile/ may not include agent/"),
    ("includes", "agent/x.c", SPDX + '#include "collector/store.h"\n', "agent/ may not include collector/"),
    ("includes", "collector/x.c", SPDX + '#include "agent/sampler.h"\n', "collector/ may not include agent/"),
    ("includes", "collector/x.c", SPDX + '#include "bpf/abi.h"\n', "collector/ has nothing to do with bpf/"),
    ("includes", "agent/x.c", SPDX + '#include "bpf/walk.h"\n', "user space includes bpf/abi.h alone"),
    ("includes", "agent/agentctl/x.c", SPDX + '#include "../sampler.h"\n', "must be written from the root"),
    ("includes", "tests/unit/agent/x.c", SPDX + '#include "bpf/walk.h"\n', "user space includes bpf/abi.h alone"),
    ("includes", "bpf/x.bpf.c", BPF_SPDX + '#include "common/buf.h"\n', "bpf/ may not include common/"),
    ("includes", "bpf/abi.h", BPF_SPDX + "#include <stdint.h>\n", "bpf/abi.h:2: this header includes nothing"),
    ("includes", "agent/x.c", SPDX + '#include "fleetprof_bpf.skel.h"\n', "agent/sampler*.c alone include a skeleton"),
    ("includes", "agent/x.h", SPDX + '#include "fleetprof_bpf.skel.h"\n', "a header must not include a skeleton"),
    ("sizes", "common/x.c", SPDX + "int x;\n" * 450, "common/x.c:451: more than 450 lines"),
    ("sizes", "bpf/x.h", SPDX + "int x;\n" * 450, "bpf/x.h:451: more than 450 lines"),
    ("licences", "common/x.c", "int x;\n", "the SPDX line for Apache-2.0 is missing"),
    ("licences", "bpf/x.bpf.c", SPDX, "the SPDX line for GPL-2.0-only OR BSD-2-Clause is missing"),
    ("contents", "agent/x.c", SPDX + "// TO" + "DO: later\n", "agent/x.c:2: left in the code"),
    ("contents", "bpf/x.h", BPF_SPDX + "bpf_" + 'printk("x");\n', "bpf/x.h:2: left in the code"),
    ("contents", "bpf/vmlinux.h", BPF_SPDX, "a generated vmlinux.h"),
    ("links", "docs/x.md", "\n[gone](gone.md)\n", "docs/x.md:2: the link to 'gone.md'"),
    ("contents", "tests/data/big", "x" * ((1 << 20) + 1), "1048577 bytes"),
]


def run(rule, files):
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        result = subprocess.run(
            [sys.executable, TREE, rule, root], capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout + result.stderr


class TreeTest(unittest.TestCase):
    def test_clean_tree_has_no_breach(self):
        for rule in ("includes", "sizes", "licences", "contents", "links"):
            with self.subTest(rule):
                self.assertEqual(run(rule, CLEAN)[0], 0, run(rule, CLEAN)[1])

    def test_every_breach_is_reported(self):
        for rule, name, content, expected in BREACHES:
            with self.subTest(f"{rule}: {name}: {expected}"):
                status, output = run(rule, {**CLEAN, name: content})
                self.assertEqual(status, 1, output)
                self.assertIn(expected, output)

    def test_an_empty_tree_is_not_a_clean_one(self):
        self.assertEqual(run("sizes", {"README": ""})[0], 2)


if __name__ == "__main__":
    unittest.main()
