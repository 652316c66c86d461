# SPDX-License-Identifier: Apache-2.0
"""An agent that watches the host and the collector it ships to: what the fleet's user sees of
what a test runs. Windows are short, so that a test waits seconds and not minutes."""

import subprocess
import time

from collector_process import Collector
from control_agent import Agent, wait_for
from reference import folded

HZ = 199
LIMIT_S = 120  # patience on a machine that does much else


class Watch:
    def __init__(self, build, folder, settings=None, collector_flags=()):
        self.collector = Collector(build / "collector" / "fleetprof-collector", folder / "store",
                                   *collector_flags)
        self.agent = Agent(build, folder, {
            ("cpu", "hz"): str(HZ), ("off_cpu", "enabled"): "no",
            ("window", "length"): "1s", ("window", "jitter_percent"): "0",
            ("collector", "url"): f"http://127.0.0.1:{self.collector.port}",
            ("collector", "retry_max"): "1s", **(settings or {})})

    def __enter__(self):
        self.collector.start()
        self.since = time.time() - 60
        try:
            self.agent.__enter__()
        except BaseException:
            self.collector.kill()
            raise
        return self

    def __exit__(self, *exception):
        try:
            self.agent.stop()
        except subprocess.TimeoutExpired:
            self.agent.child.kill()  # it may hang where only the test's end sets it free
            if not exception[0]:
                raise
        finally:
            self.collector.kill()
            if exception[0]:
                print("-- the agent said\n" + self.agent.said()[-4000:])

    def settle(self):
        """Until all that was sampled up to now is in the collector."""
        closed = "fleetprof_agent_windows_total"
        goal = self.agent.metric(closed) + 2  # the one that is open, and one of margin
        wait_for(lambda: (self.agent.metric(closed) or 0) >= goal, "a window is closed", LIMIT_S)
        wait_for(lambda: not list(self.agent.spool.glob("*.batch")), "the spool is emptied",
                 LIMIT_S)

    def query(self, selector="{}", **parameters):
        answer = self.collector.query(**{
            "type": "cpu", "from": str(self.since), "selector": selector,
            "format": "folded", **parameters})
        if answer.status != 200:
            raise RuntimeError(f"{selector}: {answer.status} {answer.body!r}")
        return answer

    def stacks(self, selector="{}", **parameters):
        # Names are bytes; those that are not UTF-8 are shown as \xNN.
        return folded(self.query(selector, **parameters).body.decode(errors="backslashreplace"))

    def samples(self, selector="{}"):
        return sum(value for _, value in self.stacks(selector))

    def values(self, label):
        """The values of one label, with the samples of each."""
        counts = {}
        for frames, value in self.stacks(root=label):
            counts[frames[0]] = counts.get(frames[0], 0) + value
        return counts

    def metric(self, name):
        return self.agent.metric(name)
