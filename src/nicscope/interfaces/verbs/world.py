"""The simulated node that programs of verbs run on: one device, its name and its addresses.

Whoever runs programs chooses the device with ``use``; a program that is run by itself gets the
default one when it first asks for anything.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.interfaces.verbs.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs_device.calls import Facts

DEVICE = "nicscope"
GID_SLOTS = 8
NIC_ID = 0x020000FFFE000000  # an EUI-64 of locally administered addresses, below which nodes count


class Gid(NamedTuple):
    """An entry of the table of addresses: both are RoCE v2's."""

    slot: int
    raw: bytes


class World:
    """A node and its device, as the programs on it see them."""

    def __init__(self, device: Any, node: int = 0, name: str | None = None) -> None:
        self.device = device
        self.node = node
        self.heap = Heap(device)
        self.name = f"{DEVICE}{node}" if name is None else name
        self.guid = NIC_ID + node + 1
        self.contexts: weakref.WeakValueDictionary[int, Context] = weakref.WeakValueDictionary()
        self.listeners: dict[tuple[str, int], CMID] = {}  # of connections, by name and service
        self.domains: dict[tuple[int, int], tuple[int, int]] = {}  # of a file: handle and holders

    @property
    def facts(self) -> Facts:
        """What the device can do."""
        facts: Facts = self.device.facts
        return facts

    def gids(self) -> Iterator[Gid]:
        """The addresses of the port: of its link, and of IPv4."""
        local = (0xFE80 << 112) | (self.guid ^ (1 << 57))
        yield Gid(0, local.to_bytes(16, "big"))
        yield Gid(1, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, self.node + 1]))

    def gid(self, index: int) -> bytes:
        """The address at ``index``; zeros in an empty slot."""
        return next((gid.raw for gid in self.gids() if gid.slot == index), bytes(16))


_current: list[World] = []


def use(world: World | None) -> None:
    """Have programs run on ``world`` from now on; None: on a new default one, once they ask."""
    _current[:] = [] if world is None else [world]


def here() -> World:
    """The world of the program that runs."""
    if not _current:
        from nicscope.interfaces.verbs_device.device import Device

        _current.append(World(Device()))
    return _current[0]
