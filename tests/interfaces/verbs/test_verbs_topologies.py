"""Programs of several nodes on networks that have a name."""

from __future__ import annotations

from pathlib import Path

import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.errors import DesignError
from nicscope.studies.topologies import TOPOLOGIES, topology_named

ENDS = Path(__file__).parents[3] / "examples" / "verbs"
NODES = {0: [str(ENDS / "server.py")], 1: [str(ENDS / "client.py"), "10.0.0.1", "2"]}


def test_a_ping_pong_takes_longer_the_more_switches_are_on_its_way():
    took = {}
    for name in TOPOLOGIES:
        runs = ns.run_verbs(nodes=NODES, topology=name).found.runs
        took[name] = runs[1].elapsed_us
        assert [run.messages_out for run in runs] == [2, 2]
    assert took["pair"] < took["crossbar"] < took["trunk"]


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_a_trunk_joins_any_number_of_nodes(nodes):
    made = topology_named("trunk", nodes)
    assert made.nodes == nodes
    assert made.hops[0, nodes - 1] == 2
    assert nodes == 2 or made.hops[0, 1] == 1
    with pytest.raises(DesignError, match="no topology 'ring'"):
        topology_named("ring", nodes)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--topology", "trunk", str(ENDS / "lock.py")], "is of several nodes"),
        (
            [
                "--topology",
                "pair",
                *(w for n in "012" for w in ("--node", n, str(ENDS / "lock.py"))),
            ],
            "topology 'pair' has 2 nodes, got 3; try 'crossbar'",
        ),
    ],
)
def test_a_network_that_cannot_be_is_refused_in_one_line(words, why, capsys):
    assert main(["verbs", "run", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert why in line
