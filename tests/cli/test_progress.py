"""The progress bar: for those who look, and only if it takes long."""

from __future__ import annotations

import io
import sys

import pytest

from nicscope.cli import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def look(monkeypatch):
    """Call it in the test, and the error stream is a terminal; pytest sets it anew before."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def looked_at():
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return looked_at


def test_nobody_is_told_where_there_is_no_terminal(capsys):
    with progress.progress("replaying", "rows") as watch:
        assert watch is None
        progress._Listener._hear("lookup")

    assert capsys.readouterr().err == ""


def test_a_quick_run_shows_nothing(look):
    terminal = look()
    with progress.progress("replaying", "rows") as watch:
        watch(10, 10)

    assert terminal.getvalue() == ""


def test_a_long_run_shows_its_rate(look, monkeypatch):
    terminal = look()
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)

    with progress.progress("replaying", "rows") as watch:
        watch(5, 10)

    assert "replaying" in terminal.getvalue()
    assert "50%" in terminal.getvalue()
    assert "M rows/s" in terminal.getvalue()


def test_the_kernel_that_compiles_is_named_at_once(look):
    terminal = look()
    with progress.progress("replaying", "rows"):
        progress._Listener._hear("replay_utlb")

    assert "compiling kernels (first use only): replay_utlb..." in terminal.getvalue()


def test_compiling_is_one_plain_line_where_that_is_wanted(capsys):
    with progress.progress("replaying", "rows", always_say=True):
        progress._Listener._hear("lookup")
        progress._Listener._hear("fill")

    assert capsys.readouterr().err == (
        "compiling kernels (first use only); seconds for a replay, about a minute for programs...\n"
    )


def test_after_a_run_nobody_hears_of_kernels(look):
    terminal = look()
    with progress.progress("replaying", "rows"):
        pass
    progress._Listener._hear("lookup")

    assert terminal.getvalue() == ""
