"""Programs and machines that are killed at random moments: peers end, the machine serves on."""

from __future__ import annotations

import os

import pytest
from chaos import chaos
from live_clients import needs

SEED = int(os.environ.get("NICSCOPE_CHAOS_SEED", "0"))
ROUNDS = int(os.environ.get("NICSCOPE_CHAOS_ROUNDS", "10"))
SECONDS = 240  # after which no round begins


@pytest.mark.long
@pytest.mark.usefixtures("libraries")
@needs("ibv_rc_pingpong")
@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_whoever_is_killed_the_others_end_and_the_machine_serves_on(tmp_path, seed):
    assert chaos(seed, ROUNDS, tmp_path, SECONDS) == []
