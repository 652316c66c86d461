#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collector from outside: ingest, refusals, restarts, kill -9, queries, hostile content.

collector.py COLLECTOR MAKE_BATCHES [case …]
"""

import ctypes
import ctypes.util
import errno
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import xml.etree.ElementTree

from collector_process import Batches, Collector, free_port

PROGRAM, MAKE_BATCHES = sys.argv[1:3]
START = "--start=1764450000"


def check(condition, *words):
    if not condition:
        raise AssertionError(" ".join(str(word) for word in words))


def equal(got, expected, what):
    check(got == expected, f"{what}: got {got!r}, expected {expected!r}")


def folded_sum(text):
    return sum(int(line.rsplit(b" ", 1)[1]) for line in text.splitlines())


def zstd(data):
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p,
                                      ctypes.c_size_t, ctypes.c_int]
    out = ctypes.create_string_buffer(len(data) + 1024)
    size = library.ZSTD_compress(out, len(out), data, len(data), 3)
    return out.raw[:size]


def a_batch_is_stored_once(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START, "--count=3")
    other = Batches(MAKE_BATCHES, scratch / "other", START, "--seed=2")
    with Collector(PROGRAM, scratch / "data") as collector:
        for path, batch_id in zip(batches.files, batches.ids):
            answer = collector.send(path)
            equal((answer.status, answer.json()), (200, {"status": "stored", "id": batch_id}), path)
        for path, batch_id in zip(batches.files, batches.ids):
            answer = collector.send(path)
            equal((answer.status, answer.json()), (200, {"status": "duplicate", "id": batch_id}), path)
        answer = collector.send(other.files[0])
        equal((answer.status, answer.json()["error"]), (409, "conflict"), "other content")
        body = pathlib.Path(batches.files[0]).read_bytes()
        for header, status in ((batches.ids[0], 200), (batches.ids[1], 400), ("x", 400)):
            answer = collector.request("POST", "/v1/batches", body, {"X-Fleetprof-Batch-Id": header})
            equal(answer.status, status, f"header {header}")
        equal(folded_sum(collector.query(format="folded").body), sum(batches.cpu), "CPU samples")
        equal(folded_sum(collector.query(format="folded", type="off_cpu").body),
              sum(batches.off_cpu), "off-CPU nanoseconds")
        equal(collector.metric('fleetprof_collector_batches_total{result="stored"}'), 3, "stored")
        equal(collector.metric('fleetprof_collector_batches_total{result="duplicate"}'), 4, "duplicate")
        equal(collector.metric('fleetprof_collector_batches_total{result="conflict"}'), 1, "conflict")
        equal(collector.metric('fleetprof_collector_samples_total{type="cpu"}'), sum(batches.cpu), "samples")
        equal(collector.stop(), 0, "exit code")
        collector.start()
        equal(collector.send(batches.files[0]).json()["status"], "duplicate", "after a restart")
        equal(folded_sum(collector.query(format="folded").body), sum(batches.cpu), "after a restart")


def malformed_batches_change_nothing(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START)
    body = pathlib.Path(batches.files[0]).read_bytes()
    source = random.Random(1)
    bad = [b"", b"x", b"{}", bytes(source.randbytes(5000)), body[:-1], body + b"x", body[:40],
           zstd(b"hello"), zstd(b"\xff" * 100000)]
    for _ in range(60):
        damaged = bytearray(body)
        damaged[source.randrange(len(body))] ^= 1 << source.randrange(8)
        bad.append(bytes(damaged))
    with Collector(PROGRAM, scratch / "data", "--ingest-max-batch-bytes=256KiB") as collector:
        stored = 0
        for data in bad:
            answer = collector.request("POST", "/v1/batches", data)
            stored += answer.status == 200
            check(answer.status in (200, 400, 413), answer.status, len(data))
            check(answer.status == 200 or answer.json()["reason"], "no reason")
        # A flipped bit that leaves a whole batch (in the checksum-free parts of a frame) may
        # be one; it is then another batch, never a wrong one counted as the right one.
        equal(collector.metric("fleetprof_collector_store_batches"), stored, "stored")
        equal(collector.send(batches.files[0]).status in (200, 409), True, "the good one")


def oversized_requests_get_413(scratch):
    with Collector(PROGRAM, scratch / "data", "--ingest-max-batch-bytes=64KiB") as collector:
        big = b"x" * (1 << 20)
        answer = collector.request("POST", "/v1/batches", big)
        equal((answer.status, answer.json()["error"]), (413, "too_large"), "by its length")
        answer = collector.request("POST", "/v1/batches", (big[:1000] for _ in range(1000)))
        equal((answer.status, answer.json()["error"]), (413, "too_large"), "while reading")
        with socket.create_connection(("127.0.0.1", collector.port)) as raw:
            raw.sendall(b"POST /v1/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n"
                        b"Expect: 100-continue\r\n\r\n")
            check(raw.recv(4096).startswith(b"HTTP/1.1 413"), "before the body is sent")
        answer = collector.get("/healthz")
        equal(answer.status, 200, "still there")
        equal(collector.metric('fleetprof_collector_batches_total{result="too_large"}'), 3, "counted")
        equal(collector.metric("fleetprof_collector_store_batches"), 0, "stored")


def wrong_requests_are_answered_with_a_reason(scratch):
    many = {f"p{i}": "x" for i in range(40)}
    wrong_queries = [
        {"type": "memory"}, {"selector": "{"}, {"selector": 'host="a"'}, {"selector": '{a=~"("}'},
        {"selector": "{" + "a" * 5000}, {"from": "yesterday"}, {"from": "now-1y"}, {"to": "0"},
        {"from": "20", "to": "10"}, {"format": "exe"}, {"icicle": "2"}, {"width": "0"},
        {"width": "-1"}, {"rows": "1e9"}, {"max_nodes": "x"}, {"root": "r" * 200}, many,
    ]
    with Collector(PROGRAM, scratch / "data") as collector:
        for method, path, status in (
                ("GET", "/nothing", 404), ("GET", "/v1/batches", 405), ("DELETE", "/", 405),
                ("POST", "/api/v1/query", 405), ("PUT", "/v1/batches", 405),
                ("GET", "/assets/nothing.js", 404), ("GET", "/assets/../../etc/passwd", 404),
                ("GET", "/assets/%2e%2e%2fmetrics", 404), ("PUT", "/v1/symbols/..%2f..%2fx", 404),
                ("PUT", "/v1/symbols/ABCD", 400), ("PUT", "/v1/symbols/abc", 400),
                ("PUT", "/v1/symbols/" + "a" * 66, 400), ("BREW", "/", 405)):
            answer = collector.request(method, path)
            equal(answer.status, status, f"{method} {path}")
            check(answer.json()["reason"], "no reason")
            check((status == 405) == ("allow" in answer.headers), method, path, "Allow")
        for parameters in wrong_queries:
            answer = collector.get("/api/v1/query", **parameters)
            equal(answer.status, 400, parameters)
            check(answer.json()["reason"], "no reason")
        for line in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
                     b"POST /v1/batches HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", collector.port)) as raw:
                raw.settimeout(30)
                try:
                    raw.sendall(line)
                    raw.shutdown(socket.SHUT_WR)
                    got = raw.recv(65536)
                    check(not got or b" 4" in got[:20] or b" 5" in got[:20], got[:60])
                except OSError as error:  # closed before it had all of it
                    check(isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN,
                          error)
        equal(collector.get("/healthz").status, 200, "still there")


def a_slow_client_holds_up_nobody(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START)
    with Collector(PROGRAM, scratch / "data", "--http-request-timeout=2s") as collector:
        drips = []
        for opening in (b"", b"GET / HT", b"POST /v1/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"):
            raw = socket.create_connection(("127.0.0.1", collector.port))
            raw.sendall(opening)
            drips.append(raw)
        equal(collector.send(batches.files[0]).status, 200, "another client")
        deadline = time.monotonic() + 60
        for raw in drips:
            raw.settimeout(0.2)
            while time.monotonic() < deadline:
                try:
                    raw.sendall(b"x")
                    if not raw.recv(1000):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                check(False, "a client that drips bytes was never cut off")
            raw.close()
        while collector.metric('fleetprof_collector_requests_refused_total{reason="slow"}') < 1:
            check(time.monotonic() < deadline, "counted")  # once the connection is taken down
            time.sleep(0.05)


def only_the_token_lets_agents_in(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START)
    body = pathlib.Path(batches.files[0]).read_bytes()
    token = scratch / "token"
    token.write_text("correct horse\n")
    with Collector(PROGRAM, scratch / "data", f"--ingest-token-file={token}") as collector:
        for header, status in ((None, 401), ("Bearer", 401), ("Bearer correct", 401),
                               ("Bearer correct horsf", 401), ("Basic correct horse", 401),
                               ("Bearer correct horse", 200)):
            headers = {"Authorization": header} if header else {}
            answer = collector.request("POST", "/v1/batches", body, headers)
            equal(answer.status, status, header)
            check((status == 401) == ("www-authenticate" in answer.headers), "challenge")
        equal(collector.request("PUT", "/v1/symbols/aabb", b"x").status, 401, "symbols")
        answer = collector.request("POST", "/v1/batches", body, {
            "Authorization": "Bearer correct horse", "Origin": "http://elsewhere"})
        equal(answer.status, 403, "a page of another site")
        equal(collector.query().status, 200, "viewers need none")


def uploaded_symbols_name_old_samples(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START)
    table = "".join(f"{0x1000 * i:x} sys_function_{i}\n" for i in range(1, 10)).encode()
    path = "/v1/symbols/" + "11" * 20
    with Collector(PROGRAM, scratch / "data", "--symbols-max-upload-bytes=4KiB") as collector:
        collector.send(batches.files[0])
        check(b"sys_function" not in collector.query(format="folded").body, "named too early")
        equal(collector.request("HEAD", path).status, 404, "HEAD before")
        equal(collector.request("PUT", path, b"nonsense").status, 400, "nonsense")
        bomb = collector.request("PUT", path, zstd(b"10 a\n" * 100000))
        equal((bomb.status, bomb.json()["error"]), (413, "too_large"), f"a bomb: {bomb.body}")
        equal(collector.request("PUT", path, zstd(table), {"X-Fleetprof-Path": "[kernel]"}).status, 201, "PUT")
        equal(collector.request("HEAD", path).status, 200, "HEAD after")
        equal(collector.request("PUT", path, zstd(table)).status, 200, "PUT again")
        folded = collector.query(format="folded").body
        check(b"sys_function_3" in folded, "no names in", folded[:300])
        equal(folded_sum(folded), sum(batches.cpu), "samples")
        builds = collector.get("/api/v1/builds", **{"from": "0"}).json()["builds"]
        kernel = [build for build in builds if build["path"] == "[kernel]"][0]
        check(kernel["found"] and kernel["samples"] > 0, kernel)
        web = [build for build in builds if build["path"] == "/usr/bin/web"][0]
        check(not web["found"] and web["status"], web)
        collector.kill()
        collector.start()
        check(b"sys_function_3" in collector.query(format="folded").body, "names after kill -9")


def wanted(answer):
    return [build for build in answer.headers.get("x-fleetprof-wanted", "").split(",") if build]


def builds_without_a_source_are_asked_for_once(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START, "--count=4")
    debug = scratch / "debug"
    flags = ["--symbols-use-local-files=no", f"--symbols-debug-dirs={debug}"]
    with Collector(PROGRAM, scratch / "data", *flags) as collector:
        asked = wanted(collector.send(batches.files[0]))
        rows = collector.get("/api/v1/builds", **{"from": "0"}).json()["builds"]
        files = {row["build_id"] for row in rows if row["path"].startswith(("/", "[vdso]"))} - {""}
        check(set(asked) == files and len(asked) == len(files), asked, "of", files)
        hottest = max((row for row in rows if row["build_id"] in files), key=lambda row: row["samples"])
        equal(asked[0], hottest["build_id"], "hottest first")
        equal(wanted(collector.send(batches.files[1])), [], "the same builds again")
        equal(wanted(collector.send(batches.files[0])), [], "a batch sent again")
        equal(collector.metric("fleetprof_collector_symbol_requests_total"), len(asked), "counted")
        # A file without functions is answered so, and says it to people; a better table wins.
        path = f"/v1/symbols/{asked[0]}"
        equal(collector.request("PUT", path, zstd(b"")).status, 201, "an empty table")
        row = [row for row in collector.get("/api/v1/builds", **{"from": "0"}).json()["builds"]
               if row["build_id"] == asked[0]][0]
        equal(row["status"], "the file holds no symbols (stripped)", "status")
        equal(collector.request("PUT", path, zstd(b"10 a\n20 b\n")).status, 201, "a better one")
        equal(collector.request("PUT", path, zstd(b"10 a\n")).status, 200, "a worse one")
        equal(collector.request("PUT", path, zstd(b"")).status, 200, "an empty one")
    held = debug / ".build-id" / asked[0][:2] / f"{asked[0][2:]}.debug"
    held.parent.mkdir(parents=True)
    held.touch()
    with Collector(PROGRAM, scratch / "again", *flags) as collector:
        equal(set(wanted(collector.send(batches.files[0]))), files - {asked[0]}, "but what is here")
    with Collector(PROGRAM, scratch / "never", *flags, "--symbols-request=no") as collector:
        equal(wanted(collector.send(batches.files[0])), [], "symbols.request = no")
    with Collector(PROGRAM, scratch / "refused", *flags) as collector:
        body = pathlib.Path(batches.files[0]).read_bytes()[:-1]
        answer = collector.request("POST", "/v1/batches", body)
        equal((answer.status, wanted(answer)), (400, []), "a batch that is not taken")


def stopped_for_reasons(quality):
    """Of the build in which walks stopped: how many of all, and why in words."""
    worst = quality["worst_builds"][0]
    equal(worst["share"], round(worst["stopped"] / quality["counters"]["user_stacks"], 6), "share")
    reasons = worst["reasons"]
    equal([reason["reason"] for reason in reasons], ["no_entry", "not_loaded", "of_tomorrow"], "reasons")
    equal(sum(reason["stacks"] for reason in reasons), worst["stopped"], "stacks by reason")
    equal(reasons[1]["text"], "its unwind table was not loaded yet", "in words")
    equal((reasons[2]["text"], reasons[2]["fix"]), ("of_tomorrow", ""), "one that is not known here")


def every_view_adds_up(scratch):
    mine = Batches(MAKE_BATCHES, scratch / "in", START, "--host=a", "--count=4")
    fast = Batches(MAKE_BATCHES, scratch / "in", START, "--host=b", "--hz=99")
    with Collector(PROGRAM, scratch / "data") as collector:
        for path in mine.files + fast.files:
            equal(collector.send(path).status, 200, path)
        for root in ("none", "thread", "executable", "host"):
            view = collector.query(selector='{host="a"}', root=root).json()
            nodes = view["tree"]["nodes"]
            equal(nodes["total"][0], sum(mine.cpu), root)
            equal(sum(nodes["self"]), sum(mine.cpu), f"{root}: selves")
            for node in range(1, len(nodes["parent"])):
                check(nodes["parent"][node] < node, "order")
            equal(view["unit"], "samples", "unit")
        small = collector.query(selector='{host="a"}', max_nodes="50").json()
        nodes = small["tree"]["nodes"]
        check(len(nodes["self"]) <= 101 and small["tree"]["cut_nodes"] > 0, "pruned")
        equal(sum(nodes["self"]), sum(mine.cpu), "nothing is lost by pruning")
        equal(small["functions"], collector.query(selector='{host="a"}').json()["functions"],
              "the table is of the full tree")
        both = collector.query().json()
        equal(both["unit"], "nanoseconds", "different rates")
        expected = sum(mine.cpu) * (10**9 // 19) + sum(fast.cpu) * (10**9 // 99)
        equal(both["tree"]["nodes"]["total"][0], expected, "as time")
        parts = [collector.query(selector=selector, format="folded", **{"from": "0"}).body
                 for selector in ('{host="a",thread="main"}', '{host="a",thread!="main"}')]
        equal(sum(map(folded_sum, parts)), sum(mine.cpu), "a label and its opposite")
        window = collector.query(selector='{host="a"}', format="folded",
                                 **{"from": "1764450060", "to": "1764450120"}).body
        equal(folded_sum(window), mine.cpu[1], "one window")
        equal(collector.query(format="pprof").body[:2], b"\x1f\x8b", "pprof is gzip")
        check(b"samples" in collector.query(format="table", selector='{host="a"}').body, "table")
        quality = collector.get("/api/v1/quality", **{"from": "0", "selector": '{host="a"}'}).json()
        equal(quality["quality"]["counters"]["samples"], sum(mine.cpu), "quality")
        stopped_for_reasons(quality["quality"])
        hosts = [host["host"] for host in collector.get("/api/v1/hosts").json()["hosts"]]
        equal(hosts, ["a", "b"], "hosts")
        equal(collector.get("/api/v1/labels").json()["labels"], ["executable", "host", "thread"], "labels")
        values = collector.get("/api/v1/label/thread/values", prefix="w").json()["values"]
        equal(values, ["worker-1", "worker-2"], "values")


def hostile_strings_stay_text(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START, "--hostile", "--host=<script>x")
    with Collector(PROGRAM, scratch / "data") as collector:
        equal(collector.send(batches.files[0]).status, 200, "accepted")
        view = collector.query(root="thread")
        equal(view.json()["tree"]["nodes"]["total"][0], batches.cpu[0], "json")
        equal(view.headers["content-type"], "application/json", "json")
        for path in ("/api/v1/query", "/api/v1/hosts", "/", "/assets/page.js", "/metrics"):
            answer = collector.get(path)
            equal(answer.headers["x-content-type-options"], "nosniff", path)
            check("default-src 'none'" in answer.headers["content-security-policy"], path)
        check(collector.get("/api/v1/hosts").json()["hosts"][0]["host"] == "<script>x", "host")
        equal(folded_sum(collector.query(format="folded", root="thread").body), batches.cpu[0], "folded")
        svg = collector.query(format="svg", root="thread")
        tree = xml.etree.ElementTree.fromstring(svg.body)
        scripts = [node for node in tree.iter() if node.tag.rsplit("}", 1)[-1] == "script"]
        check(len(scripts) <= 1, "scripts in the SVG:", len(scripts))
        check("onerror" not in {key for node in tree.iter() for key in node.attrib}, "attribute")
        check("sandbox" in svg.headers["content-security-policy"], "the SVG has no origin")
        table = collector.query(format="table").body
        check(b"\x1b" not in table and b"\x01" not in table, "control bytes for a terminal")
        json.loads(collector.get("/api/v1/label/thread/values").body)


def limits_of_a_query_say_what_to_do(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START, "--count=8", "--stacks=400")
    with Collector(PROGRAM, scratch / "data", "--query-max-rows=1000") as collector:
        for path in batches.files:
            collector.send(path)
        answer = collector.query()
        equal((answer.status, answer.json()["error"]), (422, "over_limit"), "rows")
        check("shorter range" in answer.json()["reason"], answer.body)
        answer = collector.query(selector='{thread=~"(.+.+)+[0-9]x"}', to="1764450060")
        check(answer.status in (200, 422), answer.status)
        equal(collector.query(to="1764450060").status, 200, "one window")


def the_configuration_is_checked(scratch):
    def run(*arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                              check=False)

    config = scratch / "collector.conf"
    config.write_text("[store]\nretention = 5 parsecs\n")
    done = run(f"--config={config}", "--check-config")
    check(done.returncode == 2 and f"{config}:2" in done.stderr and "retention" in done.stderr, done)
    config.write_text("[store]\nretentoin = 5h\n")
    done = run(f"--config={config}", "--check-config")
    check(done.returncode == 2 and "retentoin" in done.stderr, done)
    config.write_text("[store]\nretention = 5h\n")
    equal(run(f"--config={config}", "--check-config").returncode, 0, "a good one")
    check(f"{config}:2" in run(f"--config={config}", "--dump-config").stdout, "origin")
    equal(run("--config", f"{scratch}/none", "--check-config").returncode, 2, "a missing file")
    equal(run("--nonsense").returncode, 2, "an unknown option")
    equal(run("--config=/dev/null", "--http-max-connections=0").returncode, 2, "out of range")
    equal(run("--version").returncode, 0, "--version")
    check("--store-max-bytes" in run("--help").stdout, "--help")
    for name in ("settings", "metrics", "routes"):
        check("|---" in run(f"--print-docs={name}").stdout, name)
    done = run("--config=/dev/null", "--http-listen=nowhere", f"--store-directory={scratch}/d")
    check(done.returncode == 1 and "nowhere" in done.stderr, done)


def one_directory_and_one_port_serve_one_collector(scratch):
    with Collector(PROGRAM, scratch / "data") as first:
        done = subprocess.run([PROGRAM, "--config=/dev/null", f"--store-directory={scratch}/data",
                               f"--http-listen=127.0.0.1:{free_port()}"],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 1 and "another collector" in done.stderr, done)
        done = subprocess.run([PROGRAM, "--config=/dev/null", f"--store-directory={scratch}/two",
                               f"--http-listen=127.0.0.1:{first.port}"],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 1 and "cannot listen" in done.stderr, done)


def retention_by_bytes_is_counted(scratch):
    batches = Batches(MAKE_BATCHES, scratch / "in", START, "--count=220", "--stacks=400")
    size = sum(pathlib.Path(path).stat().st_size for path in batches.files)
    check(size > 1.5 * 2**20, "the batches do not exceed the bound:", size)
    with Collector(PROGRAM, scratch / "data", "--store-max-bytes=1MiB") as collector:
        for path in batches.files:
            equal(collector.send(path).status, 200, path)
        deadline = time.monotonic() + 60
        while collector.metric("fleetprof_collector_store_bytes") > 2**20:
            check(time.monotonic() < deadline, "the bound was not applied")
            time.sleep(0.2)
        gone = collector.metric("fleetprof_collector_store_expired_batches_total")
        kept = collector.metric("fleetprof_collector_store_batches")
        equal(gone + kept, 220, "batches gone and kept")
        equal(folded_sum(collector.query(format="folded").body), sum(batches.cpu[int(gone):]), "the newest stay")
        for path in batches.files[:3]:
            equal(collector.send(path).json()["status"], "duplicate", "an id that outlived its batch")


class Sender(threading.Thread):
    """Sends its batches until each was answered, however often the collector dies."""

    def __init__(self, collector, files):
        super().__init__(daemon=True)
        self.collector = collector
        self.files = files
        self.acknowledged = []

    def run(self):
        for path in self.files:
            while True:
                try:
                    if self.collector.send(path).status == 200:
                        self.acknowledged.append(path)
                        break
                except OSError:
                    pass
                except Exception:  # a cut answer: http.client has several errors for it
                    pass
                time.sleep(0.005)


def kill_9_neither_loses_nor_doubles(scratch):
    source = random.Random()
    seed = source.randrange(10**6)
    source.seed(seed)
    print(f"  seed {seed}")
    hosts = [Batches(MAKE_BATCHES, scratch / "in", START, f"--host=h{i}", "--count=120",
                     "--stacks=60") for i in range(4)]
    total = sum(sum(host.cpu) for host in hosts)
    collector = Collector(PROGRAM, scratch / "data")
    with collector:
        senders = [Sender(collector, host.files) for host in hosts]
        for sender in senders:
            sender.start()
        kills = 0
        while any(sender.is_alive() for sender in senders) or kills < 15:
            time.sleep(source.uniform(0.005, 0.15))
            collector.kill()
            kills += 1
            acknowledged = sum(len(sender.acknowledged) for sender in senders)
            collector.start()
            stored = collector.metric("fleetprof_collector_store_batches")
            check(stored >= acknowledged, f"kill {kills}: {stored} stored, {acknowledged} acknowledged")
        for sender in senders:
            sender.join()
        print(f"  {kills} kills")
        equal(collector.metric("fleetprof_collector_store_batches"), 480, "batches")
        equal(folded_sum(collector.query(format="folded").body), total, "samples")
        for host in hosts:
            for path in host.files:
                equal(collector.send(path).json()["status"], "duplicate", path)
        equal(folded_sum(collector.query(format="folded").body), total, "samples after all were sent again")
        for extra in (scratch / "data").glob("manifest.sqlite*"):
            collector.kill()
            extra.unlink(missing_ok=True)
        collector.start()
        equal(folded_sum(collector.query(format="folded").body), total, "samples from the log alone")
        equal(collector.stop(), 0, "exit code")


CASES = [
    the_configuration_is_checked,
    a_batch_is_stored_once,
    malformed_batches_change_nothing,
    oversized_requests_get_413,
    wrong_requests_are_answered_with_a_reason,
    a_slow_client_holds_up_nobody,
    only_the_token_lets_agents_in,
    uploaded_symbols_name_old_samples,
    builds_without_a_source_are_asked_for_once,
    every_view_adds_up,
    hostile_strings_stay_text,
    limits_of_a_query_say_what_to_do,
    one_directory_and_one_port_serve_one_collector,
    retention_by_bytes_is_counted,
    kill_9_neither_loses_nor_doubles,
]


def main():
    wanted = sys.argv[3:]
    failed = 0
    for case in CASES:
        name = case.__name__.replace("_", " ")
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="fleetprof-collector.") as scratch:
            try:
                case(pathlib.Path(scratch))
                print(f"ok      {name}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}", flush=True)
                traceback.print_exc()
                for log in pathlib.Path(scratch).glob("*.log"):
                    print(log.read_text(errors="replace")[-2000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
