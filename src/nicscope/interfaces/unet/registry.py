"""The operating systems' service that names endpoints and hands out tags (U-Net/MM 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.nic.ports import NOBODY

if TYPE_CHECKING:
    from nicscope.drivers.simulate.ports.state import Ports


class Registry:
    """Which endpoints there are, and the channels between them.

    One for the cluster: how the kernels of two nodes agree on a channel is not simulated, so it
    takes no time beyond the caller's system call.
    """

    def __init__(self, ports: Ports, buffer_bytes: int, most_bytes: int) -> None:
        self._ports = ports
        self._buffer_bytes = buffer_bytes
        self._most_bytes = most_bytes
        self._names: dict[tuple[int, str], int] = {}
        self._channels: dict[tuple[int, int, int, int], int] = {}  # node, port, of both ends
        self._taken: set[tuple[int, int]] = set()

    def take_port(self, node: int, own: int, processes: int) -> int:
        """A port of ``node`` for one more endpoint: the process's ``own``, or one of nobody's."""
        many = int(self._ports.table.shape[1])
        port: int
        for port in (own, *range(processes + 1, many)):
            if (node, port) not in self._taken:
                self._taken.add((node, port))
                return port
        raise SimulationError(
            f"node {node} has no endpoint left; give the cluster more than {many - 1} endpoints"
        )

    def publish(self, node: int, name: str, port: int) -> None:
        """Let others find the endpoint at ``port`` of ``node`` as ``name``."""
        if (node, name) in self._names:
            raise SimulationError(f"node {node} has an endpoint {name!r} already; close it first")
        self._names[node, name] = port

    def find(self, node: int, name: str) -> int | None:
        """The port of the endpoint ``name`` of ``node``, if it is open."""
        return self._names.get((node, name))

    def channel(self, node: int, port: int, peer: int, peer_port: int) -> int:
        """The channel of ``node`` between two endpoints; made at both ends if there is none."""
        known = self._channels.get((node, port, peer, peer_port))
        if known is not None:
            return known
        here = self._free_channel(node)
        self._ports.channels[node, here]["port"] = port
        there = self._free_channel(peer)
        for one, other in (
            ((node, port, here), (peer, peer_port, there)),
            ((peer, peer_port, there), (node, port, here)),
        ):
            channel = self._ports.channels[one[0], one[2]]
            channel["port"] = one[1]
            channel["node"] = other[0]
            channel["tag"] = other[2]
            channel["unit"] = self._buffer_bytes
            channel["most"] = self._most_bytes
            channel["placed"] = -1
            self._channels[(*one[:2], *other[:2])] = one[2]
        return here

    def _free_channel(self, node: int) -> int:
        for number, port in enumerate(self._ports.channels["port"][node].tolist()):
            if port == NOBODY:
                return number
        raise SimulationError(
            f"node {node} has all its {self._ports.channels.shape[1]} tags registered; give the "
            "cluster a size with more channels"
        )

    def forget(self, node: int, port: int) -> None:
        """The endpoint has closed: its name and its tags are free."""
        self._names = {key: at for key, at in self._names.items() if (key[0], at) != (node, port)}
        self._channels = {
            key: number
            for key, number in self._channels.items()
            if (node, port) not in (key[:2], key[2:])
        }
        self._taken.discard((node, port))
