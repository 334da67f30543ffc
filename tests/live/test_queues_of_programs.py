"""Queues of a compiled program, as a card's library leaves them when queue pairs end."""

from __future__ import annotations

import time
from functools import partial

import pytest

from nicscope.live import machine as machine_module

ROUNDS = 12


@pytest.fixture
def program(compiled):
    return partial(compiled, "queues")


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
