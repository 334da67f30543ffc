"""Collectives over VMMC: remote stores into exported arrays, remote fetches out of them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.apps.collectives.mailbox import MailboxWire, not_through

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nicscope.apps.collectives.mailbox import Key
    from nicscope.interfaces.vmmc import Endpoint as VmmcEndpoint, Imported, Transfer

OUTSTANDING = 24  # transfers of either kind; a command queue has 64 places


class VmmcWire(MailboxWire):
    """One process with an endpoint of VMMC."""

    endpoint: VmmcEndpoint

    def __init__(self, endpoint: VmmcEndpoint, ranks: int) -> None:
        super().__init__(endpoint, ranks)
        self._notes: deque[tuple[int, Transfer]] = deque()
        self._puts: deque[tuple[int, Transfer]] = deque()

    async def _publish(self, buffer: Any, key: Key) -> Hashable:
        return (await self.endpoint.export(buffer, f"array {key.first}")).name

    async def _find(self, rank: int, key: Key) -> Imported:
        return await self.endpoint.import_buffer(rank, f"array {key.first}")

    async def _write(
        self,
        there: Imported,
        offset: int,
        buffer: Any,
        *,
        tells: bool = True,
        is_note: bool = False,
    ) -> None:
        posted = self._notes if is_note else self._puts
        if len(posted) >= OUTSTANDING:
            await self._end(*posted.popleft())
        transfer = await self.endpoint.store(there, buffer, offset, notify=tells)
        posted.append((there.node, transfer))

    async def _read(self, there: Imported, offset: int, buffer: Any) -> None:
        transfer = await self.endpoint.fetch(there, buffer, offset, length=len(buffer))
        await self._end(there.node, transfer)

    async def _heard(self) -> tuple[int, Hashable, int, int]:
        came = await self.endpoint.notification()
        return came.node, came.name, came.offset, came.length

    async def settle(self) -> None:
        """Wait until all stores of arrays have ended."""
        while self._puts:
            await self._end(*self._puts.popleft())

    async def _drain(self) -> None:
        await self.settle()
        while self._notes:
            await self._end(*self._notes.popleft())

    async def _end(self, rank: int, transfer: Transfer) -> None:
        ended = await self.endpoint.wait(transfer)
        if not ended.ok:
            raise not_through(self.rank, rank, ended.status)
