"""The examples say the same on every design, and each design has its own bill for them."""

from __future__ import annotations

from pathlib import Path

import pytest

import nicscope as ns

EXAMPLES = Path(__file__).parents[3] / "examples"
DESIGNS = ["rnic", "utlb", "utlb-process", "vmmc-interrupt", "via-static", "unet-mm-pca200"]
PROGRAMS = {
    "verbs_pingpong": (["2"], "2 rounds, the last answer was pong"),
    "verbs/write_ring": (["6", "4"], "6 messages through 4 slots: "),
    "verbs/srq_server": (["2", "1"], "2 answers, [1, 1] by client, last: CLIENT 1 ASKS 0"),
    "verbs/lock": (["2", "1"], "2 turns of 2 clients, "),
    "verbs/on_demand": (["2"], "pinned: 2 pages twice, "),
}

SAID: dict[str, str] = {}  # on whichever design was first


def run(capsys, name, design, **more):
    """What an example says on a design, and its bill."""
    words, _ = PROGRAMS[name]
    [made] = ns.run_verbs(EXAMPLES / f"{name}.py", words, design=design, **more).found.runs
    assert made.status == 0
    return capsys.readouterr().out.splitlines(), made


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_says_the_same_on_each_design(capsys, name, design):
    said, made = run(capsys, name, design)
    assert said[0].startswith(PROGRAMS[name][1])
    assert SAID.setdefault(name, said[0]) == said[0]
    assert made.messages_out
    assert made.lookups


def test_one_program_under_six_designs_has_six_bills(capsys):
    bills = [run(capsys, "verbs_pingpong", design)[1] for design in DESIGNS]
    assert len({bill.messages_out for bill in bills}) == 1
    assert len({(bill.elapsed_us, bill.ni_misses, bill.pins) for bill in bills}) == len(DESIGNS)


def test_what_is_mapped_when_it_is_used_has_the_same_bytes(capsys):
    said, _ = run(capsys, "verbs/on_demand", "vmmc-interrupt")
    assert said[1] == "on demand: the same, " + said[0].rpartition(" ")[2]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "name", ["verbs_pingpong", "verbs/write_ring", "verbs/srq_server", "verbs/lock"]
)
def test_an_example_says_the_same_over_a_bad_network(capsys, name, seed):
    good, _ = run(capsys, name, "utlb", seed=seed)
    said, _ = run(capsys, name, "utlb", seed=seed, loss=0.05, duplication=0.05, reordering=0.05)
    assert said == good
