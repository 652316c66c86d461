#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""go tool pprof reads what we write: pprof_test.py PROFILEMAKER LIBRARY"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MAKER, LIBRARY = sys.argv[1:3]


def make(arguments, stdin=b""):
    return subprocess.run([MAKER, *arguments], input=stdin, check=True, stdout=subprocess.PIPE).stdout


def file_offset(symbol):
    """Offset of a symbol in the library, by nm and readelf."""
    names = subprocess.run(["nm", LIBRARY], check=True, text=True, stdout=subprocess.PIPE).stdout
    address = int(re.search(rf"^(\w+) . {symbol}$", names, re.M).group(1), 16)
    headers = subprocess.run(["readelf", "-lW", LIBRARY], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    for match in re.finditer(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", headers):
        offset, start, size = (int(group, 16) for group in match.groups())
        if start <= address < start + size:
            return address - start + offset
    raise AssertionError(symbol)


class PprofTest(unittest.TestCase):
    def pprof(self, data, *arguments):
        with tempfile.TemporaryDirectory(prefix="fleetprof-test.") as home:
            path = os.path.join(home, "profile.pb.gz")
            with open(path, "wb") as file:
                file.write(data)
            environment = dict(os.environ, HOME=home, PPROF_TMPDIR=home, GOFLAGS="-mod=mod",
                               GOCACHE=os.path.join(home, "cache"), GOPROXY="off")
            done = subprocess.run(["go", "tool", "pprof", *arguments, path], env=environment,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

    def row(self, top, function):
        """flat and cum of a function in the output of -top"""
        match = re.search(rf"^ *(\S+) +\S+ +\S+ +(\S+) +\S+ +{re.escape(function)}$", top, re.M)
        self.assertIsNotNone(match, f"no row '{function}' in:\n{top}")
        return match.groups()

    def test_tree_as_cpu_profile(self):
        data = make(["pprof"], b"main;query;parse 60\nmain;query 30\nmain;read_[k] 10\n")
        top = self.pprof(data, "-top", "-sample_index=samples")
        self.assertIn("Type: samples", top)
        self.assertEqual(self.row(top, "parse"), ("60", "60"))
        self.assertEqual(self.row(top, "query"), ("30", "90"))
        self.assertEqual(self.row(top, "main"), ("0", "100"))
        top = self.pprof(data, "-top")  # the default is CPU time
        self.assertIn("Type: cpu", top)
        self.assertEqual(self.row(top, "main"), ("0", "1000ms"))

    def test_tree_off_cpu(self):
        top = self.pprof(make(["pprof", "ns"], b"main;poll 1500000\n"), "-top")
        self.assertIn("Type: off_cpu", top)
        self.assertEqual(self.row(top, "poll")[0], "1.50ms")

    def test_recursion_counts_once(self):
        top = self.pprof(make(["pprof"], b"f;f;f 10\n"), "-top", "-sample_index=samples")
        self.assertEqual(self.row(top, "f"), ("10", "10"))

    def test_hostile_names(self):
        top = self.pprof(make(["pprof"], b"a\\x0ab\\x00\xff\xfe 10\n"), "-top", "-sample_index=samples")
        self.assertEqual(self.row(top, r"a\x0ab\x00\xff\xfe"), ("10", "10"))

    def test_raw_frames_are_symbolized_by_pprof(self):
        """Build, offset and mapping are enough for pprof to find the function itself."""
        offsets = [hex(file_offset(name)) for name in ("fixture_first", "fixture_static")]
        data = make(["raw-pprof", LIBRARY, *offsets])
        top = self.pprof(data, "-top", "-sample_index=samples", "-symbolize=local")
        self.assertEqual(self.row(top, "fixture_static"), ("2", "2"))
        self.assertEqual(self.row(top, "fixture_first"), ("1", "1"))


if __name__ == "__main__":
    if not shutil.which("go"):
        print("skipped: go is not installed (apt-get install golang-go)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
