#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of agent, ship role or collector at random moments loses at most the open window
and never counts a batch twice.

The truth does not come from any of the three: a witness (crash_witness.py) sees every batch
that is renamed into the spool and keeps its bytes. At the end every witnessed batch must be in
exactly one place (counted by the collector, or still queued), the collector must hold nothing
else, byte for byte, and its totals must be the sum over the distinct batches. That no more
than the open window is lost: the windows that the agent said it had closed, read just before
it was killed, are all in the spool of that life.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from crash_witness import Witness
from reference import Check, arguments, full, skip_unless_live

READY_S = 180  # patience on a machine that does much else
QUERY_S = 300
SHIP_RETURNS_S = 120  # the agent starts it again after 1 s, 2 s, 4 s … 60 s
PAUSE_S = (0.2, 2)  # between two kills; a window is 1 s
DELIVERY_S = 0.05  # from the spool to the acknowledgement; half of the kills fall in it
AGENT_USER, COLLECTOR_USER = "daemon", "nobody"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, limit_s=30):
    with urllib.request.urlopen(url, timeout=limit_s) as answer:
        return answer.read()


def wait_for(condition, what, limit_s=READY_S):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise RuntimeError(f"{what} within {limit_s} s")


def drop_to(user):
    return ["setpriv", "--reuid", user, "--regid", "nogroup", "--clear-groups"]


class Fleet:
    """One collector and one agent with a state directory of their own."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.port, self.metrics_port = free_port(), free_port()
        self.spool = folder / "agent" / "spool"
        self.store = folder / "store"
        self.agent = self.collector = None
        self.lives = 0
        self.logs = {name: open(folder / f"{name}.log", "ab") for name in ("agent", "collector")}
        for path, user in ((folder / "agent", AGENT_USER), (self.spool, AGENT_USER),
                           (self.store, COLLECTOR_USER)):
            path.mkdir(mode=0o700)
            shutil.chown(path, user)
        self.write_settings()

    def write_settings(self):
        (self.folder / "collector.conf").write_text(
            f"[http]\nlisten = 127.0.0.1:{self.port}\n[store]\ndirectory = {self.store}\n"
            f"[query]\nmax_duration = {QUERY_S}s\n")
        (self.folder / "agent.conf").write_text(f"""
[cpu]
hz = 99
[window]
length = 1s
jitter_percent = 0
drain_interval = 250ms
[collector]
url = http://127.0.0.1:{self.port}
retry_max = 1s
[spool]
directory = {self.spool}
min_free_percent = 0
min_free = 0B
[agent]
user = {AGENT_USER}
state_directory = {self.folder}/agent
lock_file = {self.folder}/agent.lock
control_socket = {self.folder}/agent.sock
control_group =
listen = 127.0.0.1:{self.metrics_port}
""")

    def spawn(self, name, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.logs[name],
                                stderr=self.logs[name])

    def start_collector(self):
        program = self.build / "collector" / "fleetprof-collector"
        self.collector = self.spawn("collector", [
            *drop_to(COLLECTOR_USER), program, f"--config={self.folder}/collector.conf"])
        self.wait_ready("collector", self.collector, self.port, "healthz")

    def start_agent(self):
        program = self.build / "agent" / "fleetprof-agent"
        self.agent = self.spawn("agent", [program, f"--config={self.folder}/agent.conf"])
        self.wait_ready("agent", self.agent, self.metrics_port, "readyz")
        self.lives += 1

    def wait_ready(self, name, process, port, path):
        def ready():
            if process.poll() is not None:
                raise RuntimeError(f"the {name} ended with {process.returncode}")
            try:
                return get(f"http://127.0.0.1:{port}/{path}") is not None
            except OSError:
                return False
        wait_for(ready, f"the {name} is not ready")

    def ship_pid(self):
        """The agent's ship role, or None while it is being started again."""
        try:
            text = pathlib.Path(f"/proc/{self.agent.pid}/task/{self.agent.pid}/children")
            for child in text.read_text().split():
                if pathlib.Path(f"/proc/{child}/comm").read_text() == "fleetprof-ship\n":
                    return int(child)
        except OSError:
            pass
        return None

    def metrics(self):
        """{series: value} of the agent, or {} while nobody serves them."""
        try:
            text = get(f"http://127.0.0.1:{self.metrics_port}/metrics").decode()
        except OSError:
            return {}
        return {name: float(value) for name, value in
                re.findall(r"^(fleetprof_\S+) (\S+)$", text, re.M)}

    def query_samples(self, kind):
        """Samples of a type in everything the collector has."""
        query = urllib.parse.urlencode({"type": kind, "from": "now-6h", "raw": 1, "max_nodes": 1})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        answer = json.loads(get(url, QUERY_S))
        return answer["stats"]["samples"]

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        return process.wait(60)

    def end(self):
        for process in (self.agent, self.collector):
            if process and process.poll() is None:
                process.kill()
                process.wait()


class Killer:
    """Kills one of the three and brings it back; remembers what the agent said before."""

    def __init__(self, fleet, witness, dice):
        self.fleet, self.witness, self.dice = fleet, witness, dice
        self.said = {}  # life → (windows closed, batches spooled, samples spooled)
        self.kills = {"agent": 0, "ship role": 0, "collector": 0}

    def wait(self):
        """A random while; every other time until a batch is on its way, and a little."""
        time.sleep(self.dice.uniform(*PAUSE_S))
        if self.dice.random() < 0.5:
            self.witness.spooled.clear()
            self.witness.spooled.wait(5)
            time.sleep(self.dice.uniform(0, DELIVERY_S))

    def kill(self, victim):
        {"agent": self.kill_agent, "ship role": self.kill_ship,
         "collector": self.kill_collector}[victim]()
        self.kills[victim] += 1

    def listen(self):
        metrics = self.fleet.metrics()
        values = tuple(int(metrics.get(name, 0)) for name in SAID)
        before = self.said.get(self.fleet.lives, (0, 0, 0))
        self.said[self.fleet.lives] = tuple(map(max, values, before))
        return metrics

    def kill_agent(self):
        self.listen()
        self.fleet.agent.kill()
        self.fleet.agent.wait()
        self.witness.mark(self.fleet.lives + 1)
        self.fleet.start_agent()

    def kill_ship(self):
        """Its return is not waited for, so that the others are also killed while it is away."""
        pid = wait_for(self.fleet.ship_pid, "the agent has no ship role", SHIP_RETURNS_S)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.fleet.ship_pid() != pid, "the ship role does not end")

    def kill_collector(self):
        self.fleet.collector.kill()
        self.fleet.collector.wait()
        time.sleep(self.dice.uniform(0, 2))  # away for a while
        self.fleet.start_collector()


SAID = ("fleetprof_agent_windows_total", "fleetprof_agent_batches_spooled_total",
        "fleetprof_agent_samples_spooled_total")


def collected(store):
    """[(id, body, cpu samples, off-CPU intervals)] of the batches that the collector counts."""
    rows = []
    path = next(store.glob("*.db"), None) or next(store.glob("*.sqlite*"))
    with sqlite3.connect(path) as database:
        for batch, segment, offset, size, cpu, off_cpu in database.execute(
                "SELECT id, segment, offset, size, cpu_samples, off_cpu_samples FROM batch"):
            with open(next(store.rglob(f"{segment:020d}.wal")), "rb") as log:
                log.seek(offset + 24)  # behind the record's header (collector/wal.h)
                rows.append((batch, log.read(size), cpu, off_cpu))
    return rows


def check_batches(check, witnessed, queued, rows):
    by_id = {batch.id: batch for batch in witnessed.values()}
    check(len(by_id) == len(witnessed), f"{len(witnessed)} batches have as many ids")
    ids = [row[0] for row in rows]
    check(len(ids) > 0, f"the collector counts batches ({len(ids)})")
    check(len(set(ids)) == len(ids), "the collector counts no id twice")
    unknown = [batch.hex() for batch in ids if batch not in by_id]
    check(not unknown, f"the collector counts nothing that was never spooled {unknown}")
    changed = [row[0].hex() for row in rows
               if row[0] in by_id and by_id[row[0]].payload != row[1]]
    check(not changed, f"every batch arrived as it was spooled {changed}")
    payloads = {row[1] for row in rows}
    check(len(payloads) == len(rows), "no two counted batches hold the same bytes")
    lost = [name for name, batch in witnessed.items()
            if batch.id not in set(ids) and name not in queued]
    check(not lost, f"every spooled batch is counted or queued; lost: {lost}")
    wrong = [row[0].hex() for row in rows
             if row[0] in by_id and by_id[row[0]].samples != row[2] + row[3]]
    check(not wrong, f"every batch counts for the samples in its header {wrong}")


def check_windows(check, witnessed, said):
    """What the agent had closed before it was killed is in the spool of that life."""
    for life, (windows, batches, samples) in sorted(said.items()):
        seen = [batch for batch in witnessed.values() if batch.life == life]
        check(len(seen) >= max(windows, batches),
              f"life {life}: {windows} windows closed, {batches} spooled, {len(seen)} seen")
        check(sum(batch.samples for batch in seen) >= samples,
              f"life {life}: {samples} samples said to be spooled are in the spool")


def check_totals(check, fleet, rows):
    for column, kind in ((2, "cpu"), (3, "off_cpu")):
        counted, told = sum(row[column] for row in rows), fleet.query_samples(kind)
        check(told == counted, f"a query of {kind} over everything finds {told} samples, "
                               f"the batches hold {counted}")


def check_counters(check, metrics):
    for name, value in sorted(metrics.items()):
        if "dropped" in name and "spool" in name or "balance_errors" in name:
            check(value == 0, f"{name} is {value:.0f}")


def run(build, folder, check):
    kills = 100 if full() else 12
    seed = int(os.environ.get("FP_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    dice = random.Random(seed)
    print(f"-- {kills} kills, FP_TEST_SEED={seed}")
    fleet = Fleet(build, folder)
    keep = folder / "witness"
    keep.mkdir()
    load = subprocess.Popen([build / "tests" / "programs" / "calltree_fp", "--seconds", "3600"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        witness = Witness(fleet.spool, keep)
        fleet.start_collector()
        witness.mark(1)
        fleet.start_agent()
        killer = Killer(fleet, witness, dice)
        victims = [("agent", "ship role", "collector")[i % 3] for i in range(kills)]
        dice.shuffle(victims)
        for victim in victims:
            killer.wait()
            killer.kill(victim)
        last = wait_for(killer.listen, "nobody tells the agent's metrics", SHIP_RETURNS_S)
        wait_for(lambda: not list(fleet.spool.glob("*.batch")), "the spool is not emptied")
        check(fleet.stop(fleet.agent) == 0, "the agent stops cleanly")
        check(fleet.stop(fleet.collector) == 0, "the collector stops cleanly")
        witness.mark(fleet.lives + 1)
        print(f"-- killed {killer.kills}")
        judge(check, fleet, witness, killer, last)
    finally:
        load.kill()
        load.wait()
        fleet.end()


def judge(check, fleet, witness, killer, last):
    witnessed, missing = witness.batches()
    check(not witness.lost_events, "the witness missed no event")
    check(not missing, f"the witness has the bytes of every batch {missing}")
    queued = {path.name for path in fleet.spool.glob("*.batch")}
    quarantined = [path.name for path in fleet.spool.rglob("quarantine/*")]
    check(not quarantined, f"no spool file went bad {quarantined}")
    rows = collected(fleet.store)
    print(f"-- {len(witnessed)} batches spooled, {len(rows)} counted, {len(queued)} queued")
    check_batches(check, witnessed, queued, rows)
    check_windows(check, witnessed, killer.said)
    check_counters(check, last)
    fleet.start_collector()
    check_totals(check, fleet, rows)


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    with tempfile.TemporaryDirectory(prefix="fleetprof-crash.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o711)
        try:
            run(build, folder, check)
        except Exception:
            check.failures += 1
            raise
        finally:
            if check.failures:
                for log in folder.glob("*.log"):
                    print(f"-- {log.name}\n" + log.read_text(errors="replace")[-4000:])
    print(f"{check.failures} failed")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
