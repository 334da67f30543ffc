"""Networks that have a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import DesignError, did_you_mean
from nicscope.fabric.topology import crossbar, pair, trunk

if TYPE_CHECKING:
    from nicscope.fabric.topology import Topology

CROSSBAR = "crossbar"
TOPOLOGIES = (CROSSBAR, "pair", "trunk")


def topology_named(name: str, nodes: int) -> Topology:
    """The network of that name that joins so many nodes, of a trunk the first half by the other.

    Errors: ``DesignError`` for a name that is none, or for nodes that it cannot have.
    """
    if name not in TOPOLOGIES:
        raise DesignError(f"no topology {name!r}{did_you_mean(name, TOPOLOGIES)}")
    if name == "trunk":
        return trunk((nodes + 1) // 2, nodes // 2)
    if name == CROSSBAR:
        return crossbar(nodes)
    if nodes != 2:
        raise DesignError(f"topology 'pair' has 2 nodes, got {nodes}; try 'crossbar'")
    return pair()
