"""What a VMMC program calls: export, import, remote store, remote fetch, redirection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.drivers.simulate.records import COMPUTE, UNPIN
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, a_name, in_ps, whole
from nicscope.interfaces.buffers import checked_range, out_of_range_error
from nicscope.interfaces.tasks import latest, no_answer_error
from nicscope.interfaces.vmmc.directory import (
    Allowed,
    Exported,
    Imported,
    Offer,
    Transfer,
    checked,
    may_import,
    rights_of,
)
from nicscope.interfaces.vmmc.library import Place, UserLibrary
from nicscope.nic.ports.layout import FETCH, WRITE

if TYPE_CHECKING:
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.vmmc.cluster import Cluster

ASK_AGAIN_US = 20.0  # assumed: how often an importer asks whether the buffer is exported yet
PATIENCE_US = 1e6


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


class Endpoint(UserLibrary):
    """One process on a VMMC node: its command buffer, its user library, and its buffers."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        self._posted: dict[int, Transfer] = {}
        self._exported: dict[int, Exported] = {}
        self._imported: dict[int, Imported] = {}
        self._redirected: dict[int, Place] = {}
        self._names: dict[int, str] = {}  # of exports, those of long ago too

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
        self._owner.check_caller()
        a_name(name)
        place = checked_range(self._owner, self, buffer)
        allowed = checked(allow, self.cluster.topology.nodes)
        self._check_open()
        directory, node = self.cluster.directory, self.node
        number = directory.reserve(node, name)
        try:
            await self._pin_for_good(place, f"export {name!r}")
        except BaseException:
            directory.give_up(node, name, number)
            raise
        rights = rights_of(store, fetch)
        offer = Offer(node, number, self.port, *place, allowed, rights)
        directory.export(self, name, offer)
        exported = Exported(node, number, name, buffer, allowed, rights)
        self._names[number] = name
        self._exported[number] = exported
        return self._owner.give(exported, (name, offer))

    async def unexport(self, exported: Exported) -> None:
        """Take the buffer back: transfers that come later are rejected."""
        self._owner.check_caller()
        name, offer = self._owner.record_of(exported, Exported)
        self._owner.take_back(exported, "unexported")
        self.cluster.directory.withdraw(name, offer)
        del self._exported[offer.number]
        await self._give_up((offer.address, offer.length))
        await self._give_up(self._redirected.pop(offer.number, None))

    async def import_buffer(
        self, node: int, name: str, patience_us: float = PATIENCE_US
    ) -> Imported:
        """Gain access to what ``node`` exports as ``name``, waiting until it does.

        Errors: ``SimulationError`` if this process is not allowed to, ``WaitTimeoutError`` if
        patience ends.
        """
        self._owner.check_caller()
        where = whole(node, "a node", 0, self.cluster.topology.nodes - 1)
        self.cluster.check_path(self.node, where)
        a_name(name)
        patience = in_ps(patience_us, self._sim_process.now)
        await self._sim_process.ask(COMPUTE, duration=self._cost("system_call"))
        until = self._sim_process.now + patience
        while (offer := self.cluster.directory.find(where, name)) is None:
            if self._sim_process.now >= until:
                named = ", ".join(map(repr, self.cluster.directory.names_of(where)))
                raise no_answer_error(
                    self._sim_process,
                    f"node {where} has not exported {name!r} in {patience_us:g} us "
                    f"(patience_us=), {f'but {named}' if named else 'nor anything else'}",
                    where,
                )
            await self.sleep(ASK_AGAIN_US)
        if not may_import(offer.allow, self.node, self.number):
            raise SimulationError(
                f"process {self.number} of node {self.node} may not import {name!r} of node "
                f"{where}; it is exported to {offer.allow}"
            )
        self._check_open()
        number = self.cluster.directory.add_import(self, offer)
        imported = self._imported[number] = Imported(number, where, name, offer.length)
        return self._owner.give(imported, (number, offer.length))

    def release(self, imported: Imported) -> None:
        """Give an import up; its place in the NIC's table is free again."""
        self._owner.check_caller()
        number, _ = self._owner.record_of(imported, Imported)
        self._owner.take_back(imported, "released")
        del self._imported[number]
        self.cluster.directory.release(self, number)

    async def redirect(self, exported: Exported, buffer: Buffer | None) -> None:
        """Have what comes for ``exported`` placed in ``buffer`` instead; None: no longer.

        The new place must be as long; it may begin at any byte of a page.  The library pins it.
        """
        self._owner.check_caller()
        name, offer = self._owner.record_of(exported, Exported)
        place = None if buffer is None else checked_range(self._owner, self, buffer)
        if place is not None:
            if place[1] < offer.length:
                raise SimulationError(
                    f"{name!r} cannot be redirected to {place[1]} bytes; it takes {offer.length}"
                )
            await self._pin_for_good(place, f"redirect {name!r}")
        record = self._ports.shared.exports[self.node, offer.number]
        record["redirect"] = -1 if place is None else place[0]
        await self._give_up(self._redirected.pop(offer.number, None))
        if place is not None:
            self._redirected[offer.number] = place

    async def close_port(self, port: int | None = None) -> None:
        """Close the port, as any: what is exported and imported is given up with it."""
        self._owner.check_caller()
        which = self._own(port)
        places = [*self._redirected.values()]
        for exported in self._exported.values():
            name, offer = self._owner.record_of(exported, Exported)
            self._owner.take_back(exported, "closed with its port")
            self.cluster.directory.withdraw(name, offer)
            places.append((offer.address, offer.length))
        for number, imported in self._imported.items():
            self._owner.take_back(imported, "closed with its port")
            self.cluster.directory.release(self, number)
        for held in (self._exported, self._imported, self._redirected):
            held.clear()
        await super().close_port(which)
        for place in places:
            await self._give_up(place)
        if self._next_page:  # what the library had pinned and kept
            everything = self._next_page * self._memory.page_size
            await self._sim_process.ask(UNPIN, peer=self.port, address=0, payload=everything)

    def _held(self) -> list[tuple[int, int, str]]:
        exported = [
            (offer.address, offer.length, f"it is exported as {name!r}; unexport() it first")
            for name, offer in map(self._record_of_export, self._exported.values())
        ]
        return exported + [
            (*place, "an export is redirected to it; redirect(exported, None) it first")
            for place in self._redirected.values()
        ]

    def _record_of_export(self, exported: Exported) -> tuple[str, Offer]:
        found: tuple[str, Offer] = self._owner.record_of(exported, Exported)
        return found

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
        self._owner.check_caller()
        number, there = self._owner.record_of(imported, Imported)
        if type(offset) is not int:
            offset = whole(offset, "an offset", LEAST)
        address, size = checked_range(self._owner, self, buffer, at, length)
        if operation == FETCH and length is None:
            size = min(size, max(1, there - offset))
        if size < 1:
            raise out_of_range_error(at, size, buffer.length)
        pages = self._pages(address, size)
        await self._make_room(pages)
        self._book.note_use(pages, self.now_us)
        request = await self.post(
            operation, number, [(address, size)], offset=offset, notify=notify
        )
        transfer = Transfer(request, "remote store" if operation == WRITE else "remote fetch")
        self._posted[request] = transfer
        return self._owner.give(transfer, request)

    async def wait(
        self,
        transfer: Transfer | None = None,
        mode: str = "poll",
        *,
        timeout_us: float | None = None,
    ) -> Completion:
        """How ``transfer``, by default the oldest not yet waited for, has ended, once it has.

        ``mode``: "poll", "block" or "signal".  Errors: ``WaitTimeoutError`` if it has not for
        ``timeout_us``; it can be waited for again.
        """
        self._owner.check_caller()
        until = latest(self._sim_process, timeout_us)
        if transfer is None:
            if not self._posted:
                raise SimulationError("there is no transfer to wait for; post one first")
            transfer = next(iter(self._posted.values()))
        number = self._owner.record_of(transfer, Transfer)
        while number not in self._ended:
            await self._reap(mode, until)
        self._owner.take_back(transfer, "waited for")
        del self._posted[number]
        return Completion(transfer, self._ended.pop(number))

    async def notification(
        self, mode: str = "block", *, timeout_us: float | None = None
    ) -> Notification:
        """The next remote store that was to notify and has ended here, once there is one."""
        came = await self.arrival(mode, timeout_us=timeout_us)
        return Notification(self._names.get(came.name, ""), came.node, came.offset, came.length)
