"""A process on a host whose NIC serves VIs, as its NIC and its kernel agent call it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.driven import TIME, Ended
from nicscope.drivers.simulate.machine import CHAIN
from nicscope.drivers.simulate.yielding import coroutine
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.via.names import Return, VipError
from nicscope.nic.ports.layout import SENT

MOST_BEFORE = CHAIN - 1  # what the process asks next is the last of the chain

if TYPE_CHECKING:
    from collections.abc import Generator

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.driven import Record
    from nicscope.interfaces.buffers import Room
    from nicscope.interfaces.via.cluster import Cluster


class Process(ports.Process):
    """A process, with VIPL's errors."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, driven: Driven, number: int) -> None:
        super().__init__(cluster, driven, number)
        refused = partial(VipError, Return.VIP_INVALID_PARAMETER)
        self._before: list[bytes] = []
        self._has_store = False  # among them
        self._owner = Owner(self._owner.name, cluster.simulation, driven, refused)

    def _held(self) -> list[tuple[int, int, str]]:
        regions = self.cluster.kernels[self.node].regions.values()
        return [
            (each.address, each.length, "it is registered; deregister_mem() it first")
            for each in regions
            if each._owner is self._owner
        ]

    async def _free(self, room: Room) -> None:
        await self.settle()
        await super()._free(room)

    # Stores and posts say no more than that they have ended.  So they wait for what the process
    # asks next, and go before it, in one crossing to the driver.

    def behind(self, what: bytes) -> bytes:
        """The request for all that was put before, and then for ``what``."""
        before = self._before
        if not before:
            return what
        before.append(what)
        chain = self._driven.chain(before)
        before.clear()
        self._has_store = False
        return chain

    async def ask(
        self, operation: int, peer: int = 0, payload: int = 0, address: int = 0, duration: int = 0
    ) -> Ended:
        """Begin an operation, behind what was put before, and wait for its end."""
        what = self._driven.request(operation, peer, payload, 0, address, duration)
        return await self._end_of(self.behind(what))

    @coroutine
    def _end_of(self, what: bytes) -> Generator[bytes, Record, Ended]:
        ended = Ended._make((yield what))
        self._driven.now = ended.time
        return ended

    @coroutine
    def settle(self) -> Generator[bytes, Record, None]:
        """Have what was put before ended."""
        if self._before:
            last = self._before.pop()
            ended = yield self.behind(last)
            self._driven.now = ended[TIME]

    def reports(self, port: int, ring: int) -> int:
        """How many reports of a port the process can see and has not taken."""
        record: Any = self._ports.table[self.node, port]
        taken = int(record["reaped" if ring == SENT else "read"])
        if self._windows is not None:
            return int(self._machine.bus.shown[self.node, port, ring]) - taken
        return int(record["reported" if ring == SENT else "received"]) - taken
