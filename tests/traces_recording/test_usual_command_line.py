"""The command line of ``record`` that is read without Typer says what Typer would make of it."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from nicscope.cli import record
from nicscope.cli.recording import read_usual
from nicscope.outputs import STDOUT

WORDS = st.sampled_from(
    (
        "-o",
        "--output",
        "-",
        "--",
        "--quiet",
        "t.parquet",
        "echo",
        "hi",
        "--pid",
        "7",
        "-x",
        "--help",
    )
)


def typers(words):
    """What Typer hands on of them: None if that is a mistake, or help."""
    found = []

    def kept(output, command, pid, seconds, quiet):
        found.append((output, command or [], quiet) if pid is seconds is None else None)

    kept.__annotations__ = record.record.__annotations__
    kept.__signature__ = __import__("inspect").signature(record.record, eval_str=True)
    app = typer.Typer(rich_markup_mode=None)
    app.command(context_settings=record.CONTEXT)(kept)
    try:
        app(args=words, standalone_mode=False)
    except Exception:
        return None
    return found[0] if found else None


@given(st.lists(WORDS, max_size=7))
def test_what_is_read_without_typer_is_what_typer_reads(words):
    usual = read_usual(words)
    if usual is not None:
        assert usual == typers(words)


def test_the_usual_command_line_is_read_without_typer():
    assert read_usual(["-o", "t.csv", "--quiet", "--", "echo", "-o"]) == (
        Path("t.csv"), ["echo", "-o"], True
    )  # fmt: skip
    assert read_usual(["--output", "-", "echo", "--quiet"]) == (STDOUT, ["echo", "--quiet"], False)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["-o", "t", "--"], ["echo"], ["-o", "a", "-o", "b", "echo"], ["-o=t", "echo"],
     ["-o", "t", "--pid", "7"], ["-o", "--quiet", "echo"]],
)  # fmt: skip
def test_all_else_is_left_to_typer(words):
    assert read_usual(words) is None


def test_nothing_that_takes_long_is_loaded_before_the_program_starts():
    """Nor is it to the end, where nothing has moved."""
    code = (
        "import sys; sys.argv = ['nicscope', 'record', '-o', 'never.parquet', '--', 'true'];"
        "from nicscope.__main__ import run; status = run();"
        "loaded = {'numpy', 'typer', 'pydantic', 'pyarrow', 'numba', 'rich'} & {*sys.modules};"
        "print(status, sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 []\n"
    assert "no bytes moved" in done.stderr
