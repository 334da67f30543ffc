"""Which links a packet crosses between two nodes."""

from __future__ import annotations

import msgspec


class Topology(msgspec.Struct, frozen=True):
    """Paths over numbered links; ``hops`` counts the switches on a path."""

    name: str
    nodes: int
    links: int
    paths: dict[tuple[int, int], tuple[int, ...]]  # (sender, destination): links in order
    hops: dict[tuple[int, int], int]
    spare: tuple[dict[tuple[int, int], tuple[int, ...]], ...] = ()
    """Further ways, each as ``paths`` and over as many switches, for when a link has died."""


def pair() -> Topology:
    """Two nodes back to back: a link each way, no switch."""
    return Topology("pair", 2, 2, {(0, 1): (0,), (1, 0): (1,)}, {(0, 1): 0, (1, 0): 0})


def crossbar(nodes: int) -> Topology:
    """``nodes`` nodes on one full-crossbar switch: a link to it and one from it for each."""
    pairs = [(s, d) for s in range(nodes) for d in range(nodes) if s != d]
    return Topology(
        "crossbar",
        nodes,
        2 * nodes,
        {(s, d): (s, nodes + d) for s, d in pairs},
        dict.fromkeys(pairs, 1),
    )


def trunk(left: int, right: int) -> Topology:
    """``left`` and ``right`` nodes on two switches that one link each way joins."""
    nodes = left + right
    paths: dict[tuple[int, int], tuple[int, ...]] = {}
    hops: dict[tuple[int, int], int] = {}
    for s in range(nodes):
        for d in range(nodes):
            if s == d:
                continue
            crosses = (s < left) != (d < left)
            between = (2 * nodes + (0 if s < left else 1),) if crosses else ()
            paths[s, d] = (s, *between, nodes + d)
            hops[s, d] = 2 if crosses else 1
    return Topology("trunk", nodes, 2 * nodes + 2, paths, hops)


def redundant(nodes: int, switches: int = 2) -> Topology:
    """``nodes`` nodes, each on every one of ``switches`` crossbars: as many ways between any two.

    Switch k has the links ``2 * nodes * k + s`` from node s and ``2 * nodes * k + nodes + d`` to
    node d; the first is used until it fails.
    """
    first = crossbar(nodes)
    ways = [
        {pair: tuple(2 * nodes * k + link for link in path) for pair, path in first.paths.items()}
        for k in range(switches)
    ]
    return Topology("redundant", nodes, 2 * nodes * switches, ways[0], first.hops, tuple(ways[1:]))
