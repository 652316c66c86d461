# SPDX-License-Identifier: Apache-2.0
"""A collector as a real process, and requests to it over real sockets, for the tests."""

import http.client
import json
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse

START_S = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)


class Collector:
    """fleetprof-collector on a free port of loopback with its data in `directory`."""

    def __init__(self, program, directory, *flags):
        self.program = program
        self.directory = pathlib.Path(directory)
        self.flags = flags
        self.port = free_port()
        self.process = None
        self.log = self.directory.parent / f"{self.directory.name}.log"

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--config=/dev/null", f"--http-listen=127.0.0.1:{self.port}",
                 f"--store-directory={self.directory}", *self.flags],
                stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the collector ended with {self.process.returncode}: {self.text()}")
            try:
                if self.get("/healthz").status == 200:
                    return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the collector did not answer")

    def text(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Asks it to end and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=START_S)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def get(self, path, **parameters):
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        return self.request("GET", path + query)

    def send(self, path):
        return self.request("POST", "/v1/batches", pathlib.Path(path).read_bytes())

    def query(self, **parameters):
        return self.get("/api/v1/query", **{"from": "0", **parameters})

    def metric(self, name):
        """The value of a metric with its labels as written, or None."""
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None


class Batches:
    """Files of make_batches with what they hold."""

    def __init__(self, program, directory, *arguments):
        pathlib.Path(directory).mkdir(exist_ok=True)
        listing = subprocess.run([program, f"--out={directory}", *arguments], check=True,
                                 capture_output=True, text=True).stdout
        rows = [line.split(" ") for line in listing.splitlines()]
        self.files = [row[0] for row in rows]
        self.ids = [row[1] for row in rows]
        self.cpu = [int(row[2]) for row in rows]
        self.off_cpu = [int(row[3]) for row in rows]
