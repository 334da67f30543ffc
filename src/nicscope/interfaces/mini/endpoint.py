"""A miNI process's end of its connections: registered buffers, remote writes and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.drivers.simulate.machine import COMPUTE, REGISTER
from nicscope.errors import SimulationError
from nicscope.interfaces.mini.handles import BufferHandle, Remote
from nicscope.interfaces.ports.process import Process
from nicscope.nic.ports import DONE, FETCH, MAY_FETCH, MAY_WRITE, STATUS_NAMES, WRITE

if TYPE_CHECKING:
    from nicscope.drivers.simulate.programs import Process as Driven
    from nicscope.interfaces.mini.cluster import Cluster
    from nicscope.interfaces.ports.process import Buffer

RIGHTS = {"read": MAY_FETCH, "write": MAY_WRITE, "both": MAY_FETCH | MAY_WRITE}


class Region(NamedTuple):
    """A registered buffer of this process."""

    handle: BufferHandle
    buffer: Buffer


class Stored(NamedTuple):
    """Data has come to a registered buffer, all of it."""

    handle: BufferHandle
    offset: int
    length: int
    node: int  # where it came from


class Endpoint(Process):
    """One process: three queues on the NIC, and what goes through them."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, driven: Driven, number: int) -> None:
        super().__init__(cluster, driven, number)
        self.process_handle = cluster.directory.add(self)

    async def register(
        self,
        buffer: Buffer,
        rights: str = "both",
        *,
        only: int | None = None,
        name: str | None = None,
    ) -> Region:
        """Have ``buffer`` known under a handle; others may ``read`` or ``write`` it, or both.

        ``only`` names the process (its handle) that may open it; under ``name`` others can find
        it.  Nothing is pinned until it is used, but by static tables.  Errors:
        ``SimulationError`` if there is no room for another buffer, or no translation for it.
        """
        if rights not in RIGHTS:
            raise SimulationError(f"no rights {rights!r}; there are {', '.join(RIGHTS)}")
        directory = self.cluster.directory
        if not self.cluster.is_dynamic:
            ended = await self._driven.ask(
                REGISTER, peer=self.port, address=buffer.address, payload=len(buffer)
            )
            if ended.address != DONE:
                raise SimulationError(
                    f"cannot register {len(buffer)} bytes on node {self.node}: "
                    f"{STATUS_NAMES[ended.address]}"
                )
        else:
            await self._call()
        handle = directory.export(self, buffer, RIGHTS[rights], only)
        if name is not None:
            directory.publish(name, handle)
        return Region(handle, buffer)

    async def unregister(self, region: Region) -> None:
        """Nobody can use ``region`` any more: what is on its way is rejected."""
        await self._call()
        self.cluster.directory.withdraw(region.handle)

    async def find(self, name: str, every_us: float = 50.0) -> BufferHandle:
        """The handle that some process has published, once it has."""
        while (handle := self.cluster.directory.published(name)) is None:
            await self.sleep(every_us)
        return handle

    async def open(self, handle: BufferHandle) -> Remote:
        """Connect to the buffer of ``handle``, so that operations can name it.

        Errors: ``SimulationError`` if there is none, or not for this process.
        """
        await self._call()
        return self.cluster.directory.open(self, handle)

    async def write(
        self, remote: Remote, source: Buffer, length: int | None = None, *,
        offset: int = 0, at: int = 0, notify: bool = True,
    ) -> int:  # fmt: skip
        """Post an RDMA write of ``source[at:at+length]`` to ``offset`` of ``remote``; its number.

        The source's memory handle is in the descriptor; the other side's is the start of the
        buffer plus ``offset``.  ``notify``: its owner hears of it (``stored``).
        """
        size = len(source) - at if length is None else length
        self._check(source, at, size)
        return await self.post(
            WRITE, remote.place, [(source.address + at, size)], offset=offset, notify=notify
        )

    async def read(
        self, remote: Remote, into: Buffer, length: int | None = None, *,
        offset: int = 0, at: int = 0,
    ) -> int:  # fmt: skip
        """Post an RDMA read of ``remote`` from ``offset`` to ``into[at:]``; its number."""
        size = len(into) - at if length is None else length
        self._check(into, at, size)
        return await self.post(FETCH, remote.place, [(into.address + at, size)], offset=offset)

    async def stored(self, mode: str = "poll") -> Stored:
        """The next write to a buffer of this process, when all of it has come."""
        arrival = await self.arrival(mode)
        handle = BufferHandle(arrival.name, self.process_handle)
        return Stored(handle, arrival.offset, arrival.length, arrival.node)

    async def _call(self) -> None:
        """Spend a system call: the driver changes a table in the host's memory."""
        cost = int(self._ports.costs[self.node]["system_call"])
        if cost:
            await self._driven.ask(COMPUTE, duration=cost)

    @staticmethod
    def _check(buffer: Buffer, at: int, size: int) -> None:
        if at < 0 or size < 1 or at + size > len(buffer):
            raise SimulationError(f"bytes {at} to {at + size} are not in a buffer of {len(buffer)}")
