#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The life of fleetprof-agent as an administrator sees it: start, rights, a second start,
reloads good and bad, a role that dies, the end; and agentctl's commands about it."""

import json
import os
import pathlib
import re
import signal
import sys
import time

from control_agent import Agent, Folder, run, wait_for
from reference import Check, arguments, skip_unless_live

SIX = 1 << 39 | 1 << 38 | 1 << 19 | 1 << 2 | 1 << 40 | 1 << 34


def facts(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":", 1) for line in text.splitlines())


def check_rights(check, agent):
    sampler, ship = facts(agent.child.pid), facts(agent.ship_pid())
    for name, process, capabilities in (("sampler", sampler, SIX), ("ship role", ship, 0)):
        uids = set(process["Uid"].split())
        check("0" not in uids, f"the {name} is not root ({uids})")
        for word in ("CapPrm", "CapEff", "CapBnd"):
            allowed = SIX if word == "CapBnd" else capabilities
            check(int(process[word], 16) & ~allowed == 0,
                  f"the {name}'s {word} holds no more than it may ({process[word].strip()})")
        check(process["NoNewPrivs"].strip() == "1", f"the {name} gains nothing by exec")
    sockets = [os.readlink(entry) for entry in pathlib.Path(
        f"/proc/{agent.child.pid}/fd").iterdir()]
    inodes = {match.group(1) for target in sockets
              if (match := re.match(r"socket:\[(\d+)\]", target))}
    network = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        lines = pathlib.Path(f"/proc/{agent.child.pid}/net/{table}").read_text().splitlines()[1:]
        network |= {line.split()[9] for line in lines}
    check(not inodes & network, "the sampler has no network socket")
    check(not list(pathlib.Path(f"/proc/{agent.ship_pid()}/fd").iterdir()) or
          not any("bpf" in os.readlink(entry) or "perf" in os.readlink(entry) for entry in
                  pathlib.Path(f"/proc/{agent.ship_pid()}/fd").iterdir()),
          "the ship role holds nothing of the kernel's tracing")


def check_second(check, agent):
    began = time.monotonic()
    result = run(agent.command())
    check(result.returncode == 75 and str(agent.child.pid) in result.stderr and
          result.stderr.count("\n") == 1 and time.monotonic() - began < 10,
          f"a second agent ends with 75 and names the first ({result.stderr.strip()})")
    check(agent.get("healthz") == 200 and agent.ctl("status").returncode == 0,
          "the first is not disturbed")


def reload(agent):
    time_of = "fleetprof_agent_config_last_reload_timestamp_seconds"
    before = agent.metric(time_of)
    agent.write_config()
    agent.child.send_signal(signal.SIGHUP)
    return before, time_of


def check_reload(check, agent):
    ok = "fleetprof_agent_config_last_reload_successful"
    agent.settings["cpu", "hz"] = "99"
    agent.settings["agent", "control_socket"] = agent.folder / "run" / "other.sock"
    windows = agent.status()["windows"]["closed"]
    before, time_of = reload(agent)
    wait_for(lambda: agent.metric(time_of) > before, "the reload is done")
    status = agent.status()
    check(status["cpu"]["hz_requested"] == 99 and status["cpu"]["hz"] == 99,
          "a reload changes the rate")
    check(status["windows"]["closed"] > windows, "and spools the window it cut short")
    check("'agent.control_socket' has changed: restart" in agent.said(),
          "what needs a restart is named, and stays as it was")
    agent.settings["agent", "control_socket"] = agent.socket
    agent.settings["cpu", "hz"] = "lots"
    reload(agent)
    wait_for(lambda: agent.metric(ok) == 0, "the bad reload is refused")
    check(re.search(r"agent\.conf:\d+: cpu\.hz", agent.said()) is not None,
          "a bad file is refused with file, line and key")
    check(agent.status()["cpu"]["hz_requested"] == 99, "and what was in force stays")
    check("the last reload failed" in " ".join(agent.status()["warnings"]), "and status says so")
    agent.settings["cpu", "hz"] = "49"
    reload(agent)
    wait_for(lambda: agent.metric(ok) == 1, "a good reload is taken again")


def check_ship(check, agent):
    pid = agent.ship_pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: agent.ship_pid() not in (0, pid), "the ship role is started again")
    wait_for(lambda: agent.get("healthz") == 200, "and answers")
    check(agent.metric("fleetprof_agent_ship_starts_total") >= 2, "its starts are counted")
    check("was killed by signal 9" in agent.said(), "and its end is in the log")
    check("0" not in facts(agent.ship_pid())["Uid"].split() and
          int(facts(agent.ship_pid())["CapPrm"], 16) == 0, "the new one has no rights either")
    maps = pathlib.Path(f"/proc/{agent.ship_pid()}/maps").read_text()
    foreign = [line for line in maps.splitlines() if "bpf-map" in line or "anon_inode" in line]
    check("libc" in maps and not foreign, f"and nothing of the sampler in its memory ({foreign})")
    sampler = pathlib.Path(f"/proc/{agent.child.pid}/maps").read_text()
    check("bpf-map" in sampler, "which is in the sampler's")
    fds = [os.readlink(path) for path in pathlib.Path(f"/proc/{agent.ship_pid()}/fd").iterdir()]
    check(not any("bpf" in fd or "perf_event" in fd or "memfd" in fd for fd in fds),
          f"nor among its descriptors ({fds})")


def check_commands(check, agent):
    text = agent.ctl("status")
    check(text.returncode == 0 and f"pid {agent.child.pid}" in text.stdout, "status is text")
    status = agent.status()
    check(status["balance_errors"] == 0 and status["epochs"] > 0, "every epoch balances")
    runs = status["programs"]["cpu"]
    check(runs["runs"] == sum(value for name, value in runs.items() if name != "runs"),
          f"every run of the CPU program is accounted for ({runs})")
    doctor = agent.ctl("doctor", "--config", agent.config, "--json")
    rows = {row["name"]: row for row in json.loads(doctor.stdout)["checks"]}
    check(doctor.returncode == 0 and rows["agent"]["status"] == "PASS" and
          rows["balance"]["status"] == "PASS", f"the doctor is content ({doctor.stdout[-300:]})")
    check(all(row["fix"] for row in rows.values() if row["status"] != "PASS"),
          "every complaint has a fix")
    result = agent.ctl("doctor", user="nobody")
    check("as root" in result.stdout, "without root the doctor says what it cannot know")
    result = run([agent.agentctl, "flame"], input="a;b 3\nnonsense\na;c 4\n")
    check(result.returncode == 0 and "<svg" in result.stdout and "line 2" in result.stderr,
          "flame draws, and names the first bad line")
    result = run([agent.agentctl, "table"], input="")
    check(result.returncode == 1 and "no folded stack" in result.stderr, "nothing is no table")


def check_dump(check, agent):
    result = run(agent.command("--dump-config", "--window-length=61s"),
                 env={**os.environ, "FLEETPROF_OFF_CPU_ENABLED": "no"})
    check(result.returncode == 0 and
          re.search(r"hz = 49.*agent\.conf:2", result.stdout) is not None and
          re.search(r"length = 61s.*flag", result.stdout) is not None and
          re.search(r"enabled = no.*environment", result.stdout) is not None and
          re.search(r"max_age = 26h.*default", result.stdout) is not None,
          "--dump-config says where every value came from")
    result = run(agent.command("--check-config", "--cpu-hz=100"))
    check(result.returncode == 0 and "19, 49 or 99" in result.stderr, "a round rate is warned of")


def batches(agent):
    return {path.name for path in agent.spool.iterdir() if path.name.endswith(".batch")}


def check_end(check, agent):
    wait_for(lambda: agent.status()["windows"]["closed"] >= 2, "windows are closed")
    closed = agent.status()["windows"]["closed"]
    check(agent.stop() == 0, "SIGTERM ends it with 0")
    check(len(batches(agent)) > closed - 1, "the last window is in the spool")
    check(not agent.socket.exists(), "the control socket is gone")
    check(not pathlib.Path(f"/proc/{agent.child.pid}").exists() and agent.get("healthz") == 0,
          "and so are its roles")
    check("ERROR" not in agent.said().replace("ERROR fleetprof-agent: the configuration was not",
                                              ""),
          f"the log holds no error but the one asked for\n{agent.said()}")


def main():
    build = arguments().build
    skip_unless_live()
    check = Check()
    with Folder() as folder, Agent(build, folder) as agent:
        check_rights(check, agent)
        check_second(check, agent)
        check_dump(check, agent)
        check_reload(check, agent)
        check_ship(check, agent)
        check_commands(check, agent)
        check_end(check, agent)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
