"""A swarm of ``make swarm`` on every interface, and others each time in the long tests."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import run_swarm
import swarm_unet
from swarm_rules import RuleError

SECONDS = 180  # of one swarm; the first compiles all that it enters


OTHERS = [random.SystemRandom().randrange(1 << 30) for _ in range(5)]


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in OTHERS)],
    ids=["the same", *(f"other {number}" for number in range(len(OTHERS)))],
)
@pytest.mark.parametrize("interface", run_swarm.MAKERS)
def test_random_programs_keep_the_rules_and_a_seed_does_the_same_again(interface, seed):
    said = run_swarm.again(interface, seed)

    found = run_swarm.bounded(interface, seed, SECONDS)

    assert run_swarm.bounded(interface, seed, SECONDS) == found, said


def test_a_rule_that_is_broken_is_told_with_the_command_that_repeats_it(monkeypatch, capsys):
    def make(chance):
        made = swarm_unet.make(chance)

        def broken(_):
            raise RuleError("a secret was seen")

        return made._replace(check=broken)

    monkeypatch.setitem(run_swarm.MAKERS, "unet", make)
    monkeypatch.setattr(sys, "argv", ["run_swarm.py", "--interface", "unet", "--seed", "10"])

    assert run_swarm.main() == 1

    out = capsys.readouterr().out
    assert "RuleError: a secret was seen" in out
    assert "again: python tests/swarm/run_swarm.py --interface unet --seed 10" in out
