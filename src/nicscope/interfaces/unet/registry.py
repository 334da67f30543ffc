"""The operating systems' service that names endpoints and hands out tags (U-Net/MM 4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.ports.connections import connect
from nicscope.errors import SimulationError
from nicscope.host.release import is_tag_at_rest, let_tag_go
from nicscope.interfaces.ports.shared_memory import Rows
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine


@kernel
def _is_at_rest(machine: Any, n: int, p: int, tag: int) -> Any:
    return is_tag_at_rest(machine, n, p, tag)


@kernel
def _let_go(machine: Any, n: int, tag: int) -> Any:
    let_tag_go(machine, n, tag)


Place = tuple[int, int]  # of an endpoint: its node and its port


class End(NamedTuple):
    """One of the two ends of a channel."""

    node: int
    port: int
    tag: int


class Registry:
    """Which endpoints there are, and the channels between them.

    One for the cluster: how the kernels of two nodes agree on a channel is not simulated, so it
    takes no time beyond the caller's system call.
    """

    def __init__(self, machine: Machine, buffer_bytes: int, most_bytes: int) -> None:
        self._ports = machine.ports
        self._buffer_bytes = buffer_bytes
        self._most_bytes = most_bytes
        self._names: dict[tuple[int, str], int] = {}
        self._channels: dict[tuple[Place, Place], tuple[End, End]] = {}
        self._taken: set[tuple[int, int]] = set()
        nodes, tags = self._ports.channels.shape
        self._tags = Rows(nodes, tags, "tags", "channels")
        self._is_at_rest = bound(_is_at_rest, machine)
        self._let_go = bound(_let_go, machine)

    def take_port(self, node: int, own: int, processes: int) -> int:
        """A port of ``node`` for one more endpoint: the process's ``own``, or one of nobody's."""
        many = int(self._ports.table.shape[1])
        port: int
        for port in (own, *range(processes + 1, many)):
            if (node, port) not in self._taken:
                self._taken.add((node, port))
                return port
        raise SimulationError(
            f"node {node} has no endpoint left; give the cluster endpoints={many} or more"
        )

    def is_taken(self, node: int, port: int) -> bool:
        """Whether there is an endpoint at ``port`` of ``node``."""
        return (node, port) in self._taken

    def publish(self, node: int, name: str, port: int) -> None:
        """Let others find the endpoint at ``port`` of ``node`` as ``name``."""
        if (node, name) in self._names:
            raise SimulationError(f"node {node} has an endpoint {name!r} already; close it first")
        self._names[node, name] = port

    def find(self, node: int, name: str) -> int | None:
        """The port of the endpoint ``name`` of ``node``, if it is open."""
        return self._names.get((node, name))

    def names_of(self, node: int) -> list[str]:
        """What the endpoints of ``node`` are found as."""
        return [name for where, name in self._names if where == node]

    def channel(self, node: int, port: int, peer: int, peer_port: int) -> int:
        """The channel of ``node`` between two endpoints; made at both ends if there is none."""
        mine, theirs = (node, port), (peer, peer_port)
        if (mine, theirs) in self._channels:
            return self._channels[mine, theirs][0].tag
        if (theirs, mine) in self._channels:
            return self._channels[theirs, mine][1].tag
        here = self._tags.take(node)
        try:
            there = self._tags.take(peer)
        except SimulationError:
            self._tags.give_back((node, here), once=lambda: True)
            raise
        try:
            streams = connect(self._ports, node, peer)
        except SimulationError:
            self._tags.give_back((node, here), (peer, there), once=lambda: True)
            raise
        ends = End(node, port, here), End(peer, peer_port, there)
        for one, other, stream in zip(ends, ends[::-1], streams, strict=True):
            channel = self._ports.channels[one.node, one.tag]
            channel["stream"] = stream
            channel["port"] = one.port
            channel["node"] = other.node
            channel["tag"] = other.tag
            channel["unit"] = self._buffer_bytes
            channel["most"] = self._most_bytes
            channel["placed"] = -1
        self._channels[mine, theirs] = ends
        return here

    def forget(self, node: int, port: int) -> None:
        """The endpoint has closed: its name is free, and so are its tags at both ends.

        A tag is free once nothing names it: no descriptor, no packet, no message not yet read.
        """
        self._names = {key: at for key, at in self._names.items() if (key[0], at) != (node, port)}
        for key in [*self._channels]:
            if (node, port) in key:
                ends = self._channels.pop(key)
                rows = [(end.node, end.tag) for end in ends]
                self._tags.give_back(*rows, once=partial(self._are_over, ends))
        self._taken.discard((node, port))

    def tags_in_use(self, node: int) -> int:
        """How many tags of ``node`` are registered, or still named."""
        return self._tags.in_use(node)

    def _are_over(self, ends: tuple[End, End]) -> bool:
        """Whether nothing names a channel any more at either end; then it is nobody's."""
        if not all(self._is_at_rest(*end) for end in ends):
            return False
        for end in ends:
            self._let_go(end.node, end.tag)
        return True
