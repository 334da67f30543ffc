"""A Dask scheduler and its workers, for tests."""

import json
import subprocess
import sys
import time

START_S = 60.0  # for scheduler and workers, on a busy machine


class Processes:
    """A scheduler and workers without dashboards on free ports; every one ends with the test."""

    def __init__(self, folder):
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.running = []
        self.start("scheduler", "--port", "0")
        self._wait(self._file.exists)
        self.address = json.loads(self._file.read_text())["address"]

    def start(self, what, *options):
        module = f"distributed.cli.dask_{what}"
        shared = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(self._file)]
        with (self._folder / f"{what}{len(self.running)}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *shared, *options], stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def worker(self):
        return self.start("worker", "--no-nanny", "--nthreads", "1")

    def _wait(self, ready):
        deadline = time.monotonic() + START_S
        while not ready():
            assert time.monotonic() < deadline, "no scheduler came up"
            time.sleep(0.05)
        time.sleep(0.1)  # the file may just be being written

    def end(self):
        for process in reversed(self.running):
            process.kill()
            process.wait(30)
