# SPDX-License-Identifier: Apache-2.0
"""A real agent with directories of its own, and agentctl beside it, for the tests of the
command line and the control socket."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

USER = "nobody"
READY_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, limit_s=READY_S):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise RuntimeError(f"{what}: not within {limit_s} s")


class Folder:
    """A temporary directory that other users may enter."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="fleetprof-test-"))
        self.path.chmod(0o755)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Agent:
    def __init__(self, build, folder, settings=None):
        self.program = build / "agent" / "fleetprof-agent"
        self.agentctl = build / "agent" / "agentctl"
        self.folder = folder
        self.config = folder / "agent.conf"
        self.socket = folder / "run" / "agent.sock"
        self.spool = folder / "spool"
        self.log = folder / "agent.log"
        self.port = free_port()
        self.settings = {
            ("cpu", "hz"): "49",
            ("window", "length"): "2s",
            ("window", "drain_interval"): "500ms",
            ("spool", "directory"): self.spool,
            ("spool", "min_free"): "0B",
            ("spool", "min_free_percent"): "0",
            ("agent", "user"): USER,
            ("agent", "state_directory"): folder,
            ("agent", "lock_file"): folder / "run" / "agent.lock",
            ("agent", "control_socket"): self.socket,
            ("agent", "control_group"): "",
            ("agent", "listen"): f"127.0.0.1:{self.port}",
        }
        self.settings.update(settings or {})
        self.child = None

    def write_config(self):
        sections = {}
        for (section, key), value in self.settings.items():
            sections.setdefault(section, []).append(f"{key} = {value}\n")
        self.config.write_text("".join(
            f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()))

    def command(self, *arguments):
        return [self.program, "--config", self.config, *arguments]

    def __enter__(self):
        self.write_config()
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command(), stdout=log, stderr=log)
        try:
            wait_for(self.is_ready, "the agent is ready")
        except BaseException:
            self.child.kill()  # nobody else would end it
            self.child.wait()
            raise
        return self

    def is_ready(self):
        if self.child.poll() is not None:
            raise RuntimeError(f"the agent ended with {self.child.returncode}: {self.said()}")
        return self.get("readyz") == 200

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(timeout=60)
        return self.child.returncode

    def said(self):
        return self.log.read_text(errors="replace")

    def get(self, page):
        """The status code, 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{page}",
                                        timeout=10) as answer:
                self.body = answer.read().decode()
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def metric(self, name):
        """The value of one sample line, None when there is none yet."""
        if self.get("metrics") != 200:
            return None
        for line in self.body.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def ctl(self, *arguments, user=None, groups=(), **options):
        """agentctl through this agent's socket, ended."""
        return run([self.agentctl, "--socket", self.socket, *arguments], user, groups, **options)

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def descriptors(self):
        """How many BPF maps and programs and perf events the agent holds."""
        count = 0
        for entry in pathlib.Path(f"/proc/{self.child.pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except FileNotFoundError:
                continue
            count += "bpf" in target or "perf" in target
        return count

    def ship_pid(self):
        return self.status()["delivery"]["ship_pid"]


def as_user(user, groups=()):
    """setpriv words that make a command run as the user, with no other rights."""
    entry = pwd.getpwnam(user)
    words = ["setpriv", "--reuid", str(entry.pw_uid), "--regid", str(entry.pw_gid),
             "--inh-caps=-all", "--bounding-set=-all"]
    return words + (["--groups", ",".join(groups)] if groups else ["--clear-groups"])


def run(command, user=None, groups=(), **options):
    if user:
        command = [*as_user(user, groups), *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=120,
                          errors="replace", check=False, **options)


def one_line(text):
    return text.count("\n") == 1 and text.endswith("\n")
