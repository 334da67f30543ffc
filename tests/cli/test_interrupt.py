"""Ctrl-C: exit status 130, one line, and no file that was not there before."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

import pytest
from trace_files import write

from nicscope.cli import app

LINE = "nicscope: interrupted; nothing half-written was left\n"


def interrupted(running):
    """Output of a process after Ctrl-C, pressed again where Python could not raise the first.

    An interrupt in a finalizer or in a callback of the compiler is printed and forgotten there.
    """
    for _ in range(6):
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return running.communicate(timeout=20)
    raise AssertionError("the process does not end on Ctrl-C")


def test_ctrl_c_in_the_middle_of_a_long_replay_leaves_nothing(tmp_path):
    # Each request is as long as can be, a million pages: minutes of replay in a small file.
    trace = write(tmp_path / "long.parquet", count=20_000, length=[2**32 - 1] * 20_000)
    folder = tmp_path / "results"
    command = [sys.executable, "-m", "nicscope", "replay", str(trace), "--design", "utlb"]
    running = subprocess.Popen(
        [*command, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not folder.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)  # now the trace is being read
        assert running.poll() is None
        out, err = interrupted(running)
    finally:
        running.kill()

    assert (running.returncode, out) == (130, "")
    assert err.endswith(LINE)
    assert list(tmp_path.iterdir()) == [trace]


def test_an_interrupt_in_any_command_is_told_in_one_line(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("nicscope.cli.designs.print_json", interrupted)

    assert app.main(["designs", "--json"]) == 130

    assert capsys.readouterr() == ("", LINE)


@pytest.mark.parametrize("status", [0, 7, 130])
def test_an_exit_status_of_a_commands_own_is_no_interrupt(status, monkeypatch, capsys):
    def leaves(_):
        raise app.typer.Exit(status)

    monkeypatch.setattr("nicscope.cli.designs.print_json", leaves)

    assert app.main(["designs", "--json"]) == status

    assert capsys.readouterr() == ("", "")
