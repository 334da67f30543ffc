"""Ports that send datagrams, and the ways between nodes by which these go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.ports.connecting import new_streams
from nicscope.errors import SimulationError
from nicscope.nic.ports.layout import CONNECTED, NOBODY, UNRELIABLE

if TYPE_CHECKING:
    from nicscope.drivers.simulate.ports.state import Ports


def open_datagrams(ports: Ports, node: int, port: int, qkey: int, unit: int) -> None:
    """Have a port that takes ONE receive for each message send datagrams, and take such.

    ``qkey``: 64 bits that a datagram for it must show; ``unit``: bytes of one at most.  Errors:
    ``SimulationError`` if it has a connection.  ``end_connection`` ends it.
    """
    record = ports.table[node, port]
    if record["channel"] != NOBODY:
        raise SimulationError(f"port {port} of node {node} has a connection; end that first")
    channel = ports.channels[node, port]
    channel["sent"] = channel["cut"] = channel["message"] = channel["stream"] = 0
    channel["port"], channel["node"], channel["tag"] = port, NOBODY, NOBODY
    channel["unit"] = channel["most"] = unit
    channel["placed"] = -1
    record["datagrams"], record["qkey"], record["longest"] = 1, qkey, unit
    record["channel"], record["level"], record["state"] = port, UNRELIABLE, CONNECTED
    record["reading"] = 0


class Ways:
    """Those of a cluster's datagrams: one for each two nodes, and for each node with itself."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[tuple[int, int], int] = {}

    def between(self, node: int, other: int) -> int:
        """What ``node`` knows the way to ``other`` by, and its descriptors name as their offset.

        Errors: ``SimulationError`` if a node has no stream or no tag left.
        """
        if (node, other) not in self._known:
            tags = [self._unused_tag(each) for each in {node, other}]
            if node == other:
                tags.append(self._unused_tag(node, tags[0] + 1))
            ends = new_streams(self._ports, node, other)
            where = ((node, other), (other, node))
            for (here, there), known_as in zip(where, ends, strict=True):
                self._open(here, there, known_as)
            self._known[other, node] = ends[1]
            self._known[node, other] = ends[0]
        return self._known[node, other]

    def _open(self, node: int, other: int, known_as: int) -> None:
        stream = self._ports.pools.streams[self._ports.stream_of[node, known_as]]
        tag = self._unused_tag(node)
        stream["level"], stream["channel"] = UNRELIABLE, tag
        channel = self._ports.channels[node, tag]
        channel["node"], channel["stream"] = other, known_as
        channel["unit"], channel["placed"] = 1 << self._ports.rules[0]["page_bits"], -1

    def _unused_tag(self, node: int, first: int = 0) -> int:
        """A tag of the node, behind those that connections of its ports have."""
        channels = self._ports.channels[node]
        free = (channels["stream"] == 0) & (channels["port"] == NOBODY)
        free[: max(first, self._ports.table.shape[1])] = False
        if not bool(free.any()):
            raise SimulationError(
                f"node {node} has no tag left for datagrams from another node; give it more "
                "(PortSize(channels=...))"
            )
        return int(free.argmax())
