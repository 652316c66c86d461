# SPDX-License-Identifier: Apache-2.0
"""Where a program can run: on the host, in pid and mount namespaces of its own with a /tmp of
its own, and in a container that podman starts with runc. In each a test starts a program that
speaks through its standard input and output, learns its pid as the host sees it, and runs
commands beside it."""

import itertools
import os
import pathlib
import shutil
import subprocess
import time

LIMIT = 4096  # open files and processes of a container
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SERIAL = itertools.count()


def descendant(pid, depth, limit_s=30):
    """The one child of the one child …, as deep as asked."""
    deadline = time.monotonic() + limit_s
    while depth:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            pid, depth = int(children[0]), depth - 1
        elif time.monotonic() > deadline:
            raise RuntimeError(f"process {pid} has no child")
        else:
            time.sleep(0.01)
    return pid


class Running:
    """A program in its place. pid: on the host; inside: words before a command beside it."""

    def __init__(self, command, **options):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, bufsize=1, **options)
        self.pid, self.inside = self.child.pid, []

    def ready(self):
        """The pid that the program thinks it has."""
        words = self.child.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError(f"the program did not become ready: {words}")
        return int(words[1])

    def run(self, *command):
        return subprocess.run([*self.inside, *command], check=True, capture_output=True,
                              text=True, timeout=120, stdin=subprocess.DEVNULL).stdout

    def begin(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def end(self):
        """What the program says when its input ends."""
        output, _ = self.child.communicate(timeout=60)
        return output

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.communicate()


class Host:
    name = "on the host"

    def __init__(self, folder):
        self.files = folder

    def start(self, command):
        return Running(command, cwd=self.files)

    def close(self):
        pass


class Namespaces:
    """unshare(1): its child is pid 1 of the new namespace and becomes the program."""

    name = "in namespaces of its own"

    def __init__(self, folder):
        self.files = folder

    def start(self, command):
        script = 'mount -t tmpfs -o mode=1777 tmpfs /tmp && cd /tmp && exec "$@"'
        running = Running(["unshare", "--pid", "--mount", "--fork", "--kill-child",
                           "--mount-proc", "/bin/sh", "-c", script, "sh", *command])
        running.pid = descendant(running.child.pid, 1)
        running.inside = ["nsenter", "--target", str(running.pid), "--mount", "--pid"]
        return running

    def close(self):
        pass


class Container:
    """A container whose file system is the host's /usr below an overlay of its own, so that
    whatever is installed here runs there, from the kind of files that images have."""

    name = "in a container of podman and runc"

    def __init__(self, folder, binds=("/etc/java-17-openjdk",)):
        self.folder, self.files = folder, pathlib.Path("/load")
        self.image = folder / "image"
        for path in ("usr", "proc", "sys", "dev", "tmp", "run", "load", "etc"):
            (self.image / path).mkdir(parents=True)
        (self.image / "tmp").chmod(0o1777)
        for name in LINKS:
            if os.path.islink(f"/{name}"):
                (self.image / name).symlink_to(os.readlink(f"/{name}"))
        for name in ("ld.so.cache", "passwd", "group"):
            shutil.copy(f"/etc/{name}", self.image / "etc")
        self.binds = [path for path in binds if os.path.isdir(path)]
        self.command = ["podman", "--root", folder / "storage", "--runroot", folder / "run",
                        "--cgroup-manager", "cgroupfs", "--runtime", "runc"]

    @staticmethod
    def missing():
        """The first tool that is not here, or None."""
        return next((tool for tool in ("podman", "runc") if not shutil.which(tool)), None)

    def start(self, command, extra=()):
        """extra: more words for podman run."""
        name = f"fleetprof-test-{os.getpid()}-{next(SERIAL)}"
        words = ["run", "--rm", "--interactive", "--name", name, "--network=none",
                 "--log-driver=none", *extra,
                 "--ulimit", f"nofile={LIMIT}:{LIMIT}", "--ulimit", f"nproc={LIMIT}:{LIMIT}",
                 "--volume", "/usr:/usr:O", "--volume", f"{self.folder}:/load:ro"]
        for path in self.binds:
            words += ["--volume", f"{path}:{path}:ro"]
        running = Running([*self.command, *words, "--rootfs", self.image, *command],
                          stderr=open(self.folder / f"{name}.log", "w"))
        running.container = name
        try:
            running.pid = self.wait_pid(running, name)
        except RuntimeError as error:
            running.child.kill()
            raise RuntimeError((self.folder / f"{name}.log").read_text()) from error
        running.inside = [*self.command, "exec", name]
        return running

    def inspect(self, name, what):
        run = subprocess.run([*self.command, "inspect", "--format", what, name],
                             capture_output=True, text=True)
        return run.stdout.strip() if run.returncode == 0 else ""

    def wait_pid(self, running, name, limit_s=60):
        deadline = time.monotonic() + limit_s
        while running.child.poll() is None and time.monotonic() < deadline:
            if (pid := self.inspect(name, "{{.State.Pid}}")) not in ("", "0"):
                return int(pid)
            time.sleep(0.05)
        raise RuntimeError(f"container '{name}' did not start")

    def close(self):
        """Containers that a failed test left, and what is mounted below the folder."""
        subprocess.run([*self.command, "rm", "--all", "--force", "--time", "1"], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").open()]
        for path in reversed(mounts):
            if path.startswith(f"{self.folder}/"):
                subprocess.run(["umount", path], check=False)
