#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The control socket gives nobody a process that the kernel would not let them debug, and no
client, however it behaves, holds up the agent or another client."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from control_agent import Agent, Folder, as_user, wait_for
from reference import Check, arguments, skip, skip_unless_live

ALICE, BOB, CAROL, GROUP = "games", "mail", "lp", "news"
PAUSE_S = 11  # between two snapshots of a user

UNDUMPABLE = "import ctypes,time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); " \
             "time.sleep(60)"
LATER_SET_UID = "import os,sys,time; print(flush=True); sys.stdin.readline(); " \
                "os.execv(sys.argv[1], [sys.argv[1], '30'])"


class Process:
    """A process of a user, started and waiting."""

    def __init__(self, user, command, speaks=False):
        words = as_user(user) if user else []
        self.child = subprocess.Popen([*words, *command], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        self.pid = self.child.pid
        if speaks:
            self.child.stdout.readline()
        else:
            name = os.path.basename(str(command[0]))[:15]
            wait_for(lambda: pathlib.Path(f"/proc/{self.pid}/comm").read_text().strip() == name,
                     f"'{name}' runs")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()


def taken(result):
    return result.returncode == 0


def refused(result):
    return result.returncode == 4 and result.stdout == "" and result.stderr.count("\n") == 1


def snapshot(agent, pid, user, *more, groups=()):
    return agent.ctl("snapshot", "--pid", str(pid), "--duration", "1s", "--off-cpu", "--format",
                     "folded", "--raw", *more, user=user, groups=groups)


def check_rights(check, agent, folder):
    set_uid = folder / "sleepy"
    shutil.copy("/bin/sleep", set_uid)
    set_uid.chmod(0o4755)
    sleep = ["/bin/sleep", "60"]
    with Process(ALICE, sleep) as of_alice, Process(None, sleep) as of_root:
        check(taken(snapshot(agent, of_alice.pid, ALICE)), "a user may take a process of theirs")
        check(refused(snapshot(agent, of_alice.pid, BOB)), "another user may not")
        check(refused(snapshot(agent, of_root.pid, ALICE)), "a user may not take root's")
        check(refused(snapshot(agent, agent.child.pid, ALICE)), "nor the agent itself")
        check(refused(snapshot(agent, of_root.pid, "nobody")),
              "the agent's own user is trusted no more than others")
        check(taken(snapshot(agent, of_alice.pid, None)), "root may take anyone's")
        check_turns(check, agent, of_alice.pid)
        check(taken(snapshot(agent, of_root.pid, BOB, groups=(GROUP,))),
              "a member of the control group may take anyone's")
    with Process(ALICE, [set_uid, "60"]) as guarded:
        check(refused(snapshot(agent, guarded.pid, ALICE)),
              "a set-uid program that a user started is not theirs to look into")
        check(taken(snapshot(agent, guarded.pid, None)), "but root's")
    with Process(ALICE, [sys.executable, "-c", UNDUMPABLE], speaks=True) as guarded:
        check(refused(snapshot(agent, guarded.pid, ALICE)),
              "a process that made itself undumpable is not either")
    check_exec(check, agent, set_uid)


def check_turns(check, agent, pid):
    """A user must leave the agent in peace between two snapshots; root comes first."""
    soon = snapshot(agent, pid, ALICE)
    check(soon.returncode == 1 and "one snapshot every" in soon.stderr,
          f"a user's next snapshot must wait ({soon.stderr!r})")
    time.sleep(PAUSE_S)
    client = subprocess.Popen(
        [*as_user(ALICE), agent.agentctl, "--socket", agent.socket, "snapshot", "--pid", str(pid),
         "--duration", "30s", "--raw", "--format", "folded"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    check(taken(snapshot(agent, pid, None)), "root need not wait for a user's snapshot")
    out, err = client.communicate(timeout=60)
    check(client.returncode == 1 and out == "" and "ended this one" in err,
          f"and the user is told ({err!r})")


def check_exec(check, agent, set_uid):
    """The right is lost while the snapshot runs. Its user has taken none yet and need not wait."""
    with Process(CAROL, [sys.executable, "-c", LATER_SET_UID, set_uid], speaks=True) as changing:
        taking = subprocess.Popen(
            [*as_user(CAROL), agent.agentctl, "--socket", agent.socket, "snapshot", "--pid",
             str(changing.pid), "--duration", "20s", "--raw", "--format", "folded"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        changing.child.stdin.write(b"\n")
        changing.child.stdin.flush()
        out, err = taking.communicate(timeout=60)
        check(taking.returncode == 4 and out == "" and "discarded" in err,
              f"a snapshot of a process that runs a set-uid program ends with nothing ({err!r})")


def dial(agent):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(20)
    client.connect(str(agent.socket))
    return client


def heard(client):
    """Everything until the agent hangs up."""
    data = b""
    try:
        while True:
            piece = client.recv(65536)
            if not piece:
                return data
            data += piece
    except ConnectionResetError:
        return data


def check_hostile(check, agent):
    with dial(agent) as client:
        try:
            client.sendall(b"x" * (1 << 20))
        except OSError:
            pass
        check(b'"code":"usage"' in heard(client), "a megabyte without a newline is refused")
    with dial(agent) as client:
        client.sendall(b'{"verb":"status"}\n')
        client.shutdown(socket.SHUT_WR)
        check(b'"type":"status"' in heard(client), "a half-closed client is answered")
    with dial(agent) as client:
        client.sendall(b'{"verb":"sta')
        check(heard(client) == b"", "a client that never ends its line is let go of")
    check(agent.ctl("status").returncode == 0, "the agent answers after all of them")


FLOOD = """
import socket, sys, time
held = []
print(flush=True)
while True:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try:
        client.connect(sys.argv[1])
        held.append(client)
    except BlockingIOError:  # the queue of connections is full: at once again
        client.close()
        time.sleep(0.001)
    del held[:-100]
"""


def flood(agent):
    """As another user: connections without end, kept open and silent."""
    return Process(ALICE, [sys.executable, "-c", FLOOD, agent.socket], speaks=True)


def check_flood(check, agent):
    with flood(agent) as other:
        time.sleep(1)
        results = [agent.ctl("status").returncode for _ in range(5)]
        check(results == [0] * 5, f"root is answered while a user floods the socket ({results})")
        check(agent.ctl("status", user=BOB).returncode == 0, "and so is another user")
        check(agent.get("healthz") == 200, "and the sampler's loop turns")
        check(other.child.poll() is None, "the flood goes on to the end")


def check_ends(check, agent):
    """What a client leaves behind."""
    before = agent.descriptors()
    with Process(None, ["/bin/sleep", "60"]) as target:
        client = dial(agent)
        client.sendall(b'{"verb":"snapshot","pid":%d,"duration_ms":60000}\n' % target.pid)
        check(b'"type":"accepted"' in client.recv(65536), "a snapshot begins")
        during = agent.descriptors()
        busy = agent.ctl("snapshot", "--pid", str(target.pid), "--duration", "1s")
        check(busy.returncode == 1 and "another snapshot" in busy.stderr,
              f"a second one is told that the agent is busy ({busy.stderr!r})")
        client.close()
        wait_for(lambda: agent.descriptors() == before, "the programs of the snapshot are gone")
        check(during > before, f"its programs and maps went with it ({before}, {during})")
        check(taken(snapshot(agent, target.pid, None)), "and the next one is taken")
    with Process(None, ["/bin/sleep", "60"]) as target:
        client = dial(agent)  # asks, and reads nothing
        client.sendall(b'{"verb":"snapshot","pid":%d,"duration_ms":2000}\n' % target.pid)
        time.sleep(4)
        check(taken(snapshot(agent, target.pid, None)),
              "a client that does not read its answer holds up nobody")
        client.close()


def main():
    build = arguments().build
    skip_unless_live()
    if not shutil.which("setpriv"):
        skip("needs setpriv (util-linux)")
    check = Check()
    with Folder() as folder, Agent(build, folder, {("agent", "control_group"): GROUP}) as agent:
        check_rights(check, agent, folder)
        check_hostile(check, agent)
        check_flood(check, agent)
        check_ends(check, agent)
        tick = agent.metric("fleetprof_agent_balance_errors_total")
        check(tick == 0, f"all epochs of the host's session balance meanwhile ({tick})")
        check(agent.stop() == 0, "the agent ends with 0")
        check("ERROR" not in agent.said(), f"and logged no error\n{agent.said()}")
    return 1 if check.failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(main())
