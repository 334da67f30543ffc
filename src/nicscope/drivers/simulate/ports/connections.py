"""Streams of connections and datagrams: set up, and reused once they are quiet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.clock import NEVER
from nicscope.drivers.simulate.ports.thread import schedule_timer
from nicscope.errors import SimulationError
from nicscope.kernel.decorators import kernel
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import break_connection, report_sent
from nicscope.nic.ports.connection import NO_ASYNC_ERROR
from nicscope.nic.ports.streams import AT_ONCE, BLANK, NO_ENTRY, grow, lacks
from nicscope.nic.ports.work_queues import local_error_verdict

if TYPE_CHECKING:
    from typing import Any

    from nicscope.config.design import Transport
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
        if ports.table[node, port]["channel"] != layout.NOBODY:
            raise SimulationError(f"port {port} of node {node} has a connection; end that first")
    streams = new_streams(ports, one[0], other[0])
    for (node, port), (peer, peer_port), stream_number in zip(
        (one, other), (other, one), streams, strict=True
    ):
        attach_port(ports, (node, port), stream_number, (peer, peer_port), level, unit)


def attach_port(
    ports: Ports,
    one: tuple[int, int],
    stream_number: int,
    other: tuple[int, int],
    level: int,
    unit: int,
) -> None:
    """Attaches one end of a connection to a port; the other end may have none yet."""
    (node, port), (peer, peer_port) = one, other
    stream = stream_at(ports, node, stream_number)
    stream["level"] = level
    stream["port"] = port
    channel = ports.channels[node, port]
    channel["sent"] = channel["cut"] = channel["message"] = 0
    channel["port"], channel["node"], channel["tag"] = port, peer, peer_port
    channel["stream"], channel["unit"] = stream_number, unit
    channel["placed"] = -1
    record = ports.table[node, port]
    channel["most"] = record["longest"]
    record["channel"], record["level"] = port, level
    record["reading"] = 0
    record["state"] = layout.CONNECTED


def stream_at(ports: Ports, node: int, stream_number: int) -> Any:
    """The record of the stream that ``node`` knows by that number."""
    return ports.pools.streams[ports.stream_of[node, stream_number]]


def new_half_connection(ports: Ports, node: int, other: int, level: int) -> tuple[int, int]:
    """Creates the streams of a connection whose other end is muted; returns both ends' numbers.

    Errors: ``SimulationError`` if a node has no stream left.
    """
    here, there = new_streams(ports, node, other)
    mute_stream(ports, other, there, level)
    return here, there


def mute_stream(ports: Ports, node: int, stream_number: int, level: int) -> None:
    """Has a stream take nothing until it is attached to a port."""
    deaf = stream_at(ports, node, stream_number)
    deaf["dead"], deaf["level"] = 1, level


@kernel
def leave_connection(machine: Any, n: int, p: int, state: int) -> None:
    """Puts port ``p`` of node ``n`` into ``state``, without a connection.

    Nobody is told of a queue pair's end.  What is posted ends as flushed.
    """
    ports = machine.ports
    port = ports.table[n, p]
    break_connection(machine, n, p, state, NO_ASYNC_ERROR, local_error_verdict(port))
    while port.taken < port.posted:
        slot = place_in(port.taken, ports.rules[0].ring)
        port.taken += 1
        report_sent(machine, n, p, slot, layout.FLUSHED)
    schedule_timer(machine, n)


@kernel
def end_connection(machine: Any, n: int, p: int) -> None:
    """Port ``p`` of node ``n`` ends its connection, as its process wishes; the port is idle then.

    What it has posted ends as flushed, and the other end learns of it.  Call this through
    ``bound``, between two operations of the process.
    """
    break_connection(machine, n, p, layout.IDLE, NO_ASYNC_ERROR, layout.FLUSHED)
    schedule_timer(machine, n)


def new_streams(ports: Ports, node: int, other: int) -> tuple[int, int]:
    """Give two nodes, or one with itself, a stream of its own; what each of them knows it by.

    Errors: ``SimulationError`` if a node has none left.
    """
    here, there = _unused(ports, node, 1)[0], _unused(ports, other, 1 + (node == other))[-1]
    for n, peer, m, stream_number in ((node, here, other, there), (other, there, node, here)):
        pool = ports.pool[0]
        if lacks(ports.pools.streams.size, pool["streams"], AT_ONCE + 1):
            grow(ports.pools, ports.pool)
        number = int(pool["streams"])
        ports.pools.streams[number] = ports.pools.streams[BLANK]
        ports.pools.streams[number]["node"] = m
        ports.pools.streams[number]["there"] = stream_number
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


def open_datagrams(ports: Ports, node: int, port: int, qkey: int, unit: int) -> None:
    """Have a port that takes ONE receive for each message send datagrams, and take such.

    ``qkey``: 64 bits that a datagram for it must show; ``unit``: bytes of one at most.  Errors:
    ``SimulationError`` if it has a connection.  ``end_connection`` ends it.
    """
    record = ports.table[node, port]
    if record["channel"] != layout.NOBODY:
        raise SimulationError(f"port {port} of node {node} has a connection; end that first")
    channel = ports.channels[node, port]
    channel["sent"] = channel["cut"] = channel["message"] = channel["stream"] = 0
    channel["port"], channel["node"], channel["tag"] = port, layout.NOBODY, layout.NOBODY
    channel["unit"] = channel["most"] = unit
    channel["placed"] = -1
    record["datagrams"], record["qkey"], record["longest"] = 1, qkey, unit
    record["channel"], record["level"], record["state"] = port, layout.UNRELIABLE, layout.CONNECTED
    record["reading"] = 0


class DatagramStreams:
    """The datagram streams of a cluster, one for each pair of nodes, also a node with itself."""

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
            for (here, there), stream_number in zip(where, ends, strict=True):
                self._open(here, there, stream_number)
            self._known[other, node] = ends[1]
            self._known[node, other] = ends[0]
        return self._known[node, other]

    def _open(self, node: int, other: int, stream_number: int) -> None:
        stream = self._ports.pools.streams[self._ports.stream_of[node, stream_number]]
        tag = self._unused_tag(node)
        stream["level"], stream["channel"] = layout.UNRELIABLE, tag
        channel = self._ports.channels[node, tag]
        channel["node"], channel["stream"] = other, stream_number
        channel["unit"], channel["placed"] = 1 << self._ports.rules[0]["page_bits"], -1

    def _unused_tag(self, node: int, first: int = 0) -> int:
        """A tag of the node, behind those that connections of its ports have."""
        channels = self._ports.channels[node]
        free = (channels["stream"] == 0) & (channels["port"] == layout.NOBODY)
        free[: max(first, self._ports.table.shape[1])] = False
        if not bool(free.any()):
            raise SimulationError(
                f"node {node} has no tag left for datagrams from another node; give it more "
                "(PortSize(channels=...))"
            )
        return int(free.argmax())


# Assumed: longer than a packet is on its way and in the rings of two NICs, which is milliseconds.
QUIET_PS = 100 * 10**9
COUNTED = ("sent", "resent", "time_outs", "forgotten", "duplicates", "gaps", "refused", "acks")

End = tuple[int, int]  # a node, and what that knows a stream by


class Ended(NamedTuple):
    """A connection both of whose ends have left."""

    since: int  # ps
    one: End
    two: End


class Retired:
    """The streams of a cluster's connections: those with an end in use, and those without."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._other: dict[End, End] = {}
        self._left: set[End] = set()  # whose other end lives
        self._ended: dict[tuple[int, int], deque[Ended]] = {}  # by nodes, the lower number first

    def begin(self, one: End, two: End) -> None:
        """A connection has been given two streams."""
        self._other[one], self._other[two] = two, one

    def leave(self, end: End, is_last: bool, now: int) -> None:
        """An end has left its connection; ``is_last``: the other never was anybody's."""
        other = self._other[end]
        if not is_last and other not in self._left:
            self._left.add(end)
            return
        self._left.discard(other)
        del self._other[end], self._other[other]
        one, two = sorted((end, other))
        self._ended.setdefault((one[0], two[0]), deque()).append(Ended(now, one, two))

    def quiet_at(self, node: int, other: int) -> int | None:
        """When the streams of the longest ended connection of two nodes are quiet (ps)."""
        ended = self._ended.get((min(node, other), max(node, other)))
        return ended[0].since + QUIET_PS if ended else None

    def again(self, node: int, other: int, now: int) -> tuple[int, int] | None:
        """The streams of a connection of two nodes that has ended, as new; None if none is quiet.

        What they have counted stays.
        """
        ended = self._ended.get((min(node, other), max(node, other)), deque())
        for _ in range(len(ended)):
            found = ended.popleft()
            if found.since + QUIET_PS <= now and self._is_quiet(found):
                for end, there in ((found.one, found.two), (found.two, found.one)):
                    self._renew(end, there)
                one, two = (found.one, found.two)
                if one[0] != node:
                    one, two = two, one
                return one[1], two[1]
            ended.append(found)
        return None

    def _is_quiet(self, found: Ended) -> bool:
        return all(
            stream["urgent"] == 0
            and stream["retransmitting"] == 0
            and stream["retransmit_at"] == NEVER
            and stream["oldest_kept"] == NO_ENTRY
            for stream in (stream_at(self._ports, *end) for end in (found.one, found.two))
        )

    def _renew(self, end: End, there: End) -> None:
        stream: Any = stream_at(self._ports, *end)
        counted = [int(stream[name]) for name in COUNTED]
        self._ports.pools.streams[self._ports.stream_of[end]] = self._ports.pools.streams[BLANK]
        stream["node"], stream["there"] = there
        for name, value in zip(COUNTED, counted, strict=True):
            stream[name] = value
