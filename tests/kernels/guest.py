# SPDX-License-Identifier: Apache-2.0
"""A small machine under software emulation: an initial file system of busybox, our programs
and the libraries they need, whose first process is guest.sh. Kernel messages go to its first
serial port, what guest.sh reports to the second, so that neither tears the other's lines.
When it suspends itself, it is woken from here: an alarm clock of its own would have to be set
before, and rings for nobody when falling asleep takes longer than that."""

import collections
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

MEMORY_MIB = 2048
CPUS = 2
ASLEEP_S = 3  # the machine's clock that survives a suspend counts whole seconds

COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # what programs put out to a terminal
Section = collections.namedtuple("Section", "text status")


def _libraries(program):
    """Files that the loader takes for `program`, the loader itself among them."""
    listed = subprocess.run(["ldd", program], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, check=False).stdout
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def _place(root, source, path):
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


def build_image(root, script, programs, files, destination):
    """programs: files that go to /bin; files: those that stay where they are."""
    for folder in ("bin", "dev", "proc", "run", "sys", "tmp", "etc"):
        (root / folder).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nfleetprof:x:100:100::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nfleetprof:x:100:\n")
    busybox = shutil.which("busybox")
    if not busybox:
        raise RuntimeError("busybox (package busybox-static) is not installed")
    _place(root, script, "/init")
    for program in [*programs, pathlib.Path(busybox)]:
        _place(root, program, f"/bin/{program.name}")
        for library in _libraries(program):
            _place(root, library, library)
    for path in files:
        _place(root, path, path)
    with open(destination, "wb") as image:
        names = subprocess.run(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE,
                               check=True).stdout
        archive = subprocess.run(
            ["cpio", "--null", "--create", "--quiet", "--format=newc", "--owner=+0:+0"],
            cwd=root, input=names, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["gzip", "-1"], input=archive, stdout=image, check=True)
    return destination


def _wake(monitor):
    """Wakes the machine whenever the emulator says that it sleeps, until it hangs up: after a while
    the first time, then at once."""
    asleep_s = ASLEEP_S
    with monitor, monitor.makefile("rw", encoding="utf-8") as lines, \
            contextlib.suppress(ConnectionError):
        def tell(command):
            lines.write(json.dumps({"execute": command}) + "\n")
            lines.flush()
        tell("qmp_capabilities")
        for line in lines:
            if json.loads(line).get("event") == "SUSPEND":
                time.sleep(asleep_s)
                tell("system_wakeup")
                asleep_s = 0


def boot(kernel, image, part, folder, limit_s):
    """Runs `part` of guest.sh in the machine until that switches itself off; returns the paths of
    what it said on its two ports. A machine that takes longer is switched off."""
    console, report = folder / "console", folder / "report"
    ours, its = socket.socketpair()
    command = [
        # One thread for all CPUs: with one each the emulator may run an instruction that another
        # CPU has replaced and made known by the rules. Kernels patch themselves so whenever a
        # tracepoint is switched, and die of a breakpoint that is no longer there.
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=single", "-cpu", "max",
        "-smp", str(CPUS), "-m", str(MEMORY_MIB), "-no-reboot", "-nodefaults",
        "-chardev", f"socket,id=monitor,fd={its.fileno()}", "-qmp", "chardev:monitor",
        "-display", "none", "-serial", f"file:{console}", "-serial", f"file:{report}",
        # A busy host's emulator may give no tick while the kernel checks that it has a timer, and
        # the kernel then gives up. Words that are not the kernel's become variables of its first
        # process.
        "-kernel", kernel, "-initrd", image, "-append",
        f"console=ttyS0 panic=-1 no_timer_check mitigations=off FP_PART={part}"]
    for path in (console, report):
        path.touch()
    with open(folder / "qemu", "w", encoding="utf-8") as words:
        machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words,
                                   stderr=subprocess.STDOUT, pass_fds=[its.fileno()])
        its.close()
        waker = threading.Thread(target=_wake, args=(ours,))
        waker.start()
        try:
            machine.wait(limit_s)
        except subprocess.TimeoutExpired:
            print(f"the machine was still running after {limit_s} s", flush=True)
        finally:
            if machine.poll() is None:
                machine.kill()
                machine.wait()
            waker.join()
    return console, report


def sections(report):
    """{name: Section} of what guest.sh reported, and whether it came to its end. A section
    that was begun and not ended has the status None."""
    found, name, lines, ended = {}, None, [], False
    text = COLOUR.sub("", report.read_text("utf-8", "replace"))
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "@begin":
            name, lines = rest, []
            found[name] = Section("", None)
        elif word == "@end" and name:
            found[name] = Section("\n".join(lines), int(rest))
            name = None
        elif word == "@done":
            ended = True
        elif name:
            lines.append(line)
            found[name] = Section("\n".join(lines), None)
    return found, ended
