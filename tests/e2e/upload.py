#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Function names on request: a collector that sees none of the programs of a host names their
functions all the same, since it asks the agent for the tables of the builds that it has no
source of, each once. The truth is the source: every program has a function whose name stands
in no other file (tests/programs/wanted.c).

The agent runs as another user than root, the collector reads no local file. A program that a
user has linked with the build-ID of another one names nothing. Beside it a collector that lies:
what it asks for in a form of its own is not noted, and what it asks for that nobody has is
given up.
"""

import contextlib
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading

from collector_process import Collector
from control_agent import Agent, Folder, as_user, wait_for
from elffile import ElfFile
from reference import Check, arguments, skip_unless_live

PATIENCE_S = 120
PROGRAM_S = 600
STRIPPED = "the file holds no symbols (stripped)"

HOSTILE = (
    "",
    ",",
    "ab01,",
    "../../../../etc/passwd",
    "ab01/../../x",
    "AB01",
    "ab0",
    "ab01 cd02",
    "ab01, cd02",
    "0xab01",
    ".ab01.tmp",
    "ab" * 33,
    ",".join(["ab01"] * 17),
    "ab01," * 4000,
    "*",
    "%2e%2e",
)


USER = "nobody"


@contextlib.contextmanager
def running(path, user=None):
    with subprocess.Popen([*(as_user(user) if user else ()), path, str(PROGRAM_S)]) as child:
        try:
            yield child
        finally:
            child.kill()


def install(program, path, owner="root"):
    """No table is made of a file that others than root may write, whoever built it."""
    shutil.copy(program, path)
    shutil.chown(path, owner)
    path.chmod(0o755)
    return path


def folded(collector):
    answer = collector.query(format="folded")
    return answer.body.decode() if answer.status == 200 else ""


def builds(collector):
    """Rows of the builds met so far, those of stacks that only ever waited among them."""
    return collector.get("/api/v1/builds", **{"from": "0", "type": "wall"}).json()["builds"]


def status(collector, program):
    return [row["status"] for row in builds(collector) if row["path"].endswith("/" + program)]


def names(collector, function):
    wait_for(lambda: function in folded(collector), f"'{function}' is named", PATIENCE_S)
    return True


def has_table(collector, build_id):
    return collector.request("HEAD", f"/v1/symbols/{build_id}").status == 200


def answers(agent, result):
    return agent.metric(f'fleetprof_agent_wanted_symbols_total{{result="{result}"}}') or 0


def run_ended(agent, path):
    """A program that has ended by the time its table is asked for, and whose samples are in a
    window: it lives shorter than the rest of one."""
    windows = agent.metric("fleetprof_agent_windows_total")
    wait_for(lambda: agent.metric("fleetprof_agent_windows_total") > windows, "a window ends")
    subprocess.run([path, "1"], check=True)


def windows_go_by(agent, count):
    end = agent.metric("fleetprof_agent_windows_total") + count
    wait_for(lambda: agent.metric("fleetprof_agent_windows_total") >= end, "windows end")


def new_collector(build, folder):
    return Collector(build / "collector/fleetprof-collector", folder / "store",
                     "--symbols-use-local-files=no", "--symbols-debug-dirs=")


def test_names(build, folder, check):
    programs = build / "tests/programs"
    copies = {}
    for name in ("named", "deleted", "ended", "hashed", "stripped"):
        copies[name] = install(programs / f"wanted_{name}", folder / f"wanted_{name}")
    collector = new_collector(build, folder)
    settings = {("collector", "url"): f"http://127.0.0.1:{collector.port}"}
    with collector, Agent(build, folder, settings) as agent, \
            running(copies["named"]), running(copies["deleted"]), running(copies["hashed"]), \
            running(copies["stripped"]):
        copies["deleted"].unlink()
        run_ended(agent, copies["ended"])
        check(names(collector, "leaf_of_named"), "a program the collector cannot see is named")
        check(names(collector, "leaf_of_deleted"), "so is one deleted while it runs")
        check(names(collector, "leaf_of_hashed"), "and one that has nothing but its hash")
        check(names(collector, "leaf_of_ended"), "and one that has ended before it was asked for")
        wait_for(lambda: status(collector, "wanted_stripped") == [STRIPPED],
                 "the stripped program is told as such", PATIENCE_S)
        check(has_table(collector, ElfFile(copies["stripped"]).build_id),
              "a stripped program is answered as having no functions")
        check(wait_for(lambda: has_vdso(collector), "the vDSO has its table", PATIENCE_S),
              "the vDSO's functions are had from the agent's own copy")
        check_once(agent, collector, check)


def has_vdso(collector):
    """The collector has no local files here, so only the table names it."""
    return any(row["path"] == "[vdso]" and row["build_id"] and row["found"]
               and has_table(collector, row["build_id"]) for row in builds(collector))


def check_once(agent, collector, check):
    """What was asked for by now is not asked for again, whatever its answer was."""
    wait_for(lambda: not list(agent.spool.glob("symbols/wanted/*"))
             and not list(agent.spool.glob("symbols/*.once.zst")), "all wishes are answered",
             PATIENCE_S)
    windows_go_by(agent, 2)  # builds that were met only just now
    asked = collector.metric("fleetprof_collector_symbol_requests_total")
    waiting = len(list(agent.spool.glob("symbols/wanted/*")))
    stripped, spooled = answers(agent, "stripped"), answers(agent, "spooled")
    distinct = len(builds(collector))
    windows_go_by(agent, 4)
    # A build that the host first runs in these windows may be asked for: each one once.
    more = collector.metric("fleetprof_collector_symbol_requests_total") - asked
    check(answers(agent, "stripped") == stripped >= 1
          and answers(agent, "spooled") - spooled <= more + waiting,
          f"nothing is asked for in a loop: {stripped:.0f} stripped, {spooled:.0f} spooled")
    check(asked <= distinct, f"each build was asked for once: {asked:.0f} of {distinct}")
    check(answers(agent, "failed") == 0, "no file failed to be read")


def test_forged(build, folder, check):
    """The twins run before and after the program whose build they claim to be."""
    programs = build / "tests/programs"
    own = install(programs / "wanted_own", folder / "wanted_own")
    twins = [install(programs / "wanted_twin", folder / f"wanted_twin{i}", USER) for i in (1, 2)]
    build_id = ElfFile(own).build_id
    collector = new_collector(build, folder)
    settings = {("collector", "url"): f"http://127.0.0.1:{collector.port}"}
    check(ElfFile(twins[0]).build_id == build_id, "the twin has the build-ID of the program")
    with collector, running(twins[0], USER), running(own), running(twins[1], USER), \
            Agent(build, folder, settings) as agent:
        check(names(collector, "leaf_of_own"), "root's program is named beside its twins")
        windows_go_by(agent, 3)
        check(has_table(collector, build_id) and "leaf_of_twin" not in folded(collector),
              "what a twin calls its functions is never shown")


def test_untrusted(build, folder, check):
    """Nobody but a twin has the build, in the hands of a user or of root's group."""
    for owner, mode in ((USER, 0o755), ("root", 0o775)):
        twin = install(build / "tests/programs/wanted_twin", folder / "wanted_twin", owner)
        twin.chmod(mode)
        with lying((ElfFile(twin).build_id,)) as url, running(twin, USER), \
                Agent(build, folder, {("collector", "url"): url, **FAST}) as agent:
            wait_for(lambda: answers(agent, "untrusted") >= 1, "the wish is answered", PATIENCE_S)
            check(answers(agent, "spooled") == 0 and answers(agent, "stripped") == 0
                  and not list(agent.spool.glob("symbols/*.once.zst")),
                  f"no table is made of a file of {owner}'s, {mode:o}")
        twin.unlink()


class Liar(http.server.BaseHTTPRequestHandler):
    """Takes every batch and asks with a header of its own; keeps no symbol table."""

    wanted = ()
    taken = 0
    puts = []

    def do_POST(self):
        kind = type(self)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        if kind.wanted:
            self.send_header("X-Fleetprof-Wanted", kind.wanted[kind.taken % len(kind.wanted)])
        kind.taken += 1
        body = json.dumps({"status": "stored"}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def lying(wanted):
    Liar.wanted, Liar.taken = wanted, 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def noted(agent, result):
    return agent.metric(f'fleetprof_agent_ship_wanted_symbols_total{{result="{result}"}}') or 0


FAST = {("window", "length"): "1s", ("window", "drain_interval"): "200ms"}


def test_liar(build, folder, check):
    empty = 1  # of HOSTILE: as good as no header
    with lying(HOSTILE) as url, Agent(build, folder, {("collector", "url"): url, **FAST}) as agent:
        wait_for(lambda: Liar.taken >= len(HOSTILE), "every lie was told", PATIENCE_S)
        wait_for(lambda: noted(agent, "malformed") >= len(HOSTILE) - empty, "all lies are counted",
                 PATIENCE_S)
        check(noted(agent, "noted") == 0 and not list(agent.spool.glob("symbols/wanted/*")),
              "a list in another form is ignored as a whole")
        check(agent.child.poll() is None and agent.get("healthz") == 200, "the agent goes on")
    with lying(("00" * 20 + "," + "ab" * 32,)) as url, \
            Agent(build, folder, {("collector", "url"): url, **FAST}) as agent:
        wait_for(lambda: answers(agent, "gone") >= 2, "what nobody has is given up", PATIENCE_S)
        wait_for(lambda: not list(agent.spool.glob("symbols/*.once.zst")), "nothing was made")
        check(answers(agent, "spooled") == 0, "a build that nobody has is given up")


def test_off(build, folder, check):
    program = install(build / "tests/programs/wanted_named", folder / "wanted_named")
    build_id = ElfFile(program).build_id
    with lying((build_id,)) as url, running(program), \
            Agent(build, folder, {("collector", "url"): url, ("symbols", "upload"): "no",
                                  **FAST}) as agent:
        wait_for(lambda: answers(agent, "refused") >= 1, "the wish is refused", PATIENCE_S)
        check(answers(agent, "spooled") == 0 and not list(agent.spool.glob("symbols/*.once.zst")),
              "with symbols.upload off no table is made")


def main():
    options = arguments()
    skip_unless_live()
    check = Check()
    build = pathlib.Path(options.build)
    for test in (test_names, test_forged, test_untrusted, test_liar, test_off):
        with Folder() as folder:
            test(build, folder, check)
    return int(check.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
