"""``nicscope compile``: on purpose what others leave to a process beside them."""

import os
import subprocess
import sys

import pytest
import typer

from nicscope.cli import compiling
from nicscope.cli.app import app, main
from nicscope.kernel import queue, store
from nicscope.library.traces import BUNDLED, trace_path

SHARED = dict(os.environ)  # with the cache of all tests


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of its own, for the commands that are run as well."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for each in (store.folder, queue.folder):
        each.cache_clear()
    yield tmp_path
    queue.stop()
    for each in (store.folder, queue.folder):
        each.cache_clear()


def test_an_empty_cache_has_nothing_to_tell(capsys, home):
    assert main(["compile", "--status"]) == 0
    assert capsys.readouterr().out == f"0 kernels compiled, 0.0 MB in {home}/nicscope/entries\n"
    assert main(["compile", "--stop"]) == 0
    assert capsys.readouterr().out == "nothing was being compiled\n"


def test_a_command_that_fails_says_why_in_one_line(capsys):
    assert main(["compile", "replay", "no-such-trace"]) == 2
    assert "nicscope: 'nicscope replay no-such-trace' failed: " in capsys.readouterr().err


def test_where_nothing_can_be_kept_that_is_said(capsys, home, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(home / "file"))

    assert main(["compile"]) == 2
    assert "nothing can be kept in the cache folder; name another" in capsys.readouterr().err


@pytest.mark.compiled
def test_a_command_compiles_all_that_it_asked_for(capsys):
    command = ["replay", f"{BUNDLED}redis_server", "--design", "vmmc-interrupt"]

    assert main(["compile", *command]) == 0
    said = capsys.readouterr()
    kept, size = store.size()
    assert kept > 0
    assert said.out.startswith(f"{kept} kernels compiled, {size / 1e6:.1f} MB in ")
    assert "running nicscope replay" in said.err
    assert queue.waiting() == 0
    assert not queue.failures()


def test_without_a_command_the_usual_ones_are_run_and_each_can_be_read(monkeypatch):
    ran = []

    def run(command, **_):
        ran.append(command)
        return subprocess.CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(compiling.subprocess, "run", run)
    assert main(["compile"]) == 0

    assert {tuple(command[:3]) for command in ran} == {(sys.executable, "-m", "nicscope")}
    assert [tuple(command[3:]) for command in ran] == [*compiling._USUAL]
    commands = typer.main.get_command(app).commands
    for _, _, _, name, *words in ran:
        commands[name].make_context(name, [*words])  # fails at a wrong option
        for word in words:
            assert not word.startswith(BUNDLED) or trace_path(word).is_file()


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("command", compiling._USUAL, ids=lambda command: command[0])
def test_the_usual_commands_end_well(command):
    done = subprocess.run(
        [sys.executable, "-m", "nicscope", *command],
        env=SHARED,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
