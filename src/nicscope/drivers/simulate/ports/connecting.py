"""Connections that have a stream of their own at both ends, rather than one with all of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.ports.timers import keep_time
from nicscope.errors import SimulationError
from nicscope.kernel.decorators import kernel
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.calls import break_connection, report_sent
from nicscope.nic.ports.connection import NO_TROUBLE
from nicscope.nic.ports.layout import CONNECTED, FLUSHED, IDLE, NOBODY
from nicscope.nic.ports.pools import AT_ONCE, BLANK, grow, lacks
from nicscope.nic.ports.verdicts import own_verdict

if TYPE_CHECKING:
    from nicscope.config.delivery import Transport
    from nicscope.drivers.simulate.ports.build import PortSize
    from nicscope.drivers.simulate.ports.state import Ports


REPLACED = 4  # times that the connections of a node may be made anew, unless told otherwise


def with_connections(size: PortSize, transport: Transport) -> PortSize:
    """The same, with streams for as many connections as tags and imports can ask for."""
    if not transport.by_connection or size.connections:
        return size
    return msgspec.structs.replace(size, connections=REPLACED * (size.channels + size.imports))


def connect(ports: Ports, node: int, other: int) -> tuple[int, int]:
    """Give a connection of two nodes its stream; what each of them knows it by.

    That is 0 where all that two nodes send each other goes by one.  A number is never given again:
    a packet that is late must not be taken for one of another connection.
    Errors: ``SimulationError`` if a node has none left.
    """
    if not ports.rules[0]["by_connection"]:
        return 0, 0
    return new_streams(ports, node, other)


def connect_ports(
    ports: Ports, one: tuple[int, int], other: tuple[int, int], level: int, unit: int
) -> None:
    """Make two ports that take ONE receive for each message each other's peers.

    They may be of one node, whose NIC then sends to itself.  ``one`` and ``other``: node and port;
    ``level`` is what the connection promises; ``unit``: bytes of a packet at most.  A port's
    channel has its number.
    Errors: ``SimulationError`` if one of them is connected, or a node has no stream left; then
    nothing has changed.
    """
    for node, port in (one, other):
        if ports.table[node, port]["channel"] != NOBODY:
            raise SimulationError(f"port {port} of node {node} has a connection; end that first")
    streams = new_streams(ports, one[0], other[0])
    for (node, port), (peer, peer_port), known_as in zip(
        (one, other), (other, one), streams, strict=True
    ):
        tie(ports, (node, port), known_as, (peer, peer_port), level, unit)


def tie(
    ports: Ports, one: tuple[int, int], known_as: int, other: tuple[int, int], level: int, unit: int
) -> None:
    """Have one end of a connection be that of a port; the other's, by the stream, need not be."""
    (node, port), (peer, peer_port) = one, other
    stream = stream_at(ports, node, known_as)
    stream["level"] = level
    stream["port"] = port
    channel = ports.channels[node, port]
    channel["sent"] = channel["cut"] = channel["message"] = 0
    channel["port"], channel["node"], channel["tag"] = port, peer, peer_port
    channel["stream"], channel["unit"] = known_as, unit
    channel["placed"] = -1
    record = ports.table[node, port]
    channel["most"] = record["longest"]
    record["channel"], record["level"] = port, level
    record["reading"] = 0
    record["state"] = CONNECTED


def stream_at(ports: Ports, node: int, known_as: int) -> Any:
    """The record of the stream that ``node`` knows by that number."""
    return ports.pools.streams[ports.stream_of[node, known_as]]


def half_made(ports: Ports, node: int, other: int, level: int) -> tuple[int, int]:
    """Two streams of a connection whose other end is deaf yet; what each end knows its own by.

    Errors: ``SimulationError`` if a node has no stream left.
    """
    here, there = new_streams(ports, node, other)
    be_deaf(ports, other, there, level)
    return here, there


def be_deaf(ports: Ports, node: int, known_as: int, level: int) -> None:
    """Have nothing be taken by a stream until it is a port's."""
    deaf = stream_at(ports, node, known_as)
    deaf["dead"], deaf["level"] = 1, level


@kernel
def leave_connection(machine: Any, n: int, p: int, state: int) -> None:
    """Port ``p`` of node ``n`` is in ``state`` from now on, without a connection.

    Nobody is told of a queue pair's end.  What is posted ends as flushed.
    """
    ports = machine.ports
    port = ports.table[n, p]
    break_connection(machine, n, p, state, NO_TROUBLE, own_verdict(port))
    while port.taken < port.posted:
        slot = place_in(port.taken, ports.rules[0].ring)
        port.taken += 1
        report_sent(machine, n, p, slot, FLUSHED)
    keep_time(machine, n)


@kernel
def end_connection(machine: Any, n: int, p: int) -> None:
    """Port ``p`` of node ``n`` ends its connection, as its process wishes; the port is idle then.

    What it has posted ends as flushed, and the other end learns of it.  Call this through
    ``bound``, between two operations of the process.
    """
    break_connection(machine, n, p, IDLE, NO_TROUBLE, FLUSHED)
    keep_time(machine, n)


def new_streams(ports: Ports, node: int, other: int) -> tuple[int, int]:
    """Give two nodes, or one with itself, a stream of its own; what each of them knows it by.

    Errors: ``SimulationError`` if a node has none left.
    """
    here, there = _unused(ports, node, 1)[0], _unused(ports, other, 1 + (node == other))[-1]
    for n, peer, m, known_as in ((node, here, other, there), (other, there, node, here)):
        pool = ports.pool[0]
        if lacks(ports.pools.streams.size, pool["streams"], AT_ONCE + 1):
            grow(ports.pools, ports.pool)
        number = int(pool["streams"])
        ports.pools.streams[number] = ports.pools.streams[BLANK]
        ports.pools.streams[number]["node"] = m
        ports.pools.streams[number]["there"] = known_as
        ports.stream_of[n, peer] = number
        pool["streams"] += 1
    return here, there


def _unused(ports: Ports, node: int, many: int) -> list[int]:
    nodes = len(ports.stream_of)
    used = ports.stream_of[node, nodes:] != BLANK
    free = (~used).nonzero()[0][:many]
    if len(free) < many:
        raise SimulationError(
            f"node {node} has had {used.size} connections with streams of their own, which is all "
            "that it has; give it more (PortSize(connections=...))"
        )
    return [nodes + int(each) for each in free]


class Streams:
    """Those of a cluster's one-sided connections: one for all that two ports ask of each other."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[tuple[int, int, int, int], int] = {}

    def between(self, node: int, port: int, other: int, other_port: int) -> int:
        """What ``node`` knows the stream by of its port and one of ``other``; 0: the nodes' own.

        Errors: ``SimulationError`` if a node has none left.
        """
        key = node, port, other, other_port
        if key not in self._known:
            here, there = connect(self._ports, node, other)
            self._known[key] = here
            self._known[other, other_port, node, port] = there
        return self._known[key]
