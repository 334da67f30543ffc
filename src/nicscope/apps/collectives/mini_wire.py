"""Collectives over miNI: RDMA writes and reads of registered arrays, named by handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.apps.collectives.mailbox import MailboxWire, not_through

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nicscope.apps.collectives.mailbox import Key
    from nicscope.interfaces.mini import Endpoint as MiniEndpoint, Remote

OUTSTANDING = 32  # descriptors; a queue has 64 places


class MiniWire(MailboxWire):
    """One process with an endpoint of miNI."""

    endpoint: MiniEndpoint

    def __init__(self, endpoint: MiniEndpoint, ranks: int) -> None:
        super().__init__(endpoint, ranks)
        self._posted: dict[int, tuple[int, bool]] = {}  # by number: to whom, and whether a note

    async def _publish(self, buffer: Any, key: Key) -> Hashable:
        return (await self.endpoint.register(buffer, name=_name(self.rank, key))).handle

    async def _find(self, rank: int, key: Key) -> tuple[int, Remote]:
        return rank, await self.endpoint.open(await self.endpoint.find(_name(rank, key)))

    async def _write(
        self,
        there: tuple[int, Remote],
        offset: int,
        buffer: Any,
        *,
        tells: bool = True,
        is_note: bool = False,
    ) -> None:
        if len(self._posted) >= OUTSTANDING:
            await self._end()
        rank, remote = there
        number = await self.endpoint.write(remote, buffer, len(buffer), offset=offset, notify=tells)
        self._posted[number] = rank, is_note

    async def _read(self, there: tuple[int, Remote], offset: int, buffer: Any) -> None:
        rank, remote = there
        number = await self.endpoint.read(remote, buffer, len(buffer), offset=offset)
        self._posted[number] = rank, False
        await self.settle()

    async def _heard(self) -> tuple[int, Hashable, int, int]:
        came = await self.endpoint.stored()
        return came.node, came.handle, came.offset, came.length

    async def settle(self) -> None:
        """Wait until all descriptors of arrays have ended."""
        while not all(is_note for _, is_note in self._posted.values()):
            await self._end()

    async def _drain(self) -> None:
        while self._posted:
            await self._end()

    async def _end(self) -> None:
        ended = await self.endpoint.done()
        rank, _ = self._posted.pop(ended.request)
        if not ended.ok:
            raise not_through(self.rank, rank, ended.status)


def _name(rank: int, key: Key) -> str:
    return f"array {key.first} of {rank}"
