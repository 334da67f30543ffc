"""Links between nodes, the routes over them, and finding which routes are alive by probes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec


class Search(NamedTuple):
    """What the probes of one search came to."""

    links: Links  # of the shortest route that is alive, in order; none if there is no route
    answered: tuple[int, ...]  # switches that each probe passed which was answered
    silent: int  # probes that were not


class Fabric:
    """Nodes, switches and links, as probes find them."""

    def __init__(self, nodes: int, links: int, leads: Leads) -> None:
        self._nodes = nodes
        self._out: dict[int, list[tuple[int, int]]] = {}
        for link in range(links):
            begin, end = leads(link)
            self._out.setdefault(begin, []).append((link, end))

    def search(self, sender: int, destination: int, is_alive: Callable[[int], bool]) -> Search:
        """Look for a route between two nodes over links of which ``is_alive`` says yes."""
        came_by: dict[int, tuple[int, int]] = {}  # the place before, and the link
        depth = {sender: 0}  # links from the sender
        answered: list[int] = []
        silent = 0
        waiting = deque([sender])
        while waiting:
            place = waiting.popleft()
            for link, end in self._out.get(place, ()):
                if not is_alive(link):
                    silent += 1
                    continue
                answered.append(depth[place])
                if end in depth:
                    continue
                came_by[end] = place, link
                depth[end] = depth[place] + 1
                if end == destination:
                    return Search(_route(came_by, sender, end), tuple(answered), silent)
                if end >= self._nodes:
                    waiting.append(end)
        return Search((), tuple(answered), silent)


def _route(came_by: dict[int, tuple[int, int]], sender: int, place: int) -> Links:
    links: list[int] = []
    while place != sender:
        place, link = came_by[place]
        links.append(link)
    return tuple(reversed(links))


T = TypeVar("T")
Pair = tuple[int, int]  # sender, destination
Links = tuple[int, ...]  # in order
Leads = Callable[[int], tuple[int, int]]  # of a link: where it leads from and to


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
    leads: Leads | None = None
    """Where a link leads from and to, for whoever looks for other routes when one dies: a node's
    number, or a switch's, which are numbered behind the nodes.  None: nobody looks for any."""
    delay_ps: int = 0
    """For how long a packet propagates on every path, from one node to another."""

    def has_several_ports(self) -> bool:
        """Whether packets may come to some node over different links."""
        if self.leads is not None:
            ends = [end for _, end in map(self.leads, range(self.links)) if end < self.nodes]
            return len(set(ends)) < len(ends)
        last: dict[int, int] = {}
        pairs = self.paths.items()
        return any(links and last.setdefault(d, links[-1]) != links[-1] for (_, d), links in pairs)


def pair() -> Topology:
    """Two nodes back to back: a link each way, no switch."""
    paths = {(0, 1): (0,), (1, 0): (1,)}
    return Topology("pair", 2, 2, paths, {(0, 1): 0, (1, 0): 0}, lambda link: (link, 1 - link))


def crossbar(nodes: int) -> Topology:
    """``nodes`` nodes on one full-crossbar switch: a link to it and one from it for each."""
    return msgspec.structs.replace(redundant(nodes, 1), name="crossbar")


def trunk(left: int, right: int) -> Topology:
    """``left`` and ``right`` nodes on two switches that one link each way joins."""
    nodes = left + right

    def between(s: int, d: int) -> Links:
        crosses = (s < left) != (d < left)
        return (2 * nodes + (0 if s < left else 1),) if crosses else ()

    def leads(link: int) -> tuple[int, int]:
        if link >= 2 * nodes:
            near = link - 2 * nodes
            return nodes + near, nodes + 1 - near
        node = link % nodes
        switch = nodes + (0 if node < left else 1)
        return (node, switch) if link < nodes else (switch, node)

    return Topology(
        "trunk",
        nodes,
        2 * nodes + 2,
        EveryPair(nodes, lambda s, d: (s, *between(s, d), nodes + d)),
        EveryPair(nodes, lambda s, d: 1 + len(between(s, d))),
        leads,
    )


def redundant(nodes: int, switches: int = 2) -> Topology:
    """``nodes`` nodes, each on every one of ``switches`` crossbars: as many ways between any two.

    Switch k has the links ``2 * nodes * k + s`` from node s and ``2 * nodes * k + nodes + d`` to
    node d; the first is used until it fails.
    """

    def leads(link: int) -> tuple[int, int]:
        switch, place = divmod(link, 2 * nodes)
        return (place, nodes + switch) if place < nodes else (nodes + switch, place - nodes)

    return Topology(
        "redundant",
        nodes,
        2 * nodes * switches,
        EveryPair(nodes, lambda s, d: (s, nodes + d)),
        EveryPair(nodes, lambda _s, _d: 1),
        leads,
    )


def routed(name: str, nodes: int, wires: Sequence[tuple[int, int]]) -> Topology:
    """Any network: link k leads from the first of ``wires[k]`` to the second.

    Nodes are numbered from 0, switches behind them.  Each path is the shortest, and of several that
    over the lower links.  Errors: ``ValueError`` if there is none between two nodes.
    """
    fabric = Fabric(nodes, len(wires), wires.__getitem__)

    def shortest(s: int, d: int) -> Links:
        links = fabric.search(s, d, lambda _link: True).links
        if not links:
            raise ValueError(f"{name}: no links lead from node {s} to node {d}; add wires that do")
        return links

    paths: dict[Pair, Links] = dict(EveryPair(nodes, shortest))
    hops = {each: len(links) - 1 for each, links in paths.items()}
    return Topology(name, nodes, len(wires), paths, hops, wires.__getitem__)
