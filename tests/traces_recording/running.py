"""Processes that run already, and recorders that are attached to them for a while."""

import contextlib
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nicscope.traces.reader import open_trace

_WAITING = {"x86_64": "128 ", "aarch64": "137 "}  # rt_sigtimedwait

# Gives up every capability for good, then becomes its arguments.
UNPRIVILEGED = """
import ctypes, os, sys
if os.getuid() == 0:
    for capability in range(64):
        ctypes.CDLL(None).prctl(24, *map(ctypes.c_ulong, (capability, 0, 0, 0)))
os.execv(sys.argv[1], sys.argv[1:])
"""


def recorder(*arguments):
    return [sys.executable, "-m", "nicscope", "record", *arguments]


def eventually(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    pytest.fail("it never came to pass")


class Target:
    """A Python program that reads commands, a line each, and answers each with a line."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.greeting = self.answer()

    def answer(self):
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.say(line)
        return self.answer()

    def say(self, line):
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    @property
    def state(self):
        """The letter that the kernel gives: S sleeps, T is stopped, t is stopped by a tracer."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def running(program, *arguments):
    target = Target(program, *arguments)
    try:
        yield target
    finally:
        target.process.kill()
        target.process.communicate()


class Attached:
    """A recorder that traces every thread of a process."""

    def __init__(self, pid, trace, *options):
        self.trace = trace
        command = recorder("-o", str(trace), "--pid", str(pid), *options)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        eventually(lambda: self._has_all_of(pid) and self._waits())

    def _has_all_of(self, pid):
        tracer = f"TracerPid:\t{self.process.pid}\n"
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return all(tracer in (task / "status").read_text() for task in tasks)

    def _waits(self):
        """Whether it has told every thread to stop, and waits for one that does."""
        text = Path(f"/proc/{self.process.pid}/syscall").read_text()
        return text.startswith(_WAITING[platform.machine()])

    def end(self, number=signal.SIGINT):
        """End the recording; what it says of it."""
        if number is not None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        return said

    def rows(self, *names):
        """The columns called ``names`` of the trace, row by row."""
        for _ in open_trace(self.trace).batches():  # each row is checked as it passes
            pass
        table = pq.read_table(self.trace).to_pydict()
        assert table["time_ns"] == sorted(table["time_ns"])
        return list(zip(*(table[name] for name in names), strict=True))


def is_alive(pid):
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def tracer_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("TracerPid:"))
