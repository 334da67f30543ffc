"""Running little programs that know what they did, and recording them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from nicscope.traces.reader import open_trace
from nicscope.traces.recording.record import record

if TYPE_CHECKING:
    from nicscope.traces.recording.connections import Observed

PREAMBLE = """
import ctypes, fcntl, json, os, signal, socket, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
truth = []

def at(buffer):
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))

def note(syscall, buffer, length, offset=0):
    op = "recv" if "re" in syscall else "send"
    truth.append([os.getpid(), syscall, op, at(buffer) + offset, length, len(buffer) - offset])

def finish():
    with open(sys.argv[1], "a") as file:
        for row in truth:
            file.write(json.dumps(row) + "\\n")
    truth.clear()

a, b = socket.socketpair()
"""
COLUMNS = ["pid", "syscall", "op", "address", "length", "posted"]


class Outcome(NamedTuple):
    status: int
    observed: Observed
    truth: list[list[object]]  # what the program says, as (COLUMNS)
    rows: list[list[object]]  # what was recorded, likewise
    table: dict[str, list[object]]  # all recorded columns


def run(tmp_path, program, *arguments):
    """Record ``program``, Python text that notes what it does, in this process."""
    truth, trace = tmp_path / "truth.jsonl", tmp_path / "trace.parquet"
    text = f"{PREAMBLE}\n{program}\nfinish()\n"
    command = [sys.executable, "-I", "-S", "-c", text, str(truth), *arguments]
    recording = record(command, trace)
    said = [json.loads(line) for line in truth.read_text().splitlines()] if truth.exists() else []
    table = {}
    if recording.path is not None:
        for _ in open_trace(trace).batches():  # each row is checked as it passes
            pass
        table = pq.read_table(trace).to_pydict()
        assert table["time_ns"] == sorted(table["time_ns"])
    rows = (
        [list(row) for row in zip(*(table[name] for name in COLUMNS), strict=True)] if table else []
    )
    return Outcome(recording.status, recording.observed, said, rows, table)


def run_and_agree(tmp_path, program):
    """Record ``program``, which must succeed, and compare rows with what it says, in order."""
    outcome = run(tmp_path, program)
    assert outcome.status == 0
    assert outcome.truth
    assert outcome.rows == outcome.truth
    assert outcome.observed.rows == len(outcome.rows)
    return outcome


def has_ended(process):
    """Whether a process is gone, or waits for its parent to hear of it."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
