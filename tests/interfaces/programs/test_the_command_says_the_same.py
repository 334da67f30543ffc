"""A program file says the same of what went wrong under ``nicscope simulate`` and Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nicscope
from nicscope.cli.app import main

LOOPS = """
from nicscope.interfaces import vmmc

async def server(endpoint):
    await endpoint.notification()

async def client(endpoint):
    await endpoint.compute(5)
    raise KeyboardInterrupt

def main():
    cluster = vmmc.Cluster()
    cluster.start(0, client)
    cluster.start(1, server)
    cluster.run()

if __name__ == "__main__":
    main()
"""
STUCK = LOOPS.replace("    raise KeyboardInterrupt\n", "")
BREAKS = LOOPS.replace("raise KeyboardInterrupt", "raise KeyError('mine')")


@pytest.mark.parametrize(
    ("program", "status", "lines"),
    [
        (LOOPS, 130, ["process 0 of node 1, server(): waits in endpoint.notification(), "]),
        (STUCK, 2, ["nothing more will happen after ", "server(): waits in endpoint.notificat"]),
        (BREAKS, 1, ["KeyError: 'mine'", "in process 0 of node 0, client(), "]),
        (
            STUCK.replace("await endpoint.c", "endpoint.c"),
            2,
            ["endpoint.compute() without 'await'"],
        ),
        (STUCK.replace("(5)", "(-5)"), 2, ["got -5 us (process 0 of node 0, client(), at 0 us)"]),
    ],
)
def test_the_command_and_python_itself_say_the_same_without_our_lines(
    tmp_path, capsys, program, status, lines
):
    path = tmp_path / "mine.py"
    path.write_text(program)

    assert main(["simulate", str(path)]) == status
    shown = capsys.readouterr().err
    alone = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False
    ).stderr

    for line in lines:
        assert line in shown
        assert line.split(" (process")[0] in alone
    assert str(Path(nicscope.__file__).parent) not in shown + alone
