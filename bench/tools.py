# SPDX-License-Identifier: Apache-2.0
"""The profilers that are compared, one class each: can it run here, how is it started, and
what does its output say of stacks it lost. Ours is one of them and gets no favours."""

import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from measure import Process

DRAIN_S = 6  # our drain interval and a little
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Tool:
    """cpu_hz 0: no CPU profile; off_cpu: blocked time."""

    name = ""
    needs = ""

    def __init__(self, cpu_hz=0, off_cpu=False):
        self.cpu_hz, self.off_cpu = cpu_hz, off_cpu

    def why_not(self):
        """None, or the reason it cannot run here."""
        return None if shutil.which(self.needs) else f"'{self.needs}' is not installed"

    def version(self):
        return ""

    def start(self, folder):
        raise NotImplementedError

    def before_stop(self, process):
        """Facts that are only to be had while it runs."""
        return {}

    def losses(self, process):
        """Share of what it reports whose stack was lost, and what that share is of."""
        return {}


class ProfileBpfcc(Tool):
    name = "profile-bpfcc"
    needs = "profile-bpfcc"
    headers = None

    def why_not(self):
        reason = super().why_not()
        if reason is None and self.header_folder() is None:
            reason = "BCC needs kernel headers (linux-headers-amd64), none under /usr/src"
        return reason

    def version(self):
        text = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "bpfcc-tools"],
                              capture_output=True, text=True).stdout
        return text.strip()

    @classmethod
    def header_folder(cls):
        """BCC wants one tree; Debian ships two halves. Any version's declarations will do."""
        if cls.headers is None:
            for common in sorted(glob.glob("/usr/src/linux-headers-*-common"), reverse=True):
                own = common.removesuffix("-common") + "-" + debian_architecture()
                if os.path.isdir(own):
                    cls.headers = tempfile.TemporaryDirectory(prefix="bcc-headers.")
                    merge_headers(common, own, cls.headers.name)
                    break
        return cls.headers.name if cls.headers else None

    def start(self, folder):
        return Process(["profile-bpfcc", "-F", str(self.cpu_hz), "-f"], folder,
                       {"BCC_KERNEL_SOURCE": self.header_folder()})

    def losses(self, process):
        total = missed = 0
        for line in process.stdout_path.read_text(errors="replace").splitlines():
            stack, _, count = line.rpartition(" ")
            if count.isdigit():
                total += int(count)
                missed += int(count) * ("[Missed " in stack)
        return {"reported": total, "lost": missed, "of": "samples"}


class Bpftrace(Tool):
    name = "bpftrace"
    needs = "bpftrace"
    environment = {"BPFTRACE_MAP_KEYS_MAX": "65536"}
    cpu_program = "profile:hz:%d { @[ustack, kstack, comm] = count(); }"
    # The stack is taken on the way out: there are no kprobes to take it on the way in.
    off_cpu_program = """
tracepoint:sched:sched_switch {
  if (args->prev_pid != 0 && args->prev_state != 0) {
    @time[args->prev_pid] = nsecs;
    @user[args->prev_pid] = ustack;
    @kernel[args->prev_pid] = kstack;
  }
  if (@time[args->next_pid]) {
    @off[@user[args->next_pid], @kernel[args->next_pid], args->next_comm] =
      sum(nsecs - @time[args->next_pid]);
    delete(@time[args->next_pid]);
    delete(@user[args->next_pid]);
    delete(@kernel[args->next_pid]);
  }
}
END { clear(@time); clear(@user); clear(@kernel); }
"""

    def version(self):
        return subprocess.run(["bpftrace", "--version"], capture_output=True,
                              text=True).stdout.strip()

    def start(self, folder):
        program = self.cpu_program % self.cpu_hz if self.cpu_hz else self.off_cpu_program
        # The default of 4096 keys would lose most of a compile storm.
        argv = ["bpftrace", "-e", program]
        if not os.path.isdir("/sys/kernel/debug/tracing"):
            # It reads tracepoint formats there; mounted for this one process alone.
            argv = ["unshare", "-m", "sh", "-c",
                    'mount -t debugfs none /sys/kernel/debug && exec "$@"', "sh", *argv]
        return Process(argv, folder, self.environment)

    def losses(self, process):
        entries = len(re.findall(r"^.*\]: \d+$", process.stdout_path.read_text(
            errors="replace"), re.M))
        errors = process.stderr_path.read_text(errors="replace")
        return {"reported": entries, "lost": errors.count("failed to look up stack id"),
                "of": "different stacks"}


class Offcputime(Tool):
    name = "offcputime"
    needs = "offcputime"

    def version(self):
        text = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libbpf-tools"],
                              capture_output=True, text=True).stdout
        return text.strip()

    def start(self, folder):
        return Process(["offcputime"], folder)

    def losses(self, process):
        text = process.stdout_path.read_text(errors="replace")
        errors = process.stderr_path.read_text(errors="replace")
        missed = len(re.findall(r"\[Missed User Stack\]", text + errors))
        return {"reported": len(re.findall(r"^    -\s+.* \(\d+\)$", text, re.M)),
                "lost": missed, "of": "different stacks"}


class Fleetprof(Tool):
    """fleetprof-agent: the daemon as a host runs it, with its maps, windows and spool, as
    root with the capabilities the daemon keeps. Batches go to `ship_to`, else stay spooled."""

    name = "fleetprof"
    build = ROOT / "build" / "release"
    ship_to = ""
    settings = ()  # further lines `section.key=value` for its configuration

    def why_not(self):
        agent = self.build / "agent" / "fleetprof-agent"
        return None if agent.exists() else f"'{agent}' is not built (--build FOLDER)"

    def version(self):
        return subprocess.run([self.build / "agent" / "fleetprof-agent", "--version"],
                              capture_output=True, text=True).stdout.strip()

    def configuration(self, folder):
        self.port = free_port()
        values = {
            "cpu": {"enabled": "yes" if self.cpu_hz else "no"},
            "off_cpu": {"enabled": "yes" if self.off_cpu else "no"},
            "collector": {"url": self.ship_to},
            "spool": {"directory": folder / "spool"},
            "agent": {"user": "", "state_directory": folder, "lock_file": folder / "lock",
                      "control_socket": folder / "control.sock",
                      "listen": f"127.0.0.1:{self.port}"},
        }
        if self.cpu_hz:
            values["cpu"]["hz"] = self.cpu_hz
        for line in self.settings:
            section, key, value = re.fullmatch(r"(\w+)\.(\w+)=(.*)", line).groups()
            values.setdefault(section, {})[key] = value
        return "".join(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in
                                                 rows.items())
                       for section, rows in values.items())

    def start(self, folder):
        (folder / "spool").mkdir(exist_ok=True)
        (folder / "agent.conf").write_text(self.configuration(folder))
        return Process([self.build / "agent" / "fleetprof-agent", "--config",
                        folder / "agent.conf"], folder, stop_signal=signal.SIGTERM)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        rows = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                rows[name] = float(value)
        return rows

    def before_stop(self, process):
        """Its own counters, after a drain: what it took, lost, dropped, and whether that adds up."""
        time.sleep(DRAIN_S)
        self.last_metrics = self.metrics()
        return {"metrics": self.last_metrics}

    def losses(self, process):
        def total(name, *labels):
            return sum(value for row, value in self.last_metrics.items()
                       if row.startswith(f"fleetprof_agent_{name}")
                       and all(label in row for label in labels))

        taken = total("samples_taken_total")
        dropped = total("program_runs_total", 'class="dropped"')
        return {"reported": taken + dropped, "lost": total("stacks_lost_total") + dropped,
                "dropped": dropped, "balance_errors": total("balance_errors_total"),
                "of": "samples and intervals"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def debian_architecture():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True,
                          text=True).stdout.strip()


def merge_headers(common, own, target):
    for folder, names in ((common, None), (own, ("include", "arch"))):
        for name in names or os.listdir(folder):
            source = os.path.join(folder, name)
            if os.path.isdir(source):
                shutil.copytree(source, os.path.join(target, name), symlinks=True,
                                dirs_exist_ok=True)
            else:
                shutil.copy2(source, target, follow_symlinks=False)
