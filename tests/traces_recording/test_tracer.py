"""What the tracer does when it cannot go on."""

import sys

import pytest

from nicscope.errors import OutputError
from nicscope.traces.recording.connections import Observed
from nicscope.traces.recording.ptrace import filter_program, this_machine
from nicscope.traces.recording.record import held_signals, launch
from nicscope.traces.recording.tracer import IssueOrder, Tracer
from traces_recording.programs import has_ended

PROGRAM = """
import os, socket, sys, time
a, b = socket.socketpair()
os.fork()
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
while len(open(sys.argv[1]).readlines()) < 2:
    time.sleep(0.01)
a.send(b"x")
time.sleep(60)
"""


def test_a_program_is_killed_with_its_children_when_its_rows_cannot_be_kept(tmp_path, monkeypatch):
    def fail(*_):
        raise OutputError("no room")

    machine = this_machine()
    with held_signals() as mask, IssueOrder(tmp_path / "trace") as rows:
        monkeypatch.setattr(rows, "add", fail)
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(tmp_path / "pids")]
        with launch(command, filter_program(machine), mask) as program:
            tracer = Tracer(machine, rows, Observed())
            with pytest.raises(OutputError, match="no room"):
                program.trace(tracer, lambda: None)

    pids = [int(line) for line in (tmp_path / "pids").read_text().splitlines()]
    assert len(pids) == 2
    assert all(has_ended(pid) for pid in pids)
