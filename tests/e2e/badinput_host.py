#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts, rights and settings that do not allow sampling: one line with the cause and the fix,
and the right exit code, from the agent and from `agentctl snapshot --standalone`. The kernel
without ring buffers is this one with a preloaded library in front of bpf(2)
(tests/programs/noringbuffer.c)."""

import os
import shutil
import sys

from control_agent import Agent, Folder, one_line, run
from reference import Check, arguments, skip, skip_unless_live

NO_BTF = "mount -t tmpfs none /sys/kernel/btf"
CONFIDENTIALITY = "mount -t tmpfs none /sys/kernel/security && " \
                  "echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown"
INTEGRITY = CONFIDENTIALITY.replace("none integrity [confidentiality]",
                                    "none [integrity] confidentiality")


def in_namespace(prepare, command):
    """The command in a mount namespace of its own, in which `prepare` was run."""
    return run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                prepare + ' && exec "$@"', "sh", *map(str, command)])


def check_line(check, result, code, words, sentence):
    line = result.stderr
    check(result.returncode == code and one_line(line) and all(word in line for word in words),
          f"{sentence} (code {result.returncode}: {line.strip()})")


def both(agent, *more):
    """The two programs that sample, as commands."""
    return (("agent", agent.command(*more)),
            ("agentctl", [agent.agentctl, "snapshot", "--standalone", "--quiet", "--pid", "1",
                          "--duration", "1s"]))


def check_hosts(check, agent, old_kernel):
    for name, command in both(agent):
        check_line(check, run(["env", f"LD_PRELOAD={old_kernel}", *command]), 5,
                   ("no BPF ring buffers", "5.8"), f"{name}: a kernel without ring buffers")
        check_line(check, run(command, user="nobody"), 5, ("CAP_BPF", "run as root"),
                   f"{name}: without root")
        check_line(check, in_namespace(NO_BTF, command), 5,
                   ("/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"), f"{name}: without BTF")
        check_line(check, in_namespace(CONFIDENTIALITY, command), 5,
                   ("confidentiality", "lockdown=integrity"), f"{name}: under lockdown")
        check_line(check, run(["unshare", "--user", "--map-root-user", *command]), 5,
                   ("user namespace",), f"{name}: in a user namespace")
    result = in_namespace(INTEGRITY, both(agent)[1][1])
    check(result.returncode == 0, f"lockdown=integrity does not matter ({result.stderr.strip()})")
    release = os.uname().release.split("-")[0]
    check_line(check, run(agent.command(f"--agent-kernel-deny={release}")), 5,
               ("kernel_deny", "allow_unsafe_kernel"), "agent: a kernel on the list")
    doctor = in_namespace(CONFIDENTIALITY, [agent.agentctl, "doctor", "--config", agent.config])
    check(doctor.returncode == 1 and "FAIL  lockdown" in doctor.stdout and
          "fix: boot with lockdown=integrity" in doctor.stdout, "the doctor fails with the fix")


def with_file(agent, text):
    agent.config.write_text(text)
    return run(agent.command("--check-config"))


def check_settings(check, agent):
    place = str(agent.config)
    for text, words, sentence in (
            ("[cpu]\nhertz = 19\n", (":2:", "hertz"), "an unknown key"),
            ("[cpu]\n\nhz = fast\n", (":3:", "cpu.hz"), "a value that is none"),
            ("[window]\nlength = 60\n", (":2:", "window.length"), "a value without its unit"),
            ("[cpu]\nhz = 0\n", (":2:", "cpu.hz"), "a value out of range"),
            ("[cpuu]\nhz = 19\n", (":1:",), "an unknown section"),
            ("hz = 19\n", (":1:",), "a key without a section"),
            ("[cpu\nhz = 19\n", (":1:",), "a broken line"),
            ("[collector]\nurl = host\n", (":2:", "collector.url"), "an address that is none")):
        check_line(check, with_file(agent, text), 2, (place, *words), sentence)
    agent.config.unlink()
    check_line(check, run(agent.command("--check-config")), 2, (place, "No such file"),
               "a file that is not there")
    agent.write_config()
    agent.config.chmod(0)
    check_line(check, run(agent.command("--check-config"), user="nobody"), 2,
               (place, "Permission denied"), "a file that may not be read")
    agent.config.chmod(0o644)
    check_line(check, run(agent.command("--agent-user=no-such-user")), 2, ("'no-such-user'",),
               "a user that is none")
    check_line(check, run(agent.command("--window-lenght=60s")), 2, ("--window-lenght=60s",),
               "a misspelt option")
    check_line(check, run(agent.command("start")), 2, ("'start'",), "a word that is no option")


def check_places(check, agent):
    folder = agent.folder
    blocked = folder / "file"
    blocked.write_text("")
    check_line(check, run(agent.command(f"--spool-directory={blocked}/spool")), 1,
               (f"'{blocked}/spool'",), "a spool that cannot be made")
    check_line(check, run(agent.command(f"--agent-control-socket={blocked}")), 1,
               (f"'{blocked}'", "File exists"), "a control socket where a file stands")
    check(blocked.exists(), "the file is left alone")
    check_line(check, run(agent.command(f"--agent-lock-file={blocked}/lock")), 1,
               (f"'{blocked}/lock'",), "a lock that cannot be made")


def main():
    build = arguments().build
    skip_unless_live()
    if not shutil.which("unshare") or not os.path.isdir("/sys/kernel/security"):
        skip("needs unshare and /sys/kernel/security")
    check = Check()
    with Folder() as folder:
        agent = Agent(build, folder)
        agent.write_config()
        check_hosts(check, agent, build / "tests" / "programs" / "noringbuffer.so")
        check_places(check, agent)
        check_settings(check, agent)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
