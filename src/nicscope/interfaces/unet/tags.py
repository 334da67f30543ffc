"""Message tags: how a network names where messages come from and go to (U-Net/MM 4).

The firmware knows channels of a node by number; a program knows the tag that its network has for
one.  What a network's tags look like is the only thing that a ``TagForm`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

NO_CHANNEL = -1


class TagForm(Protocol):
    """What tags are on one kind of network."""

    def tag(self, node: int, channel: int) -> Hashable:
        """The tag by which programs on ``node`` know its ``channel``."""

    def channel(self, node: int, tag: object) -> int:
        """The channel of ``node`` that ``tag`` names; negative if it is no such tag."""


class AtmCircuits:
    """Virtual circuit identifiers: a number from 32 on, as lower ones are the network's own."""

    first = 32  # ITU-T I.361: VCI 0 to 31 are reserved

    def tag(self, node: int, channel: int) -> int:  # noqa: ARG002 - as on any node
        """The VCI of a channel."""
        return self.first + channel

    def channel(self, node: int, tag: object) -> int:  # noqa: ARG002 - as on any node
        """The channel with this VCI."""
        return tag - self.first if type(tag) is int else NO_CHANNEL


class EthernetTag(NamedTuple):
    """A station and a U-Net port on it."""

    station: str
    port: int


class EthernetPorts:
    """An Ethernet address and a port number, as on the DC21140 (U-Net/MM 5.2)."""

    def tag(self, node: int, channel: int) -> EthernetTag:
        """The station's address, here by its number, and the port."""
        return EthernetTag(_station(node), channel)

    def channel(self, node: int, tag: object) -> int:
        """The channel of that port, if the tag was made for this node."""
        if isinstance(tag, EthernetTag) and tag.station == _station(node):
            return tag.port
        return NO_CHANNEL


def _station(node: int) -> str:
    return f"02:00:00:00:{node >> 8:02x}:{node & 255:02x}"
