"""Ctrl-C: exit status 130, one line, and no file that was not there before."""

import signal
import subprocess
import sys
import time

import pytest
from trace_files import write

from nicscope.cli import app
from nicscope.cli.streams import interrupts_delivered
from pressing import has_loaded, interrupted

LINE = "nicscope: interrupted; nothing half-written was left\n"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Minutes of any study in a small file: requests of a gigabyte, always the same pages."""
    many = 200_000
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    return write(path, count=many, length=[2**30] * many, address=[0] * many)


# Any signal ends any study alike.
@pytest.mark.parametrize(
    ("options", "number", "said"),
    [
        (["replay", "--design", "utlb"], signal.SIGHUP, "hung up"),
        (["curve"], signal.SIGTERM, "terminated"),
        (["size", "--nic-memory", "64K", "--page-size", "4K,2M"], signal.SIGINT, "interrupted"),
        (["sweep", "--design", "utlb", "--grid", "entries=64,128"], signal.SIGINT, "interrupted"),
    ],
    ids=["replay", "curve", "size", "sweep"],
)
def test_a_signal_in_the_middle_of_a_long_study_leaves_nothing(
    options, number, said, trace, tmp_path
):
    out = tmp_path / ("o.parquet" if options[0] == "sweep" else "results")
    command = [sys.executable, "-m", "nicscope", options[0], str(trace), *options[1:]]

    done = interrupted(
        [*command, "--out", str(out)], lambda: has_loaded("libarrow", trace), 0.5, number
    )

    assert done == (128 + number, "", LINE.replace("interrupted", said))
    assert list(tmp_path.iterdir()) == []
    assert list(trace.parent.iterdir()) == [trace]


NO_MEMORY = "nicscope: there is not enough memory{}; ask for less\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, LINE),
        *((app.typer.Exit(own), own, "") for own in (0, 7, 130)),  # which is no interrupt
        (MemoryError(), 2, NO_MEMORY.format("")),
        (MemoryError("no room for 8 GiB"), 2, NO_MEMORY.format(": no room for 8 GiB")),
        (PermissionError(13, "Not allowed", "/a/file"), 2, "nicscope: /a/file: Not allowed\n"),
    ],
    ids=repr,
)
def test_what_ends_any_command_is_one_line_and_its_status(error, status, said, monkeypatch, capsys):
    def ends(_):
        raise error

    monkeypatch.setattr("nicscope.cli.answer.print_json", ends)

    assert app.main(["designs", "--json"]) == status

    assert capsys.readouterr() == ("", said)


LOSING = """
import os, signal, sys, time
from nicscope.cli import answer
from nicscope.__main__ import run

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def lose_one(*_):
    Finalized()
    {then}

answer.print_json = lose_one
sys.argv = ["nicscope", "designs", "--json"]
sys.exit(run())
"""


@pytest.mark.parametrize(
    "then", ["while True: time.sleep(0.01)", "raise RuntimeError('for want of a callback')"]
)
def test_an_interrupt_that_python_cannot_raise_where_it_comes_is_not_lost(then):
    command = [sys.executable, "-c", LOSING.format(then=then)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", LINE)


def test_a_signal_that_is_ignored_stays_so_and_others_get_their_handlers_back():
    """As nohup has it for SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts_delivered():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_a_program_asks_of_the_system_is_its_own_affair(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text("def main():\n    open('/no/such/file')\n")

    assert app.main(["simulate", str(program)]) == 1
    assert "FileNotFoundError" in capsys.readouterr().err


def test_clearing_up_after_an_interrupt_is_not_interrupted_again(monkeypatch, capsys):
    def clears_up(_):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            try:
                {}["another error on the way"]
            except KeyError:
                time.sleep(0.5)
            time.sleep(0.5)
            print("cleared up")

    monkeypatch.setattr("nicscope.cli.answer.print_json", clears_up)

    assert app.main(["designs", "--json"]) == 130

    assert capsys.readouterr() == ("cleared up\n", LINE)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
