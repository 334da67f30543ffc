"""VMMC: remote store and remote fetch between exported and imported buffers, over the UTLBs.

    async def reader(endpoint: Endpoint) -> bytes:
        remote = await endpoint.import_buffer(1, "table")
        page = endpoint.allocate(4096)
        await endpoint.wait(await endpoint.fetch(remote, page))
        return await page.read()

Source: UTLB, 3 and 4 (``docs/vmmc.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from nicscope.config.design import Design, Scheme, Transport
from nicscope.config.platform import Platform, program_costs
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.records import COMPUTE, UNPIN
from nicscope.errors import SimulationError
from nicscope.host.pages import TABLE_PAGES, is_table_swapped_out, swap_table
from nicscope.interfaces.arguments import (
    LEAST,
    SharedOptions,
    a_name,
    checked_host,
    in_ps,
    shown,
    whole,
    with_named_options,
)
from nicscope.interfaces.buffers import checked_range, out_of_range_error
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ports.nic_memory import check_fits
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.ports.shared_memory import Names, SharedMemory
from nicscope.interfaces.programs import NO_END, latest, left
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.layout import FETCH, MAY_FETCH, MAY_WRITE, WRITE
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.state import translation_of
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.interfaces.ports.memory import Buffer

__all__ = [
    "Cluster",
    "Completion",
    "Endpoint",
    "Exported",
    "Imported",
    "Notification",
    "PinnedPage",
    "Transfer",
]


class Offer(NamedTuple):
    """A receive buffer that is exported: whose, where, and to whom."""

    node: int
    number: int  # in the NIC's table
    port: int
    address: int
    length: int
    allow: Allowed
    rights: int


class Directory(SharedMemory):
    """What is exported and imported in one run, and under which names."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Names("exports", "imports"))
        self._names: dict[tuple[int, str], Offer | None] = {}

    def find(self, node: int, name: str) -> Offer | None:
        """What ``node`` exports as ``name``, if it does by now."""
        return self._names.get((node, name))

    def names_of(self, node: int) -> list[str]:
        """What ``node`` exports by now."""
        return [name for (where, name), offer in self._names.items() if where == node and offer]

    def reserve(self, node: int, name: str) -> int:
        """The row of a buffer that is about to be exported as ``name``.

        Errors: ``SimulationError`` if the name is taken or the table full.
        """
        if (node, name) in self._names:
            raise SimulationError(f"node {node} exports {name!r} already; take another name")
        number = self.take(node)
        self._names[node, name] = None
        return number

    def abandon(self, node: int, name: str, number: int) -> None:
        """Frees the name and the row of an export that failed."""
        del self._names[node, name]
        self.give_back(node, number)

    def export(self, owner: Process, name: str, offer: Offer) -> None:
        """Enter the buffer in the NIC's table: from now on transfers may come."""
        allow = offer.allow
        node, process = allow if isinstance(allow, tuple) else (allow, None)
        port = None if process is None else process + 1
        place = offer.address, offer.length
        self.enter(owner, offer.number, offer.port, place, offer.rights, (node, port))
        self._names[offer.node, name] = offer

    def withdraw(self, name: str, offer: Offer) -> None:
        """Removes the export: transfers that arrive later are rejected."""
        del self._names[offer.node, name]
        self.remove(offer.node, offer.number, offer.port)


# Who may import a buffer: anybody, any process of a node, or one process of it.
Allowed = int | tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Exported(Owned):
    """A receive buffer that others may import."""

    what = "an exported buffer"
    origin = "export()"

    node: int
    number: int  # in the NIC's table
    name: str
    buffer: Buffer
    allow: Allowed
    rights: int


@dataclass(frozen=True, eq=False)
class Imported(Owned):
    """Another process's receive buffer, to which this one has gained access."""

    what = "an import"
    origin = "import_buffer()"

    number: int  # in the NIC's table
    node: int
    name: str
    length: int


@dataclass(frozen=True, eq=False)
class Transfer(Owned):
    """A remote store or fetch that has been posted."""

    what = "a transfer"
    origin = "store() or fetch()"

    number: int
    operation: str  # "remote store" or "remote fetch"


def checked(allow: object, nodes: int) -> Allowed:
    """Whom an exporter allows, as whole numbers.  Errors: ``SimulationError``."""
    if allow is None:
        return None
    if not isinstance(allow, tuple):
        return whole(allow, "a node that may import", 0, nodes - 1)
    if len(allow) != 2:
        raise SimulationError(
            f"who may import is a node, a node and a process, or None; got {shown(allow)}"
        )
    node, process = allow
    return (
        whole(node, "a node that may import", 0, nodes - 1),
        whole(process, "a process that may import", 0, (1 << 31) - 1),
    )


FREE = 0
IDLE = 1  # pinned, and no transfer needs it
BUSY = 2  # pinned, and to stay so


@kernel
def _pin_state(machine: Any, n: int, space: int, page: int) -> Any:
    key = key_of(machine, n, space, page)
    _, host, _ = translation_of(machine.ports.translations, n)
    if key < 0 or host.pinning.state[key] & PINNED == 0:
        return FREE
    return IDLE if host.pinning.held[key] == 0 else BUSY


@kernel
def _is_table_away(machine: Any, n: int, space: int, number: int) -> Any:
    return is_table_swapped_out(machine, n, space, number * 1024)


class PinnedPage(NamedTuple):
    """A page that an application's own replacement policy may choose to unpin."""

    page: int  # its number in the process's address space
    uses: int  # transfers that used it since it was pinned
    last_use_us: float


class PinBook:
    """One process's pinned pages: their states, which the compiled library keeps, and their use."""

    def __init__(self, machine: Machine, node: int, space: int) -> None:
        self._state = bound(_pin_state, machine)
        self._swap = bound(swap_table, machine)
        self._away = bound(_is_table_away, machine)
        self._node = node
        self._space = space
        self._uses: dict[int, tuple[int, float]] = {}

    def state(self, page: int) -> int:
        """``FREE``, ``IDLE`` or ``BUSY``."""
        return int(self._state(self._node, self._space, page))

    def note_use(self, pages: range, now_us: float) -> None:
        """A transfer uses these pages."""
        for page in pages:
            self._uses[page] = self._uses.get(page, (0, 0.0))[0] + 1, now_us

    def forget(self, page: int) -> None:
        """The page is unpinned: what comes counts anew."""
        self._uses.pop(page, None)

    def described(self, pages: Sequence[int]) -> list[PinnedPage]:
        """The pages with their use so far."""
        return [PinnedPage(page, *self._uses.get(page, (0, 0.0))) for page in pages]

    def swap(self, number: int) -> bool:
        """Have the host write a second-level table to the disk; whether it did."""
        return bool(self._swap(self._node, self._space, number))

    def is_table_swapped_out(self, number: int) -> bool:
        """Whether that table is on the disk."""
        return bool(self._away(self._node, self._space, number))


WORD_BITS = 32  # of the library's bit array
Place = tuple[int, int]  # of memory: address and length
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


class Endpoint(Process):
    """One process on a VMMC node: its command buffer, its user library, and its buffers."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        self.policy: Callable[[Sequence[PinnedPage]], int] | None = None
        """The application's own replacement policy: the page to unpin, of those it is handed."""
        self._book = PinBook(self._machine, self.node, self.number)
        self._ended: dict[int, str] = {}  # how transfers have, that nobody has waited for
        self._reaped = 0
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
            directory.abandon(node, name, number)
            raise
        rights = (MAY_WRITE if store else 0) | (MAY_FETCH if fetch else 0)
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
        await self._deregister_pages((offer.address, offer.length))
        await self._end_redirection(offer)

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
        await self.system_call()
        until = self._sim_process.now + patience
        directory = self.cluster.directory

        def silence() -> str:
            named = ", ".join(map(repr, directory.names_of(where)))
            return (
                f"node {where} has not exported {name!r} in {patience_us:g} us "
                f"(patience_us=), {f'but {named}' if named else 'nor anything else'}"
            )

        found = partial(directory.find, where, name)
        offer = await self._await_found(found, until, ASK_AGAIN_US, silence, where)
        if offer.allow not in (None, self.node, (self.node, self.number)):
            raise SimulationError(
                f"process {self.number} of node {self.node} may not import {name!r} of node "
                f"{where}; it is exported to {offer.allow}"
            )
        self._check_open()
        number = self.cluster.directory.add_import(self, where, offer.number)
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
        await self._end_redirection(offer)
        if place is not None:
            self._redirected[offer.number] = place

    async def _end_redirection(self, offer: Offer) -> None:
        if (place := self._redirected.pop(offer.number, None)) is not None:
            await self._deregister_pages(place)

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
            await self._deregister_pages(place)
        if self._next_page:  # what the library had pinned and kept
            everything = self._next_page * self._memory.page_size
            await self._sim_process.ask(UNPIN, peer=self.port, address=0, payload=everything)

    def _held(self) -> list[tuple[int, int, str]]:
        exported = [
            (offer.address, offer.length, f"it is exported as {name!r}; unexport() it first")
            for name, offer in (
                self._owner.record_of(each, Exported) for each in self._exported.values()
            )
        ]
        return exported + [
            (*place, "an export is redirected to it; redirect(exported, None) it first")
            for place in self._redirected.values()
        ]

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

    # -- pinned pages ----------------------------------------------------------------------------

    async def _reap(self, mode: str = "poll", until: int = NO_END) -> None:
        done = await self.done(mode, timeout_us=left(self._sim_process, until))
        self._reaped += 1
        self._ended[done.request] = done.status

    async def check(self, buffer: Buffer) -> bool:
        """Whether all pages of ``buffer`` are pinned: the library's look at its bit array alone.

        It takes longer the later in its word of the array the first bit lies (UTLB, Table 1); the
        time between the two ends is a straight line (assumed).
        """
        self._owner.check_caller()
        pages = self._pages(*checked_range(self._owner, self, buffer))
        least, most = (table[min(len(pages), len(table) - 1)] for table in self.cluster.check_ps)
        bit = pages.start % WORD_BITS
        spent = int(least) + (int(most) - int(least)) * bit // (WORD_BITS - 1)
        await self._sim_process.ask(COMPUTE, duration=spent)
        return all(self._book.state(page) != FREE for page in pages)

    async def unpin(self, buffer: Buffer) -> int:
        """Unpin what is pinned of ``buffer`` and no transfer needs, by one call; how many pages."""
        self._owner.check_caller()
        address, length = checked_range(self._owner, self, buffer)
        ended = await self._sim_process.ask(UNPIN, peer=self.port, address=address, payload=length)
        for page in self._pages(address, length):
            if self._book.state(page) == FREE:
                self._book.forget(page)
        return ended.address

    def pinned_pages(self) -> list[PinnedPage]:
        """The process's pinned pages, lowest first."""
        self._owner.check_caller()
        pages = [page for page in range(self._next_page) if self._book.state(page) != FREE]
        return self._book.described(pages)

    async def swap_table(self, number: int = 0) -> bool:
        """Have the host write a second-level table of this process to the disk (UTLB 3.3).

        Table k holds pages 1024 k to 1024 k + 1023.  Whether there was one to write.
        """
        self._owner.check_caller()
        there = self._has_table(number)
        await self.system_call()
        return there and self._book.swap(number)

    def is_table_away(self, number: int = 0) -> bool:
        """Whether that table is on the disk."""
        self._owner.check_caller()
        return self._has_table(number) and self._book.is_table_swapped_out(number)

    def _has_table(self, number: int) -> bool:
        pages = int(self._memory.state.entries.shape[2])
        return 0 <= whole(number, "a second-level table", LEAST) * TABLE_PAGES < pages

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
        await self._sim_process.ask(
            UNPIN, peer=self.port, address=victim * page_size, payload=page_size
        )

    async def _pin_for_good(self, place: Place, what: str) -> None:
        await self._make_room(self._pages(*place))
        status = await self._register_pages(place)
        if status != "done":
            raise SimulationError(f"cannot {what}: {status} to pin {place[1]} bytes")

    def _pages(self, address: int, length: int) -> range:
        page_size = self._memory.page_size
        return range(address // page_size, (address + length - 1) // page_size + 1)


class Cluster(PortCluster[Endpoint]):
    """Hosts with VMMC; programs on them get an ``Endpoint``."""

    interface = "VMMC"
    given = "endpoint"
    process_type = Endpoint
    # Assumed: no time-out or count is printed.  A way on which nothing came through for 41 ms is
    # given up; a receiver whose page or table has to come from the disk first takes 22 ms.
    transport = Transport(most_retries=40)
    garbage = True
    directory: Directory  # once ``run`` has begun

    @with_named_options(SharedOptions)
    def __init__(
        self,
        design: str | Path | Design = "utlb",
        platform: str | Path | Platform | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        """``options`` as of ``PortCluster``; a design's settings are among them: ``pin_limit=64``.

        Errors: ``DesignError`` for a design that is not VMMC's or a setting that it does not have.
        """
        host = checked_host(options.get("host"))
        options["size"] = options.get("size") or PortSize(longest=host.pages_per_space)
        super().__init__(design, platform, **options)
        tables = program_costs(self.platform, self.design.scheme).tables
        self.check_ps = tables["request_check_min"], tables["request_check_max"]

    @property
    def most_pinned(self) -> int | None:
        """Pages that a process may pin, or None: a table on the NIC has no more entries either."""
        if self.design.scheme is Scheme.UTLB_PROCESS:
            return self.design.entries
        return self.design.pin_limit

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform, hosts)
        self.directory = Directory(simulation.machine)
        return simulation

    @TrimmedTraceback()
    def served(self, node: int) -> dict[str, int]:
        """What the firmware and the kernel of ``node`` have counted, translation aside."""
        record: Any = self._ran().machine.ports.nodes[self._node(node)]
        return {
            name: int(record[name])
            for name in ("interrupts", "rejected", "stale", "garbage", "table_ins", "remaps")
        }
