#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collector's page in a real browser: what it shows, how it answers, what it keeps out.

page.py COLLECTOR MAKE_BATCHES [--pictures=DIRECTORY] [case …]
"""

import json
import pathlib
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

from collector_process import Batches, Collector
from page_browser import Browser, find_chromium

SKIP = 77
PROGRAM, MAKE_BATCHES = sys.argv[1:3]
PICTURES = next((pathlib.Path(word.split("=", 1)[1]) for word in sys.argv[3:]
                 if word.startswith("--pictures=")), None)
LOADED = "!document.body.classList.contains('busy') && document.querySelectorAll('#table tbody tr').length > 0"


def check(condition, *words):
    if not condition:
        raise AssertionError(" ".join(str(word) for word in words))


def equal(got, expected, what):
    check(got == expected, f"{what}: got {got!r}, expected {expected!r}")


class Page:
    """A collector with batches and a browser that looks at it."""

    def __init__(self, scratch, *arguments, width=1400):
        recent = f"--start={int(time.time()) - 600}"
        self.batches = [Batches(MAKE_BATCHES, scratch / "in", recent, "--count=3", f"--host={host}",
                                *arguments) for host in ("alpha", "beta")]
        self.collector = Collector(PROGRAM, scratch / "data")
        self.width = width

    def __enter__(self):
        self.collector.start()
        for batches in self.batches:
            for path in batches.files:
                equal(self.collector.send(path).status, 200, path)
        try:
            self.browser = Browser(self.width)
        except Exception:
            self.collector.kill()
            raise
        return self.browser

    def __exit__(self, *_):
        self.browser.__exit__()
        self.collector.__exit__()

    def open(self, query=""):
        self.browser.open(f"http://127.0.0.1:{self.collector.port}/{query}")
        self.browser.wait(LOADED)


def drawn(browser):
    """How many pixels of the canvas are coloured."""
    return browser.evaluate(
        "(() => { const c = document.getElementById('canvas');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()")


def query_of(browser):
    return browser.evaluate("location.search")


def the_page_shows_a_flame_graph(scratch):
    page = Page(scratch)
    with page as browser:
        page.open()
        check(drawn(browser) > 20000, "hardly anything is drawn")
        total = sum(sum(batches.cpu) for batches in page.batches)
        check(f"{total:,} samples" in browser.text("#crumbs"), browser.text("#crumbs"))
        check("good" in browser.evaluate("document.getElementById('quality').className"), "quality")
        check("expected" in browser.text("#quality"), browser.text("#quality"))
        check("6 windows of 2 hosts" in browser.text("#footer"), browser.text("#footer"))
        check("%" in browser.text("#table tbody tr"), "table")
        browser.click("#builds summary")
        browser.wait("document.querySelectorAll('#builds tbody tr').length === 2")
        check("no file" in browser.text("#builds"), browser.text("#builds"))
        browser.click('#type [data-value="off_cpu"]')
        browser.wait("location.search.includes('off_cpu') && " + LOADED)
        check(" s " in browser.text("#crumbs"), browser.text("#crumbs"))
        equal(browser.problems(), [], "complaints")


def search_counts_the_outermost_once(scratch):
    page = Page(scratch)
    with page as browser:
        page.open()
        nodes = page.collector.query(**{"from": "now-15m"}).json()["tree"]
        names, parent = nodes["names"], nodes["nodes"]["parent"]
        expected = 0
        for node in range(1, len(parent)):
            at, is_outermost = parent[node], True
            while at > 0:
                is_outermost &= not names[nodes["nodes"]["name"][at]].startswith("leaf_")
                at = parent[at]
            if is_outermost and names[nodes["nodes"]["name"][node]].startswith("leaf_"):
                expected += nodes["nodes"]["total"][node]
        share = 100 * expected / nodes["nodes"]["total"][0]
        browser.press("/")
        equal(browser.evaluate("document.activeElement.id"), "search", "focus")
        browser.type("^leaf_")
        browser.wait("document.getElementById('matched').textContent.includes('matched')")
        text = browser.text("#matched")
        check(abs(float(text.split(" ")[0]) - share) < 0.06, text, share)
        browser.click("#next")
        check(not browser.evaluate("document.getElementById('outline').hidden"), "outline")
        check("leaf_" in browser.evaluate("document.getElementById('focused').textContent"), "focused")
        check("search=" in query_of(browser), query_of(browser))
        browser.evaluate("document.getElementById('search').focus()")
        browser.press("Escape")
        equal(browser.evaluate("document.getElementById('search').value"), "", "cleared")
        browser.type("(")
        browser.evaluate("document.getElementById('search').focus()")
        browser.type("(")
        browser.wait("document.getElementById('search').classList.contains('wrong')")
        equal(browser.problems(), [], "complaints")


def zoom_goes_in_and_out_and_into_the_link(scratch):
    page = Page(scratch)
    with page as browser:
        page.open("?root=thread")
        box = browser.evaluate("(() => { const r = document.getElementById('canvas')"
                               ".getBoundingClientRect(); return [r.left, r.bottom, r.width]; })()")
        x, y = box[0] + 20, box[1] - 27  # the leftmost group, one above the root
        browser.mouse("mouseMoved", x, y)
        browser.wait("!document.getElementById('tip').hidden")
        tip = browser.text("#tip")
        check("gc" in tip and "% of all" in tip and "self" in tip, tip)
        browser.click_at(x, y)
        browser.wait("location.search.includes('zoom=gc')")
        check("gc" in browser.text("#crumbs .here"), browser.text("#crumbs"))
        check("of all" in browser.text("#crumbs"), browser.text("#crumbs"))
        link = query_of(browser)
        page.open(link)
        check("gc" in browser.text("#crumbs .here"), "the link keeps the zoom")
        browser.click("#crumbs button")
        browser.wait("!location.search.includes('zoom')")
        browser.evaluate("history.back()")
        browser.wait("location.search.includes('zoom=gc') && document.querySelector('#crumbs .here').textContent === 'gc'")
        browser.evaluate("document.body.focus()")
        browser.press("Escape")
        browser.wait("document.querySelector('#crumbs .here').textContent === 'all'")
        browser.evaluate("document.getElementById('scroller').focus()")
        browser.press("ArrowUp")
        browser.press("ArrowRight")
        browser.press("Enter")
        browser.wait("location.search.includes('zoom=io')")
        browser.click('#shape [data-value="icicle"]')
        browser.wait("location.search.includes('icicle')")
        check(drawn(browser) > 20000, "icicle")
        equal(browser.problems(), [], "complaints")


def selectors_complete_and_filter(scratch):
    page = Page(scratch)
    with page as browser:
        page.open()
        browser.evaluate("document.getElementById('selector').focus()")
        browser.type("{ho")
        browser.wait("document.querySelectorAll('#suggestions li').length === 1")
        browser.press("ArrowDown")
        browser.press("Enter")
        browser.wait("[...document.querySelectorAll('#suggestions li')].map((e) => e.textContent).join() === 'alpha,beta'")
        browser.press("ArrowDown")
        browser.press("ArrowDown")
        browser.press("Enter")
        equal(browser.evaluate("document.getElementById('selector').value"), '{host="beta"}', "completed")
        browser.press("Enter")
        browser.wait("document.getElementById('footer').textContent.includes('3 windows of 1 host')")
        browser.evaluate("document.getElementById('selector').value = '{host='")
        browser.evaluate("document.getElementById('selector').focus()")
        browser.press("Escape")
        browser.press("Enter")
        browser.wait("document.getElementById('message').className === 'bad'")
        check("quoted value" in browser.text("#message"), browser.text("#message"))
        check(drawn(browser) > 20000, "what was shown stays")


def nothing_yet_says_what_to_do(scratch):
    (scratch / "data").mkdir()
    with Collector(PROGRAM, scratch / "data") as collector, Browser() as browser:
        browser.open(f"http://127.0.0.1:{collector.port}/")
        browser.wait("document.getElementById('message').innerText.includes('No data yet')")
        batches = Batches(MAKE_BATCHES, scratch / "in")
        collector.send(batches.files[0])
        browser.wait(LOADED)  # by itself
        check(drawn(browser) > 20000, "the first data appears")
        browser.open(f"http://127.0.0.1:{collector.port}/?selector=%7Bhost%3D%22none%22%7D")
        browser.wait("document.getElementById('message').innerText.includes('Nothing matches')")
        equal(browser.problems(), [], "complaints")


def hostile_strings_never_run(scratch):
    page = Page(scratch, "--hostile")
    with page as browser:
        for root in ("none", "thread", "executable"):
            page.open(f"?root={root}&search=script")
            browser.click("#builds summary")
            browser.wait("document.querySelectorAll('#builds tbody tr').length > 0")
            browser.evaluate("document.getElementById('selector').focus()")
            browser.type('{thread="')
            browser.wait("document.querySelectorAll('#suggestions li').length > 3")
            for row in range(0, 300, 40):
                browser.mouse("mouseMoved", 200 + row, 300 + row)
            browser.evaluate("document.querySelector('#table tbody tr').click()")
            equal(browser.evaluate("document.title"), "fleetprof", "title")
            equal(browser.evaluate("document.scripts.length"), 1, "scripts")
            equal(browser.evaluate("document.images.length"), 0, "images")
        check("<script>" in browser.text("body"), "the strings are shown as text")
        equal(browser.problems(), [], "complaints")


def types_are_offered_where_the_data_has_them(scratch):
    (scratch / "plain").mkdir()
    page = Page(scratch / "plain")
    offered = ("[...document.querySelectorAll('#type button')].filter((e) => !e.hidden)"
               ".map((e) => e.textContent).join()")
    with page as browser:
        page.open()
        equal(browser.evaluate(offered), "CPU,Off-CPU,Wall", "without run queue and wakers")
    (scratch / "waits").mkdir()
    page = Page(scratch / "waits", "--waits")
    with page as browser:
        page.open()
        equal(browser.evaluate(offered), "CPU,Off-CPU,Run queue,Wakers,Wall", "with all")
        check(browser.evaluate("document.getElementById('legend').hidden"), "no legend for CPU")
        for name, words in (("run_queue", "ready to run"),
                            ("waker", "blocked before them")):
            browser.click(f'#type [data-value="{name}"]')
            browser.wait(f"location.search.includes('{name}') && {LOADED}")
            check(words in browser.text("#quality"), browser.text("#quality"))
        check("below it who slept" in browser.text("#legend"), browser.text("#legend"))
        check("[woken by io]" in browser.text("#table"), "the mark is in the table")
        if PICTURES:
            browser.picture(PICTURES / "page-waker.png")
        equal(browser.problems(), [], "complaints")


def wall_time_tells_its_parts_apart(scratch):
    page = Page(scratch, "--waits")
    with page as browser:
        page.open("?type=wall")
        period = 1000000000 // 19
        on = sum(sum(batches.cpu) for batches in page.batches) * period / 1e9
        off = sum(sum(batches.off_cpu) for batches in page.batches) / 1e9
        legend = browser.text("#legend")
        for words in (f"any other bare top: {on:.0f} s", f"blocked: {off:.0f} s", "ready to run: "):
            check(words in legend, legend, words)
        check(f"{on:.0f} s on the CPU, {off:.0f} s blocked" in browser.text("#quality"),
              browser.text("#quality"))
        for mark in ("[blocked: interruptible]", "[blocked: uninterruptible]", "[stopped]", "[woken]",
                     "[preempted]"):
            check(mark in browser.text("#table"), "no", mark)
        box = browser.evaluate("(() => { const r = document.getElementById('canvas')"
                               ".getBoundingClientRect(); return [r.left, r.bottom, r.width]; })()")
        browser.mouse("mouseMoved", box[0] + box[2] / 2, box[1] - 9)  # the root
        browser.wait("!document.getElementById('tip').hidden")
        check("off CPU" in browser.text("#tip") and "of this frame" in browser.text("#tip"),
              browser.text("#tip"))
        if PICTURES:
            browser.click("#quality summary")
            browser.picture(PICTURES / "page-wall.png")
        equal(browser.problems(), [], "complaints")


def it_says_why_stacks_are_short(scratch):
    """In words and by build; also where the page is narrow, and of an agent that knows more reasons."""
    for width in (1400, 420):
        (scratch / str(width)).mkdir()
        page = Page(scratch / str(width), "--bad-quality", width=width)
        with page as browser:
            page.open()
            check("cut short" in browser.text("#quality summary"), browser.text("#quality summary"))
            browser.click("#quality summary")
            build = page.collector.query(**{"from": "now-15m"}).json()["quality"]["worst_builds"][0]
            text = browser.text("#quality table")
            for words in (f"{build['stopped']:,}", f"{100 * build['share']:.1f} %",
                          "its unwind table was not loaded yet", "within seconds of its build being met",
                          "leaves out the code that it was in", "of_tomorrow"):
                check(words in text, "no", words, "in", text)
            for scheme in ("light", "dark"):
                browser.call("Emulation.setEmulatedMedia",
                             features=[{"name": "prefers-color-scheme", "value": scheme}])
                equal(browser.evaluate("document.documentElement.scrollWidth - "
                                       "document.documentElement.clientWidth"), 0,
                      f"{width} px: too wide by")
                if PICTURES:
                    browser.picture(PICTURES / f"page-short-{width}-{scheme}.png")
            equal(browser.problems(), [], "complaints")


def it_fits_narrow_and_dark_screens(scratch):
    for width in (1400, 800, 420):
        (scratch / str(width)).mkdir()
        page = Page(scratch / str(width), "--waits", width=width)
        with page as browser:
            for scheme in ("light", "dark"):
                browser.call("Emulation.setEmulatedMedia",
                             features=[{"name": "prefers-color-scheme", "value": scheme}])
                page.open("?type=wall&root=thread&search=leaf_")
                overflow = browser.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth")
                equal(overflow, 0, f"{width} px: too wide by")
                colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
                brightness = sum(int(part) for part in colour[4:-1].split(","))
                check((brightness > 382) == (scheme == "light"), scheme, colour)
                if PICTURES:
                    browser.picture(PICTURES / f"page-{width}-{scheme}.png")


CASES = [
    the_page_shows_a_flame_graph,
    search_counts_the_outermost_once,
    zoom_goes_in_and_out_and_into_the_link,
    selectors_complete_and_filter,
    nothing_yet_says_what_to_do,
    hostile_strings_never_run,
    types_are_offered_where_the_data_has_them,
    wall_time_tells_its_parts_apart,
    it_says_why_stacks_are_short,
    it_fits_narrow_and_dark_screens,
]


def main():
    wanted = [word for word in sys.argv[3:] if not word.startswith("--")]
    if not find_chromium():
        print("skipped: chromium is not installed")
        return SKIP
    failed = 0
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="fleetprof-page.") as scratch:
            try:
                case(pathlib.Path(scratch))
                print(f"ok      {case.__name__.replace('_', ' ')}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {case.__name__.replace('_', ' ')}", flush=True)
                traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
