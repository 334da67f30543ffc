"""What a VMMC program calls: export, import, remote store, remote fetch, redirection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.machine import COMPUTE, GIVE_UP, REGISTER, UNPIN
from nicscope.errors import SimulationError
from nicscope.interfaces.ports.process import Buffer, Process
from nicscope.interfaces.vmmc.buffers import (
    Allowed,
    Exported,
    Imported,
    free_place,
    may_import,
    rights_of,
    write_export,
    write_import,
)
from nicscope.interfaces.vmmc.pinned import BUSY, FREE, IDLE, PinBook, PinnedPage
from nicscope.nic.ports import DONE, FETCH, NOBODY, STATUS_NAMES, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.drivers.simulate.programs import Process as Driven
    from nicscope.interfaces.vmmc.cluster import Cluster

WORD_BITS = 32  # of the library's bit array
ASK_AGAIN_US = 20.0  # assumed: how often an importer asks whether the buffer is exported yet
PATIENCE_US = 1e6


class LocalBuffer(Buffer):
    """A stretch of the process's own memory."""

    process: Endpoint

    async def write(self, content: bytes, offset: int = 0) -> None:
        """Store ``content`` with the CPU; page faults take their time."""
        self._check(offset, len(content))
        # an endpoint's own ``store`` is the remote one
        await Process.store(self.process, self.address + offset, content)


class Transfer(NamedTuple):
    """A remote store or fetch that has been posted."""

    number: int
    operation: str  # "remote store" or "remote fetch"


class Completion(NamedTuple):
    """How a transfer ended."""

    transfer: Transfer
    status: str  # "done", or what was wrong

    @property
    def ok(self) -> bool:
        """Whether it did what it should."""
        return self.status == "done"


class Notification(NamedTuple):
    """A remote store has ended in a buffer of this process."""

    name: str
    node: int  # whose it was
    offset: int
    length: int


class Endpoint(Process):
    """One process on a VMMC node: its command buffer, its user library, and its buffers."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, driven: Driven, number: int) -> None:
        super().__init__(cluster, driven, number)
        assert cluster.simulation is not None
        self.policy: Callable[[Sequence[PinnedPage]], int] | None = None
        """The application's own replacement policy: the page to unpin, of those it is handed."""
        self._book = PinBook(cluster.simulation.machine, self.node, self.number)
        self._ended: dict[int, str] = {}
        self._posted: list[Transfer] = []
        self._reaped = 0
        self._redirected: dict[int, Buffer] = {}

    # -- buffers ---------------------------------------------------------------------------------

    async def export(
        self,
        buffer: Buffer,
        name: str,
        allow: Allowed = None,
        *,
        store: bool = True,
        fetch: bool = True,
    ) -> Exported:
        """Let ``buffer`` be imported as ``name``: a system call, which has its pages pinned.

        ``allow``: a node, a ``(node, process)``, or None for anybody.  Errors:
        ``SimulationError`` if the name is taken or the pages cannot be pinned.
        """
        if (self.node, name) in self.cluster.exports:
            raise SimulationError(f"node {self.node} exports {name!r} already; take another name")
        await self._pin_for_good(buffer, f"export {name!r}")
        number = free_place(self._ports, "exports", self.node)
        exported = Exported(self.node, number, name, buffer, allow, rights_of(store, fetch))
        write_export(self._ports, exported, self.port)
        self.cluster.exports[self.node, name] = exported
        return exported

    async def unexport(self, exported: Exported) -> None:
        """Take the buffer back: transfers that come later are rejected."""
        if self.cluster.exports.get((self.node, exported.name)) != exported:
            raise SimulationError(f"{exported.name!r} is not exported by node {self.node}")
        del self.cluster.exports[self.node, exported.name]
        record = self._ports.exports[self.node, exported.number]
        record["valid"] = 0
        record["epoch"] += 1
        await self._give_up(exported.buffer)
        await self._give_up(self._redirected.pop(exported.number, None))

    async def import_buffer(
        self, node: int, name: str, patience_us: float = PATIENCE_US
    ) -> Imported:
        """Gain access to what ``node`` exports as ``name``, waiting until it does.

        Errors: ``SimulationError`` if this process is not allowed to, or patience ends.
        """
        await self._driven.ask(COMPUTE, duration=self._cost("system_call"))
        until = self.now_us + patience_us
        while (exported := self.cluster.exports.get((node, name))) is None:
            if self.now_us >= until:
                raise SimulationError(
                    f"node {node} has not exported {name!r} in {patience_us:g} us; "
                    "check the name, or have it exported first"
                )
            await self.sleep(ASK_AGAIN_US)
        if not may_import(exported.allow, self.node, self.number):
            raise SimulationError(
                f"process {self.number} of node {self.node} may not import {name!r} of node "
                f"{node}; it is exported to {exported.allow}"
            )
        number = free_place(self._ports, "imports", self.node)
        imported = Imported(number, node, name, exported.buffer.length)
        write_import(self._ports, imported, self.node, self.port, exported)
        return imported

    def release(self, imported: Imported) -> None:
        """Give an import up; its place in the NIC's table is free again."""
        self._ports.imports[self.node, imported.number]["port"] = NOBODY

    async def redirect(self, exported: Exported, buffer: Buffer | None) -> None:
        """Have what comes for ``exported`` placed in ``buffer`` instead; None: no longer.

        The new place must be as long and begin at the same byte of a page.  The library pins it.
        """
        page_size = self._memory.page_size
        if buffer is not None:
            own = exported.buffer
            if buffer.length < own.length or (buffer.address - own.address) % page_size:
                raise SimulationError(
                    f"{exported.name!r} cannot be redirected to {buffer.length} bytes at "
                    f"{buffer.address:#x}: it takes {own.length}, at the same byte of a page"
                )
            await self._pin_for_good(buffer, f"redirect {exported.name!r}")
        record = self._ports.exports[self.node, exported.number]
        record["redirect"] = -1 if buffer is None else buffer.address
        await self._give_up(self._redirected.pop(exported.number, None))
        if buffer is not None:
            self._redirected[exported.number] = buffer

    def allocate(self, byte_count: int) -> Buffer:
        """Fresh memory that begins at a page: zeros, without a frame until it is touched."""
        fresh = super().allocate(byte_count)
        return LocalBuffer(self, fresh.address, fresh.length)

    # -- transfers -------------------------------------------------------------------------------

    async def store(  # type: ignore[override]
        self,
        imported: Imported,
        buffer: Buffer,
        offset: int = 0,
        *,
        at: int = 0,
        length: int | None = None,
        notify: bool = False,
    ) -> Transfer:
        """Post a remote store of ``buffer``, from byte ``at`` on, to ``offset`` of the other."""
        return await self._transfer(WRITE, imported, buffer, offset, at, length, notify)

    async def fetch(
        self,
        imported: Imported,
        buffer: Buffer,
        offset: int = 0,
        *,
        at: int = 0,
        length: int | None = None,
    ) -> Transfer:
        """Post a remote fetch into ``buffer``, from byte ``at`` on, of ``offset`` of the other.

        As many bytes as the smaller of the two has left, or ``length``.
        """
        return await self._transfer(FETCH, imported, buffer, offset, at, length, False)

    async def _transfer(
        self,
        operation: int,
        imported: Imported,
        buffer: Buffer,
        offset: int,
        at: int,
        length: int | None,
        notify: bool,
    ) -> Transfer:
        size = buffer.length - at if length is None else length
        if operation == FETCH and length is None:
            size = min(size, max(1, imported.length - offset))
        if at < 0 or size < 1 or at + size > buffer.length:
            raise SimulationError(
                f"bytes {at} to {at + size} are not in a buffer of {buffer.length}"
            )
        pages = self._pages(buffer.address + at, size)
        await self._make_room(pages)
        self._book.note_use(pages, self.now_us)
        number = await self.post(
            operation, imported.number, [(buffer.address + at, size)], offset=offset, notify=notify
        )
        transfer = Transfer(number, "remote store" if operation == WRITE else "remote fetch")
        self._posted.append(transfer)
        return transfer

    async def wait(self, transfer: Transfer | None = None, mode: str = "poll") -> Completion:
        """How ``transfer``, by default the oldest not yet waited for, has ended, once it has.

        ``mode``: "poll", "block" or "signal".
        """
        if transfer is None:
            if not self._posted:
                raise SimulationError("there is no transfer to wait for; post one first")
            transfer = self._posted[0]
        if transfer not in self._posted:
            raise SimulationError(f"transfer {transfer.number} has been waited for already")
        while transfer.number not in self._ended:
            await self._reap(mode)
        self._posted.remove(transfer)
        return Completion(transfer, self._ended.pop(transfer.number))

    async def _reap(self, mode: str = "poll") -> None:
        done = await self.done(mode)
        self._reaped += 1
        self._ended[done.request] = done.status

    async def notification(self, mode: str = "block") -> Notification:
        """The next remote store that was to notify and has ended here, once there is one."""
        came = await self.arrival(mode)
        names = {
            exported.number: name
            for (node, name), exported in self.cluster.exports.items()
            if node == self.node
        }
        return Notification(names.get(came.name, ""), came.node, came.offset, came.length)

    # -- the user library ------------------------------------------------------------------------

    async def check(self, buffer: Buffer) -> bool:
        """Whether all pages of ``buffer`` are pinned: the library's look at its bit array alone.

        It takes longer the later in its word of the array the first bit lies (UTLB, Table 1); the
        time between the two ends is a straight line (assumed).
        """
        pages = self._pages(buffer.address, buffer.length)
        least, most = (table[min(len(pages), len(table) - 1)] for table in self.cluster.check_ps)
        bit = pages.start % WORD_BITS
        spent = int(least) + (int(most) - int(least)) * bit // (WORD_BITS - 1)
        await self._driven.ask(COMPUTE, duration=spent)
        return all(self._book.state(page) != FREE for page in pages)

    async def unpin(self, buffer: Buffer) -> int:
        """Unpin what is pinned of ``buffer`` and no transfer needs, by one call; how many pages."""
        ended = await self._driven.ask(
            UNPIN, peer=self.port, address=buffer.address, payload=buffer.length
        )
        for page in self._pages(buffer.address, buffer.length):
            if self._book.state(page) == FREE:
                self._book.forget(page)
        return ended.address

    def pinned_pages(self) -> list[PinnedPage]:
        """The process's pinned pages, lowest first."""
        pages = [page for page in range(self._next_page) if self._book.state(page) != FREE]
        return self._book.described(pages)

    async def swap_table(self, number: int = 0) -> bool:
        """Have the host write a second-level table of this process to the disk (UTLB 3.3).

        Table k holds pages 1024 k to 1024 k + 1023.  Whether there was one to write.
        """
        await self._driven.ask(COMPUTE, duration=self._cost("system_call"))
        return self._book.swap(number)

    def is_table_away(self, number: int = 0) -> bool:
        """Whether that table is on the disk."""
        return self._book.is_away(number)

    async def _make_room(self, pages: range) -> None:
        """Under a policy of the application's own: unpin what it names, until ``pages`` fit in."""
        limit = self.cluster.most_pinned
        if self.policy is None or limit is None or len(pages) > limit:
            return
        while True:
            states = {page: self._book.state(page) for page in range(self._next_page)}
            pinned = sum(state != FREE for state in states.values())
            fresh = sum(states.get(page, FREE) == FREE for page in pages)
            if pinned + fresh <= limit:
                return
            idle = [page for page, state in states.items() if state == IDLE and page not in pages]
            if idle:
                await self._unpin_chosen(idle)
            elif BUSY in states.values() and self._next_request > self._reaped:
                await self._reap()  # the end of a transfer lets pages go
            else:
                return  # only the driver can say no

    async def _unpin_chosen(self, idle: list[int]) -> None:
        assert self.policy is not None
        victim = self.policy(self._book.described(idle))
        if victim not in idle:
            raise SimulationError(
                f"the replacement policy chose page {victim}, which it was not handed; "
                f"it must return the page of one of the {len(idle)} that may go"
            )
        self._book.forget(victim)
        page_size = self._memory.page_size
        await self._driven.ask(UNPIN, peer=self.port, address=victim * page_size, payload=page_size)

    async def _pin_for_good(self, buffer: Buffer, what: str) -> None:
        if buffer.process is not self:
            raise SimulationError(f"cannot {what}: the buffer is another process's")
        await self._make_room(self._pages(buffer.address, buffer.length))
        ended = await self._driven.ask(
            REGISTER, peer=self.port, address=buffer.address, payload=buffer.length
        )
        if ended.address != DONE:
            raise SimulationError(
                f"cannot {what}: {STATUS_NAMES[ended.address]} to pin {buffer.length} bytes"
            )

    async def _give_up(self, buffer: Buffer | None) -> None:
        if buffer is not None:
            await self._driven.ask(
                GIVE_UP, peer=self.port, address=buffer.address, payload=buffer.length
            )

    def _pages(self, address: int, length: int) -> range:
        page_size = self._memory.page_size
        return range(address // page_size, (address + length - 1) // page_size + 1)

    def _cost(self, name: str) -> int:
        costs: Any = self._ports.costs[self.node]
        return int(costs[name])
