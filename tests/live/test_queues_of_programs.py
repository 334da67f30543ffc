"""Queues of a compiled program, as a card's library leaves them when queue pairs end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from nicscope.live import machine as machine_module
from nicscope.live.build import HERE, VERBS, compiler

ROUNDS = 12


@pytest.fixture
def program(libraries, machine, tmp_path):
    """Begins ``queues.c`` over the machine; its process."""
    made = tmp_path / "queues"
    source = str(Path(__file__).with_name("queues.c"))
    words = [compiler(), "-Wall", "-Werror", f"-I{HERE}", f"-I{libraries}", source, "-o", str(made)]
    subprocess.run([*words, str(libraries / VERBS)], check=True)
    environment = {**os.environ, "NICSCOPE_LIVE": str(machine.path)}
    environment["LD_LIBRARY_PATH"] = str(libraries)

    def begin(*how):
        return subprocess.Popen(
            [str(made), *map(str, how)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return begin


@pytest.mark.parametrize("how", ["destroyed", "reset", "error"])
def test_what_a_pair_drew_from_a_shared_queue_makes_room_there_when_it_ends(program, machine, how):
    said, _ = program(how, ROUNDS).communicate(timeout=300)

    assert said == ""
    # Of each round nothing is kept but what the shared queue still has.
    assert machine.serving.live.nodes["fresh"].max() < 2 * 16


def test_a_solicited_event_does_not_replace_one_for_any_completion(program):
    said, _ = program("armed").communicate(timeout=120)

    assert said == ""


def test_what_found_no_room_comes_as_soon_as_there_is_some(program, monkeypatch):
    monkeypatch.setattr(machine_module, "LONGEST_SLEEP_S", 100)
    begun = program("full")
    assert begun.stdout.readline() == "full\n"
    time.sleep(0.3)  # the machine has nothing to do, and sleeps
    said, _ = begun.communicate("\n", timeout=60)

    assert (begun.returncode, said) == (0, "")
