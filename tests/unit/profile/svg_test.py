#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flame graph as a document: geometry, escaping, bounds. svg_test.py PROFILEMAKER"""
import random
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

MAKER = sys.argv[1]
SVG = "{http://www.w3.org/2000/svg}"
PAD, ROW, MIN_PX = 10, 18, 0.1


def svg(folded, *arguments):
    return subprocess.run([MAKER, "svg", *arguments], input=folded, check=True,
                          stdout=subprocess.PIPE).stdout


class Frame:
    def __init__(self, group):
        self.start, self.total, self.self, self.depth = map(int, group.get("data-f").split())
        self.name, self.what, self.value = group.find(SVG + "title").text.split("\n")
        rect = group.find(SVG + "rect")
        self.x, self.y, self.width = (float(rect.get(name)) for name in ("x", "y", "width"))
        text = group.find(SVG + "text")
        self.label = None if text is None else text.text
        self.shade = group.get("class")


def frames(data):
    root = xml.fromstring(data)
    groups = [g for g in root if g.tag == SVG + "g" and g.get("class") == "frames"]
    return root, [Frame(group) for group in groups[0]]


def notes(root):
    return " ".join(text.text for text in root.iter(SVG + "text") if text.get("class") == "note")


def oracle(folded):
    """(name, depth) → totals by a tree of dictionaries"""
    totals = {}
    for line in folded.decode().splitlines():
        stack, value = line.rsplit(" ", 1)
        path = [""] + stack.split(";")
        for depth in range(len(path)):
            key = tuple(path[: depth + 1])
            totals[key] = totals.get(key, 0) + int(value)
    return sorted((path[-1] or "all", len(path) - 1, total) for path, total in totals.items())


class SvgTest(unittest.TestCase):
    def test_two_frames_in_full(self):
        root, drawn = frames(svg(b"main;leaf 75\nmain 25\n", "quality=all well"))
        self.assertEqual(root.get("viewBox").split()[:3], ["0", "0", "1200"])
        self.assertEqual([(f.name, f.total, f.self, f.depth) for f in drawn],
                         [("all", 100, 0, 0), ("main", 100, 25, 1), ("leaf", 75, 75, 2)])
        self.assertEqual(drawn[2].value, "75 samples (750 ms), 75.00 %")
        self.assertEqual((drawn[0].x, drawn[0].width), (10, 1179.5))
        self.assertEqual((drawn[2].x, drawn[2].width), (10, 884.5))
        self.assertEqual([f.y for f in drawn], [92 + 2 * ROW, 92 + ROW, 92])
        self.assertEqual([f.label for f in drawn], ["all", "main", "leaf"])
        self.assertIn("all well", [t.text for t in root.iter(SVG + "text")])
        self.assertEqual(notes(root), "")

    def test_icicle_has_the_root_on_top(self):
        _, drawn = frames(svg(b"main;leaf 75\n", "icicle"))
        self.assertEqual([f.y for f in drawn], [92, 92 + ROW, 92 + 2 * ROW])

    def test_nanoseconds(self):
        _, drawn = frames(svg(b"main;poll 1500000\n", "ns"))
        self.assertEqual(drawn[-1].value, "1.50 ms, 100.00 %")

    def test_random_trees_equal_the_oracle(self):
        for seed in range(10):
            rng = random.Random(seed)
            lines = {}
            for _ in range(rng.randrange(1, 150)):
                stack = ";".join(rng.choice(["a", "a.b", "f", "f(x)", "b c"])
                                 for _ in range(rng.randrange(1, 9)))
                lines[stack] = lines.get(stack, 0) + rng.randrange(1, 30)
            folded = "".join(f"{stack} {value}\n" for stack, value in lines.items()).encode()
            root, drawn = frames(svg(folded))
            total = drawn[0].total
            wide = [row for row in oracle(folded) if row[2] * 1180 / total >= MIN_PX]
            self.assertEqual(sorted((f.name, f.depth, f.total) for f in drawn), wide)
            self.check_geometry(drawn, total)

    def check_geometry(self, drawn, total):
        path = []
        for frame in drawn:
            del path[frame.depth:]
            self.assertEqual(len(path), frame.depth)
            if path:
                parent = path[-1]
                self.assertGreaterEqual(frame.start, parent.start)
                self.assertLessEqual(frame.start + frame.total, parent.start + parent.total)
                # A frame's own value stays free to the right of its children.
                self.assertLessEqual(frame.start + frame.total,
                                     parent.start + parent.total - parent.self)
            self.assertAlmostEqual(frame.x, PAD + frame.start * 1180 / total, delta=0.01)
            self.assertAlmostEqual(frame.width, frame.total * 1180 / total, delta=0.51)
            path.append(frame)

    def test_narrow_frames_are_told(self):
        root, drawn = frames(svg(b"main;big 1000000\nmain;tiny;below 20\nother 30\n"))
        self.assertEqual([f.name for f in drawn], ["all", "main", "big"])
        self.assertIn("Not drawn: 3 frames narrower than 0.1 px, covering <0.01 % of the total",
                      notes(root))

    def test_deep_frames_are_told(self):
        root, drawn = frames(svg(b"f;" * 2999 + b"f 4\n"))
        self.assertEqual(len(drawn), 2000)
        self.assertIn("Not drawn: 1,001 frames deeper than 2,000 rows, covering 100.00 %", notes(root))

    def test_colours_tell_kinds_and_follow_names(self):
        _, drawn = frames(svg(b"u;k_[k];k_[k] 1\nu;j_[j] 1\nu;i_[i] 1\nu;[lost] 1\nu;a.so+0x1 1\nx;k_[k] 1\n"))
        letters = {f.name: f.shade[0] for f in drawn}
        self.assertEqual(letters, {"all": "r", "u": "u", "x": "u", "k": "k", "j": "j", "i": "i",
                                   "[lost]": "e", "a.so+0x1": "n"})
        self.assertEqual(len({f.shade for f in drawn if f.name == "k"}), 1)

    def test_legend_names_only_what_is_drawn(self):
        root, _ = frames(svg(b"u;k_[k] 1\n"))
        texts = [t.text for t in root.iter(SVG + "text")]
        self.assertIn("program code", texts)
        self.assertIn("kernel", texts)
        self.assertNotIn("no symbol", texts)

    def test_hostile_names_stay_text(self):
        names = ["</title><script>alert(1)</script>", "]]>", "<![CDATA[", "&lt;", "\"'><b onload='x'>",
                 "a\\x0ab", "\\x00", "\\x1b[31m", "\u202eevil", "-->", "{{x}}"]
        folded = "".join(f"{name.replace(';', '')} 10\n" for name in names).encode() + b"\xff\xfe 10\n"
        data = svg(folded, "title=]]></style><script>", "quality=</svg>")
        root, drawn = frames(data)
        shown = {f.name for f in drawn}
        self.assertIn("</title><script>alert(1)</script>", shown)
        self.assertIn("]]>", shown)
        self.assertIn("a\\x0ab", shown)
        self.assertIn("\\xe2\\x80\\xaeevil", shown)
        self.assertIn("\\xff\\xfe", shown)
        self.assertEqual(len(list(root.iter(SVG + "script"))), 1)
        self.assertEqual(data.count(b"]]>"), 2)  # the ends of style and script
        self.assertNotRegex(data, rb"[\x00-\x08\x0b-\x1f]")

    def test_long_and_wide_names_are_cut(self):
        folded = ("x" * 3000 + " 50\n" + "語" * 200 + " 50\n").encode()
        _, drawn = frames(svg(folded))
        self.assertEqual(len(drawn[1].name), 3000)
        self.assertRegex(drawn[1].label, r"^x{70,82}\.\.$")
        self.assertTrue(drawn[2].label.endswith(".."))

    def test_nothing_outside_is_asked_for(self):
        data = svg(b"main;leaf 75\n")
        self.assertNotRegex(re.sub(rb'"http://www.w3.org/[^"]*"', b"", data), rb"https?:|url\(|@import|//[a-z]+\.")

    def test_empty_profile_says_so(self):
        root, drawn = frames(svg(b""))
        self.assertEqual(drawn, [])
        self.assertIn("This profile holds no samples.", [t.text for t in root.iter(SVG + "text")])

    def test_width_is_kept_within_reason(self):
        for asked, got in (("width=2000", "2000"), ("width=10", "720")):
            root, _ = frames(svg(b"main 1\n", asked))
            self.assertEqual(root.get("width"), got)

    def test_same_input_same_bytes(self):
        folded = b"a;b 1\na;c 2\n"
        self.assertEqual(svg(folded), svg(b"a;c 2\na;b 1\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
