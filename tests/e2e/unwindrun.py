# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole stacks have in common: options, the loop over the programs, threads
stopped for the reference (unwindref), and an agent that watches meanwhile with a witness."""

import argparse
import contextlib
import pathlib
import subprocess
import tempfile

import unwindprograms
import unwindstops
import witnessed
from reference import Agent, Check, skip_unless_live

WINDOW_S = 2  # a stack is sent once in each
# So that every stop is walked, and all of its stack.
WATCHING = {"off-cpu-walk-budget": "1000000", "window-drain-interval": "1s",
            "window-length": f"{WINDOW_S}s", "window-jitter-percent": "0",
            "limits-max-user-frames": "512"}


def parser(documentation):
    """Of what each of these tests can be told; a test adds its own."""
    made = argparse.ArgumentParser(description=documentation)
    made.add_argument("--build", type=pathlib.Path, required=True)
    made.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE",
                      help="a setting of the agent, as its flag is spelled without dashes")
    made.add_argument("--keep", type=pathlib.Path, help="folder for what was recorded")
    made.add_argument("names", nargs="*", help="of what is tried; default: all")
    return made


def settings(options):
    return dict(pair.split("=", 1) for pair in options.set)


@contextlib.contextmanager
def folder(options, name):
    """For what is recorded of one program."""
    with tempfile.TemporaryDirectory(prefix="unwind.") as temporary:
        kept = options.keep / name if options.keep else pathlib.Path(temporary)
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()


def over_programs(options, judge):
    """Calls judge(check, load, folder) for each program that is meant; the exit code."""
    skip_unless_live()
    check = Check()
    able, unable = unwindprograms.chosen(options.names)
    for load in able:
        with folder(options, load.name) as place:
            judge(check, load, place)
    for name, reason in unable.items():
        print(f"SKIP: {name}: {reason}")
    if unable and not check.failures:
        return 77
    return 1 if check.failures else 0


def stop_threads(build, pid, output, stops, seconds, executables=None):
    """Threads at or below the process are stopped and walked; (stops, tries)."""
    only = ["--executable", f"^({executables})$"] if executables else []
    with open(output, "wb") as file:
        subprocess.run([build / "tests" / "programs" / "unwindref", "--tree", str(pid), *only,
                        "--stops", str(stops), "--seconds", str(seconds)], stdout=file, check=True)
    return unwindstops.read(output)


class Watch:
    """An agent that watches the host, and after it the records that its witness wrote."""

    def __init__(self, options, place, **defaults):
        self.options, self.witness, self.records = options, place / "witness", []
        self.settings = {**WATCHING, **defaults, **settings(options)}

    def __enter__(self):
        self.agent = Agent(self.options.build, "tests/programs/agent_witness",
                           {"FP_WITNESS": str(self.witness)}, **self.settings)
        return self

    def __exit__(self, *exception):
        try:
            self.agent.stop()
            if exception[0] is None:
                self.records = witnessed.read(self.witness)
        finally:
            self.agent.__exit__(*exception)
