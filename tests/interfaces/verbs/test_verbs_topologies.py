"""Programs of several nodes on networks that have a name."""

from __future__ import annotations

from pathlib import Path

import pytest

import nicscope as ns
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
