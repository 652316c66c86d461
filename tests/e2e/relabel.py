#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relabel rules on live samples: what a rule drops is in no profile but in the books, to the
sample; what a rule rewrites is found by its new label; a reload changes them."""

import shutil
import signal
import subprocess
import sys
import time

from control_agent import Folder, wait_for
from reference import Check, arguments, skip_unless_live
from watched import Watch

LOAD_S = 600  # until killed
FEWEST = 20  # samples
DROPPED = 'fleetprof_agent_samples_relabel_dropped_total{source="cpu"}'
RULES = "drop executable =~ fp-relabel-drop\nrelabel = " \
        "replace executable =~ \"fp-relabel-(ke)(.*)\" -> team = $2-$1\nrelabel = " \
        "replace team =~ .+ -> thread = \"\""


def counters(watch, **more):
    return watch.query(format="json", **more).json()["quality"]["counters"]


def check_dropped(check, watch):
    until = str(time.time())
    watch.settle()
    check(not watch.stacks('{executable="fp-relabel-drop"}', to=until),
          "what a rule drops is in no profile")
    seen = counters(watch, to=until)
    kept = sum(value for _, value in watch.stacks(to=until))
    dropped = seen.get("relabel.dropped", 0)
    check(dropped >= FEWEST, f"and counted in the profile's quality ({dropped})")
    check(seen["cpu.kept.aggregated"] == kept + dropped,
          f"samples taken are those in the profile and those dropped "
          f"({seen['cpu.kept.aggregated']} = {kept} + {dropped})")
    metric = watch.metric(DROPPED)
    check(metric and metric >= dropped, f"the agent's metrics have them too ({metric})")


def check_rewritten(check, watch):
    total = watch.samples('{executable="fp-relabel-keep"}')
    found = watch.samples('{executable="fp-relabel-keep", team="ep-ke", thread=""}')
    check(total >= FEWEST and found == total,
          f"what a rule rewrites has the new label, and not the one a rule took ({found} of {total})")
    check(watch.samples('{executable!="fp-relabel-keep", team!=""}') == 0, "and nobody else has")


def check_reload(check, watch):
    """Without the rules the dropped program is back."""
    agent = watch.agent
    del agent.settings["labels", "relabel"]
    agent.write_config()
    before = agent.metric("fleetprof_agent_config_last_reload_timestamp_seconds")
    agent.child.send_signal(signal.SIGHUP)
    wait_for(lambda: agent.metric("fleetprof_agent_config_last_reload_timestamp_seconds") > before,
             "the reload is done")
    for _ in range(2):
        watch.settle()
    seen = watch.samples('{executable="fp-relabel-drop"}')
    check(seen >= FEWEST, f"a reload without the rules brings it back ({seen})")


def run(check, build, folder):
    children = []
    for name in ("fp-relabel-drop", "fp-relabel-keep"):
        shutil.copy(build / "tests" / "programs" / "spin", folder / name)
        children.append(subprocess.Popen([folder / name, "--seconds", str(LOAD_S)],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    try:
        with Watch(build, folder, {("labels", "relabel"): RULES}) as watch:
            watch.settle()
            watch.settle()
            check_dropped(check, watch)
            check_rewritten(check, watch)
            check_reload(check, watch)
    finally:
        for child in children:
            child.kill()
            child.wait()


def main():
    build = arguments().build.resolve()
    skip_unless_live()
    check = Check()
    with Folder() as folder:
        run(check, build, folder)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
