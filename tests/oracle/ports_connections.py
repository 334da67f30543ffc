"""Connections with streams of their own, and what the nodes at their ends know them by."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from hypothesis import strategies as st


class End(NamedTuple):
    """Of a stream: a node, and what that node knows the stream by, which is its peer there."""

    node: int
    peer: int


@dataclass
class Streams:
    """Those of a world: one for each two nodes, then connections, in the order in which made."""

    nodes: int
    connections: list[tuple[int, int]]  # the nodes at their ends

    def ends(self):
        """Of each connection; a node numbers its connections behind the nodes."""
        found, made = [], [0] * self.nodes
        for nodes in self.connections:
            ends = []
            for node in nodes:  # both are of one node where that sends to itself
                ends.append(End(node, self.nodes + made[node]))
                made[node] += 1
            found.append(ends)
        return found

    def most(self):
        """How many connections a node has at most."""
        every = [node for nodes in self.connections for node in nodes]
        return max((every.count(node) for node in every), default=0)

    def other_ends(self):
        """By one end, as its node knows it, the other."""
        found = {End(*pair): End(*pair[::-1]) for pair in permutations(range(self.nodes), 2)}
        for here, there in self.ends():
            found |= {here: there, there: here}
        return found

    def peer_of(self, other, connection, end):
        """What a node knows the stream by that something of it and ``other`` goes by.

        ``end``: which of the connection's it is at.
        """
        return other if connection is None else self.ends()[connection][end].peer


@st.composite
def connected(draw, hosts, channels, imports):
    """A connection for each channel, and one for all that two ports ask of each other.

    Its first end is that of the process with the higher number.
    """
    many = len(hosts)
    pairs = sorted({(one.process, one.tag % many) for one in channels})
    pairs = [(me, peer) for me, peer in pairs if me > peer]
    uses = draw(st.permutations([(kind, pair) for kind in ("tags", "ports") for pair in pairs]))
    of = {}
    for place, (kind, (me, peer)) in enumerate(uses):
        of[kind, me, peer] = of[kind, peer, me] = place
    channels = [
        one._replace(connection=of["tags", one.process, one.tag % many]) for one in channels
    ]
    imports = [one._replace(connection=of["ports", one.process, one.export]) for one in imports]
    return [(hosts[me], hosts[peer]) for _, (me, peer) in uses], channels, imports
