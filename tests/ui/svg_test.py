#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flame graph in a real browser, opened from a file: svg_test.py PROFILEMAKER"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MAKER = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
BROWSER = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
                if path), None)
# The last name would run if it ever left its element.
FOLDED = b"""server_loop;do_query;parse_row 40
server_loop;do_query;parse_row;leaf_hash 20
server_loop;do_query;index_row;parse_row 10
server_loop;do_query 10
server_loop;do_ingest;leaf_io 15
</text><script>window.intruder=1</script> 5
"""


def browse(folder, fragment="", size="1200,700", *arguments):
    """Opens the graph with the driver in it; what the driver saw."""
    data = subprocess.run([MAKER, "svg", *arguments], input=FOLDED, check=True,
                          stdout=subprocess.PIPE).stdout
    with open(os.path.join(HERE, "svg_driver.js"), encoding="utf-8") as file:
        driver = "<script><![CDATA[" + file.read() + "]]></script></svg>"
    path = os.path.join(folder, "graph.svg")
    with open(path, "wb") as file:
        file.write(data.rstrip()[: -len(b"</svg>")] + driver.encode())
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--user-data-dir=" + os.path.join(folder, "profile"), "--window-size=" + size,
         "--virtual-time-budget=5000", "--dump-dom", "file://" + path + fragment],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=110, text=True)
    match = re.search(r'data-result="([^"]*)"', done.stdout)
    if not match:
        raise AssertionError("the driver did not finish:\n" + done.stdout[-2000:] + done.stderr[-2000:])
    return json.loads(html.unescape(match.group(1)))


class SvgInBrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="fleetprof-test.", ignore_cleanup_errors=True) as folder:
            cls.seen = browse(folder)

    def test_all_frames_are_there(self):
        start = self.seen["start"]
        self.assertEqual(len(start["labels"]), 10)
        self.assertEqual(start["faded"], [])
        self.assertEqual(start["state"], "")

    def test_it_fills_the_window(self):
        self.assertEqual(self.seen["width"], self.seen["inner"])
        self.assertAlmostEqual(self.seen["start"]["widths"][0], self.seen["width"] - 20, delta=1)

    def test_search_says_what_matched(self):
        searches = self.seen["searches"]
        # index_row holds a parse_row: the 10 count once.
        self.assertEqual(searches["parse|index"], {"matched": "Matched: 70.00 %", "bad": False, "lit": 3})
        self.assertEqual(searches["query"]["matched"], "Matched: 80.00 %")
        self.assertEqual(searches["QUERY"]["matched"], "Matched: 0.00 %")  # capitals: case matters
        self.assertEqual(searches["Query"]["lit"], 0)
        self.assertEqual(searches["loop"]["matched"], "Matched: 95.00 %")
        self.assertEqual(searches["nothing"]["matched"], "Matched: 0.00 %")
        self.assertEqual(searches["."]["matched"], "Matched: 100.00 %")
        self.assertEqual(searches["("], {"matched": "", "bad": True, "lit": 0})

    def test_tooltip(self):
        self.assertEqual(self.seen["tip"], ["do_query", "Total 80 samples (800 ms), 80.00 %",
                                            "Self 10 samples (100 ms), 10.00 %"])

    def test_click_zooms(self):
        zoomed = self.seen["zoomed"]
        self.assertEqual(zoomed["labels"], ["all", "server_loop", "do_query", "index_row", "parse_row",
                                            "parse_row", "leaf_hash"])
        self.assertEqual(zoomed["faded"], ["all", "server_loop"])
        inner = self.seen["width"] - 20
        for width, share in zip(zoomed["widths"], [1, 1, 1, 1 / 8, 1 / 8, 6 / 8, 2 / 8]):
            self.assertAlmostEqual(width, inner * share, delta=1)
        self.assertEqual(zoomed["state"], "Zoomed: do_query, 80 samples (800 ms), 80.00 % of total")
        self.assertIsNone(self.seen["tipAfterZoom"])

    def test_search_in_a_zoom_counts_what_is_shown(self):
        searches = self.seen["zoomedSearches"]
        self.assertEqual(searches["parse_row"]["matched"], "Matched: 87.50 % of zoom")
        self.assertEqual(searches["loop"]["matched"], "Matched: 100.00 % of zoom")  # an ancestor
        self.assertEqual(searches["leaf_io"]["matched"], "Matched: 0.00 % of zoom")  # out of sight

    def test_tooltip_in_a_zoom_has_both_shares(self):
        self.assertIn("12.50 % of the zoomed frame", self.seen["zoomedTip"][1])
        self.assertIn("10.00 % of all", self.seen["zoomedTip"][1])

    def test_ways_out_of_a_zoom(self):
        self.assertEqual(self.seen["ancestor"]["faded"], ["all"])
        for name in ("escaped", "reset"):
            self.assertEqual(self.seen[name]["labels"], self.seen["start"]["labels"])
            self.assertEqual(self.seen[name]["faded"], [])

    def test_keys(self):
        self.assertTrue(self.seen["searchFocused"])
        self.assertTrue(self.seen["searchCleared"])
        self.assertEqual(self.seen["focusRoot"][0], "all")
        # From the root to its first child, up where nothing is, and to the right.
        self.assertEqual(self.seen["focusMoved"][0], "server_loop")
        self.assertIn("Total", self.seen["ariaLabel"])
        self.assertIn("Zoomed: server_loop,", self.seen["entered"]["state"])

    def test_flip(self):
        self.assertTrue(self.seen["rootBelow"])
        self.assertTrue(self.seen["rootAbove"])

    def test_names_run_nothing(self):
        self.assertFalse(self.seen["intruder"])
        self.assertEqual(self.seen["scripts"], 2)  # the graph's and the driver

    def test_the_address_keeps_the_view(self):
        self.assertRegex(self.seen["zoomed"]["hash"], r"^#frame=\d+$")
        with tempfile.TemporaryDirectory(prefix="fleetprof-test.", ignore_cleanup_errors=True) as folder:
            again = browse(folder, self.seen["zoomed"]["hash"] + "&search=leaf_hash", "900,500")
        self.assertEqual(again["start"]["labels"], self.seen["zoomed"]["labels"])
        self.assertEqual(again["restored"], {"search": "leaf_hash", "matched": "Matched: 25.00 % of zoom"})
        self.assertEqual(again["width"], 900)


if __name__ == "__main__":
    if not BROWSER:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
