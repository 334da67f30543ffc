"""Remote memory of VMMC and of miNI under the same names: what both have, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from nicscope.interfaces import mini, vmmc
    from nicscope.interfaces.ports.buffers import Buffer


class Heard(NamedTuple):
    """A remote write that was to be heard of has ended here."""

    node: int
    offset: int
    length: int


class RemoteMemory(ABC):
    """Of one process: its buffers for others, and theirs."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self._statuses: dict[int, str] = {}
        self._is_heard = False  # a task is told of the next end
        self._next_end = Gate()

    @abstractmethod
    async def export(self, buffer: Buffer, name: str) -> None:
        """Let others write and read ``buffer``."""

    @abstractmethod
    async def find(self, node: int, name: str) -> Any:
        """What ``node`` lets others write and read as ``name``, once it does."""

    @abstractmethod
    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Begin to write ``buffer[at:at + length]`` to ``offset`` there; its number."""

    @abstractmethod
    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Begin to read what lies ``at`` there into the same place of ``buffer``; its number."""

    @abstractmethod
    async def heard(self) -> Heard:
        """The next write from elsewhere that was to be heard of."""

    async def ended(self, number: int) -> str:
        """How an operation ended, once it has.  Tasks may wait for several at a time.

        One of them is told of the next end, whoever's it is, and has the others look.
        """
        while number not in self._statuses:
            if self._is_heard:
                await self._next_end.wait(self.endpoint)
                continue
            self._is_heard = True
            try:
                done = await self.endpoint.done()
            finally:
                self._is_heard = False
            self._statuses[done.request] = done.status
            told, self._next_end = self._next_end, Gate()
            told.open()
        return self._statuses.pop(number)


class VmmcMemory(RemoteMemory):
    """By export, import, remote store and remote fetch."""

    endpoint: vmmc.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Export it to all."""
        await self.endpoint.export(buffer, name)

    async def find(self, node: int, name: str) -> vmmc.Imported:
        """Import it."""
        return await self.endpoint.import_buffer(node, name)

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post a remote store, with a notification if it is to be heard of."""
        transfer = await self.endpoint.store(to, buffer, offset, at=at, length=length, notify=heard)
        return transfer.number

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post a remote fetch."""
        return (await self.endpoint.fetch(of, buffer, at, at=at, length=length)).number

    async def heard(self) -> Heard:
        """The next notification."""
        said = await self.endpoint.notification("block")
        return Heard(said.node, said.offset, said.length)


class MiniMemory(RemoteMemory):
    """By registered buffers, remote write and remote read."""

    endpoint: mini.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Register it under a name that says whose it is."""
        await self.endpoint.register(buffer, name=_of_node(self.endpoint.node, name))

    async def find(self, node: int, name: str) -> mini.Remote:
        """Find and open it."""
        return await self.endpoint.open(await self.endpoint.find(_of_node(node, name)))

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post an RDMA write."""
        return await self.endpoint.write(to, buffer, length, offset=offset, at=at, notify=heard)

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post an RDMA read."""
        return await self.endpoint.read(of, buffer, length, offset=at, at=at)

    async def heard(self) -> Heard:
        """The next write that has come to a buffer of this process."""
        said = await self.endpoint.stored("block")
        return Heard(said.node, said.offset, said.length)


def _of_node(node: int, name: str) -> str:
    return f"{name} of node {node}"
