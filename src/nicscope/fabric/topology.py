"""Which links a packet crosses between two nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
Pair = tuple[int, int]  # sender, destination
Links = tuple[int, ...]  # in order


class EveryPair(Mapping[Pair, T]):
    """Something of every pair of nodes, by a rule that is asked when it is looked up.

    A table of a thousand nodes' pairs would take a second to make and hundreds of megabytes.
    """

    def __init__(self, nodes: int, rule: Callable[[int, int], T]) -> None:
        self._nodes = nodes
        self._rule = rule

    def __getitem__(self, pair: Pair) -> T:
        s, d = pair
        if s == d or not (0 <= s < self._nodes and 0 <= d < self._nodes):
            raise KeyError(pair)
        return self._rule(s, d)

    def __iter__(self) -> Iterator[Pair]:
        return ((s, d) for s in range(self._nodes) for d in range(self._nodes) if s != d)

    def __len__(self) -> int:
        return self._nodes * (self._nodes - 1) if self._nodes > 0 else 0


class Topology(msgspec.Struct, frozen=True):
    """Paths over numbered links; ``hops`` counts the switches on a path."""

    name: str
    nodes: int
    links: int
    paths: Mapping[Pair, Links]
    hops: Mapping[Pair, int]
    spare: tuple[Mapping[Pair, Links], ...] = ()
    """Further ways, each as ``paths`` and over as many switches, for when a link has died."""

    def has_several_ports(self) -> bool:
        """Whether packets may come to some node over different links."""
        if self.spare or isinstance(self.paths, EveryPair):
            return bool(self.spare)
        last: dict[int, int] = {}
        pairs = self.paths.items()
        return any(links and last.setdefault(d, links[-1]) != links[-1] for (_, d), links in pairs)


def pair() -> Topology:
    """Two nodes back to back: a link each way, no switch."""
    return Topology("pair", 2, 2, {(0, 1): (0,), (1, 0): (1,)}, {(0, 1): 0, (1, 0): 0})


def crossbar(nodes: int) -> Topology:
    """``nodes`` nodes on one full-crossbar switch: a link to it and one from it for each."""
    return Topology(
        "crossbar", nodes, 2 * nodes, _over_switch(nodes, 0), EveryPair(nodes, lambda _s, _d: 1)
    )


def _over_switch(nodes: int, switch: int) -> Mapping[Pair, Links]:
    """Paths over the ``switch``-th of some crossbars that all nodes are on."""
    first = 2 * nodes * switch
    return EveryPair(nodes, lambda s, d: (first + s, first + nodes + d))


def trunk(left: int, right: int) -> Topology:
    """``left`` and ``right`` nodes on two switches that one link each way joins."""
    nodes = left + right

    def between(s: int, d: int) -> Links:
        crosses = (s < left) != (d < left)
        return (2 * nodes + (0 if s < left else 1),) if crosses else ()

    return Topology(
        "trunk",
        nodes,
        2 * nodes + 2,
        EveryPair(nodes, lambda s, d: (s, *between(s, d), nodes + d)),
        EveryPair(nodes, lambda s, d: 1 + len(between(s, d))),
    )


def redundant(nodes: int, switches: int = 2) -> Topology:
    """``nodes`` nodes, each on every one of ``switches`` crossbars: as many ways between any two.

    Switch k has the links ``2 * nodes * k + s`` from node s and ``2 * nodes * k + nodes + d`` to
    node d; the first is used until it fails.
    """
    ways = [_over_switch(nodes, switch) for switch in range(switches)]
    return Topology(
        "redundant",
        nodes,
        2 * nodes * switches,
        ways[0],
        EveryPair(nodes, lambda _s, _d: 1),
        tuple(ways[1:]),
    )
