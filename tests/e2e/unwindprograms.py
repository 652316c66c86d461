# SPDX-License-Identifier: Apache-2.0
"""The programs whose stacks must be whole, as Debian ships them, and how each is put to work that
goes on until it is stopped. Each is a row of `programs`: a name, what it needs, which executables
are meant (a shell that only starts them is not), and a context in which it works and whose value is
the process under which all of it lies."""

import collections
import contextlib
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "programs"
POSTGRES_CLIENTS = 4
PYTHON = "/usr/bin/python3"  # not one that somebody built for himself

Load = collections.namedtuple("Load", "name executables needs start")

# What a benchmark that weighs the programs adds to how they are started: a control group, and where
# their words go. Of those a line `turn` is a round of a program's work, and pgbench tells its rate.
started_with = {}


def end_group(child):
    """Ends a child that leads its own process group, with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@contextlib.contextmanager
def group(*argv):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                             start_new_session=True, **{**quiet, **started_with})
    try:
        time.sleep(1)
        if child.poll() is not None:
            raise RuntimeError(f"{argv[0]} ended at once with {child.returncode}")
        yield child.pid
    finally:
        end_group(child)


def python(_, __):
    return group(PYTHON, SOURCES / "unwind_python.py")


def bash(_, __):
    return group("bash", SOURCES / "unwind_bash.sh")


def node(_, __):
    return group("node", SOURCES / "unwind_node.js")


def cxx(build, _):
    return group(build / "tests" / "programs" / "unwind_cxx")


def openssl(_, __):
    """Hand-written assembly above all; two processes and one that waits for them, and one that
    waits for what it encrypts."""
    algorithms = "aes-256-cbc sha256 sha512 md5 rsa2048 ecdsap256 ecdhx25519 ed25519"
    methods = "chacha20-poly1305 aes-128-gcm"
    fed = ("while :; do head -c 65536 /dev/zero; sleep 0.01; done | "
           "openssl enc -aes-256-cbc -pbkdf2 -k word >/dev/null &")
    return group("sh", "-c", f"{fed} while :; do openssl speed -multi 2 -seconds 1 {algorithms};"
                 + "".join(f"openssl speed -seconds 1 -evp {method};" for method in
                           methods.split()) + "done")


def gcc_source(functions):
    """Code that keeps a compiler busy: each function is different, none is trivial."""
    lines = ["#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>",
             "struct item { uint64_t a[8]; struct item *next; double weight; };"]
    for i in range(functions):
        lines += [
            f"static uint64_t step_{i}(struct item *item, uint64_t x)",
            "{",
            f"\tfor (unsigned i = 0; item && i < {i % 17 + 3}; i++, item = item->next) {{",
            f"\t\tswitch ((x + i) % {i % 5 + 4}) {{",
            *(f"\t\tcase {case}: x = x * {case * 77 + i}u + item->a[{case}] + "
              f"(uint64_t)(item->weight * {case}.5); break;" for case in range(i % 5 + 3)),
            "\t\tdefault: memset(item->a, (int)x, sizeof(item->a));",
            "\t\t}",
            "\t\tif (x & 1) qsort(item->a, 8, 8, "
            "(int (*)(const void *, const void *))strcmp);",
            "\t}",
            f"\treturn x{f' + step_{i - 1}(item, x >> 1)' if i else ''};",
            "}"]
    return "\n".join(lines + ["uint64_t run(struct item *item)",
                              f"{{ return step_{functions - 1}(item, 1); }}", ""])


def gcc(_, folder):
    """One that computes for seconds, and many of which the stages wait for each other."""
    source, small = folder / "large.c", folder / "small.c"
    source.write_text(gcc_source(400))
    small.write_text(gcc_source(3))
    return group("sh", "-c", f"while :; do gcc -O2 -g -c -o {folder}/large.o {source}; for i in "
                 f"1 2 3 4 5 6 7 8 9 10; do gcc -pipe -shared -fPIC -o {folder}/small.so {small}; "
                 "done; echo turn; done")


def postgres_folder():
    """Where Debian puts the programs that are not in the path."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return pathlib.Path(found[-1]).parent if found else None


def as_postgres(*argv):
    """It refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
            *(str(word) for word in argv)]


def await_postgres(ready, folder):
    deadline = time.monotonic() + 60
    while subprocess.run(ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        if time.monotonic() > deadline:
            raise RuntimeError("postgres did not start: "
                               + (folder / "log").read_text(errors="replace")[-2000:])
        time.sleep(0.2)


PGBENCH_SCRIPT = """
\\set aid random(1, 100000)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SELECT bid, count(*), sum(abalance), string_agg(filler, '') FROM pgbench_accounts
  WHERE aid BETWEEN :aid AND :aid + 500 AND filler !~ 'x+y' GROUP BY bid ORDER BY 2;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
SELECT a.aid, t.tid FROM pgbench_accounts a JOIN pgbench_tellers t ON a.bid = t.bid
  WHERE a.aid < 200 ORDER BY a.filler, t.tid DESC LIMIT 5;
"""


@contextlib.contextmanager
def postgres(_, __):
    """A server of its own in a folder, and clients that keep it busy from outside its tree."""
    programs, number = postgres_folder(), str(os.getpid() % 30000 + 20000)
    with tempfile.TemporaryDirectory(prefix="postgres.") as name:
        folder, quiet = pathlib.Path(name), {"stdout": subprocess.DEVNULL,
                                             "stderr": subprocess.DEVNULL}
        shutil.chown(folder, "postgres", "postgres")
        (folder / "script").write_text(PGBENCH_SCRIPT)
        subprocess.run(as_postgres(programs / "initdb", "-D", folder / "data", "-A", "trust"),
                       check=True, **quiet)
        options = ["-h", name, "-p", number]
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen(
                as_postgres(programs / "postgres", "-D", folder / "data", "-k", name, "-p", number,
                            "-c", "listen_addresses="), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=started_with.get("preexec_fn"))
        try:
            await_postgres(as_postgres(programs / "pg_isready", *options), folder)
            client = [programs / "pgbench", *options]
            subprocess.run(as_postgres(*client, "-i", "-q", "postgres"), check=True, **quiet)
            with group(*as_postgres(*client, "-c", POSTGRES_CLIENTS, "-T", 3600, "-P", 1, "-n",
                                    "-f", f"{folder}/script@5", "-b", "tpcb-like@1", "postgres")):
                yield server.pid
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(60)


def needs_program(name):
    return lambda: None if shutil.which(name) else f"'{name}' is not installed"


def needs_postgres():
    missing = [name for name in ("initdb", "postgres", "pgbench")
               if not (postgres_folder() and (postgres_folder() / name).exists())]
    return f"{', '.join(missing)} of postgresql not installed" if missing else None


programs = [
    Load("python3", r"python3.*", needs_program(PYTHON), python),
    Load("bash", r"bash", needs_program("bash"), bash),
    Load("gcc", r"cc1|as|ld.*|x86_64-linux-gnu-.*", needs_program("gcc"), gcc),
    Load("openssl", r"openssl", needs_program("openssl"), openssl),
    Load("postgres", r"postgres", needs_postgres, postgres),
    Load("node", r"node.*", needs_program("node"), node),
    Load("cxx", r"unwind_cxx", lambda: None, cxx),
]


@contextlib.contextmanager
def running(load, build):
    """The load at work; gives the pid that all of it lies under."""
    with tempfile.TemporaryDirectory(prefix="load.") as folder:
        with load.start(build, pathlib.Path(folder)) as pid:
            yield pid


def chosen(names):
    """The rows of those names (all when there are none), and the reason why others cannot be."""
    unknown = set(names) - {load.name for load in programs}
    if unknown:
        sys.exit(f"no such program: {', '.join(sorted(unknown))}")
    wanted = [load for load in programs if not names or load.name in names]
    return ([load for load in wanted if load.needs() is None],
            {load.name: reason for load in wanted if (reason := load.needs())})
