"""The simulated machine beneath a device, created on first use, and the program's address space."""

from __future__ import annotations

import errno
import functools
import struct
from abc import ABC, abstractmethod
from gc import disable, enable, isenabled
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from nicscope.drivers.simulate.ports.reports import LATE
from nicscope.drivers.simulate.process import OWN, SIZE, pack_into, unfit
from nicscope.drivers.simulate.records import AWAIT_QUEUE, CHAIN, COMPUTE
from nicscope.errors import SimulationError
from nicscope.host.calls import drop_page
from nicscope.interfaces.verbs_device.calls import Refused
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.paging.layout import UNMAPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.thread_scheduler import Caller
    from nicscope.interfaces.ports.memory import Memory
    from nicscope.interfaces.verbs_device.calls import Piece
    from nicscope.interfaces.verbs_device.connections import Pair
    from nicscope.interfaces.verbs_device.fabric import Fabric


P = ParamSpec("P")
T = TypeVar("T")

SPACE = 0
ANY_QUEUE = 0  # in which every end of work and every trouble is announced
OWN_PORT = 1  # of the process, at which it registers
NEVER_FULL = 1 << 62
MOST_BEFORE = CHAIN - 1  # what is asked next is the last of the chain
PS_PER_NS = 1000


def uninterrupted(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap ``call`` so that the garbage collector, whose finalizers call the device, is off.

    A queue pair that nobody has any more is closed when it is collected, which must not be amid
    another operation.
    """

    @functools.wraps(call)
    def carried(*given: P.args, **named: P.kwargs) -> T:
        if not isenabled():
            return call(*given, **named)
        disable()
        try:
            return call(*given, **named)
        finally:
            enable()

    return carried


class Base(ABC):
    """The state that all parts of a device share."""

    _fabric: Fabric
    _memory: Memory
    _machine: Machine
    _sim_process: SimProcess
    _ports: Any
    _calling: Caller
    _node = 0  # of the fabric
    _draining: dict[int, Pair]
    _heard = _told = 0  # entries that have been seen, and troubles among them

    def _begin_machine(self) -> None:
        simulation = self._fabric.begun()
        assert self._fabric.memory is not None
        self._memory = self._fabric.memory
        self._machine = simulation.machine
        self._ports = simulation.machine.ports
        self._have_caller()
        self._sim_process = simulation.processes[self._node]
        self._process = self._sim_process.number
        costs = self._ports.costs[self._node]
        self._call_ps, self._poll_ps = int(costs["system_call"]), int(costs["poll"])
        record = self._ports.table[self._node, OWN_PORT]
        record["open"], record["space"] = 1, SPACE
        self._any: Any = self._ports.work.queues[self._node, ANY_QUEUE]
        self._any["open"], self._any["entries"] = 1, NEVER_FULL
        # Read one number at a time, these are several times faster than records.
        queues = self._ports.work.queues
        own = queues[self._node]
        self._shown, self._read_to = own["shown"].data, own["read"].data
        self._written = own["written"].data
        self._troubles = self._ports.nodes["async_errors"].data
        entries = self._ports.work.entries[self._node, ANY_QUEUE]
        self._sides, self._owners = entries["side"].data, entries["port"].data
        assert self._fabric.book is not None
        self._fabric.book.note(self._node, OWN_PORT, SPACE)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        self._flush_posted()
        return self._sim_process.now // PS_PER_NS

    def _have_caller(self) -> None:
        self._calling = self._fabric.caller()
        # Where operations are put down, and how many posts are, which go before what is asked next.
        self._asked, self._before = self._calling.asked, 0
        self._rest = self._calling.rest

    @uninterrupted
    def _ask(self, operation: int, *numbers: int, **named: int) -> Sequence[int] | None:
        """Perform an operation of the process, after the work that was posted before."""
        self._sim_process.put_down(self._asked, self._before, operation, *numbers, **named)
        return self._carry_out(1)

    def _carry_out(self, more: int) -> Sequence[int] | None:
        """Carry out what was posted and ``more`` that are put down behind; how the last ended."""
        count, self._before = self._before + more, 0
        return self._calling.carry_out(count)

    def _put(
        self,
        operation: int,
        peer: int,
        payload: int,
        tag: int,
        duration: int,
        packet: int,
        own: int,
    ) -> None:
        """Queue an operation ahead of the next request; it reports only that it has ended.

        The call that posts is uninterrupted, from when the post's pieces are put down.
        """
        place = self._before
        try:
            pack_into(
                self._asked, place * SIZE, self._process, operation, 0, self._node, peer, packet,
                payload, tag, 0, own, duration,
            )  # fmt: skip
        except struct.error:
            raise unfit(peer, payload, tag, 0, duration, packet, own) from None
        self._before = place + 1
        if place + 1 == MOST_BEFORE:
            self._carry_out(0)

    @uninterrupted
    def _flush_posted(self) -> None:
        """Hand all queued operations over to the NIC."""
        if self._before:
            self._carry_out(0)

    def _spend(self, ps: int) -> None:
        """Advance virtual time while the processor is busy."""
        self._ask(COMPUTE, duration=ps)

    def _system_call(self) -> None:
        """Advance virtual time by the cost of a system call."""
        self._spend(self._call_ps)

    def use_scheduler(self) -> None:
        """Switch to the thread scheduler: calling programs take turns from now on."""
        self._flush_posted()
        self._have_caller()

    @uninterrupted
    def _wait_for(self, ps: int) -> bool:
        """Wait until something ends or fails, at most ``ps``; True if something did."""
        return self._go_on(ps)

    def _go_on(self, ps: int) -> bool:
        self._read_to[ANY_QUEUE] = self._written[ANY_QUEUE]
        before = self._before
        latest = self._sim_process.now + ps
        pack_into(
            self._asked, before * SIZE, self._process, AWAIT_QUEUE, 0, self._node, ANY_QUEUE, 0,
            0, 0, latest, 0, 0,
        )  # fmt: skip
        self._before = 0
        ended = self._calling.carry_out(before + 1)
        is_heard = ended is not None and ended[OWN] != LATE
        if self._draining or self._told != self._troubles[self._node]:
            self._collect_errors()
        else:
            self._heard = self._written[ANY_QUEUE]
        return is_heard

    @abstractmethod
    def _collect_errors(self) -> None:
        """Collect asynchronous errors of ports."""

    @abstractmethod
    def qp_state(self, number: int) -> int:
        """The state of a queue pair."""

    @abstractmethod
    def _is_registered(self, page: int) -> bool:
        """Whether a region has the page registered."""

    @abstractmethod
    def _take_shared(self, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        """What the program calls a receive of a shared queue, and where it is."""

    @abstractmethod
    def _post_waiting(self, pair: Pair) -> None:
        """Post queued work requests of a pair as far as the NIC's queues have free entries."""


FIRST_PAGE = 16  # lower addresses are nobody's: a null pointer is no memory
HUGE = 1 << 21  # bytes
PATIENCE_PS = 10_000_000  # between two looks whether a transfer has done with a page
LOOKS = 20


@kernel
def _drop(machine: Any, n: int, space: int, page: int) -> Any:
    return drop_page(machine, n, space, page)


class AddressSpace(Base):
    """The program's virtual address space."""

    _memory: Memory

    def _begin_memory(self) -> None:
        self._page = self._memory.page_size
        self._next_page = FIRST_PAGE
        self._free: dict[int, list[int]] = {}  # first pages, by how many
        self._in_use: set[int] = set()  # pages of nobody that a transfer still uses
        self._ghosts: set[int] = set()  # pages that only regions have any more
        self._drop_page = bound(_drop, self._machine)

    def map(self, length: int, huge: bool = False) -> int:
        """Fresh zeroed memory; its address.  Errors: ENOMEM, EINVAL."""
        if length < 1:
            raise Refused(errno.EINVAL)
        unit = HUGE if huge else self._page
        pages = -(-length // unit) * (unit // self._page)
        first = self._place_for(pages, unit // self._page)
        try:
            self._memory.map(self._node, SPACE, first, pages)
        except SimulationError as error:
            raise Refused(errno.ENOMEM, str(error)) from None
        return first * self._page

    def _place_for(self, pages: int, alignment: int) -> int:
        """The first page of a free range of so many pages.  Errors: ENOMEM."""
        if alignment == 1 and self._free.get(pages):
            return self._free[pages].pop()
        first = self._next_page + -self._next_page % alignment
        if first + pages <= self._room // self._page:
            if first > self._next_page:
                self._free.setdefault(first - self._next_page, []).append(self._next_page)
            self._next_page = first + pages
            return first
        return self._place_among_free(pages, alignment)

    def _place_among_free(self, pages: int, alignment: int) -> int:
        """The first page of a large enough run of adjacent freed pages.  Errors: ENOMEM."""
        free = self._free
        for page in [each for each in self._in_use if self._drop_page(self._node, SPACE, each)]:
            self._in_use.discard(page)
            free.setdefault(1, []).append(page)
        stretches = sorted((first, many) for many, firsts in free.items() for first in firsts)
        joined: list[tuple[int, int]] = []
        for first, many in stretches:
            if joined and sum(joined[-1]) == first:
                first, many = joined[-1][0], joined.pop()[1] + many
            joined.append((first, many))
        free.clear()
        found = None
        for first, many in joined:
            at = first + -first % alignment
            left, right = at - first, first + many - at - pages
            if found is not None or right < 0:
                free.setdefault(many, []).append(first)
                continue
            found = at
            for begin, rest in ((first, left), (at + pages, right)):
                if rest:
                    free.setdefault(rest, []).append(begin)
        if found is None:
            raise Refused(errno.ENOMEM)
        return found

    def unmap(self, address: int, length: int) -> None:
        """Unmap memory; pages that a region has pinned stay.  Errors: EINVAL.

        Addresses are given out again when no NIC knows them any more.
        """
        self._flush_posted()
        first, pages = self._stretch(address, length)
        kept = {page for page in range(first, first + pages) if self._is_registered(page)}
        self._ghosts |= kept
        if not kept:
            self._memory.unmap(self._node, SPACE, first, pages)
            gone = [
                self._drop_page(self._node, SPACE, page) for page in range(first, first + pages)
            ]
            if all(gone):
                self._free.setdefault(pages, []).append(first)
                return
            for page, is_gone in zip(range(first, first + pages), gone, strict=True):
                self._free_page(page, is_gone)
            return
        for page in range(first, first + pages):
            if page not in kept:
                self._unmap_page(page)

    def _unmap_page(self, page: int) -> None:
        """Unmap a page that neither the program nor a region uses any more."""
        self._ghosts.discard(page)
        self._memory.unmap(self._node, SPACE, page, 1)
        self._free_page(page, self._drop_page(self._node, SPACE, page))

    def _free_page(self, page: int, is_gone: bool) -> None:
        """Free a page for reuse, or after a transfer is done if a NIC still uses it."""
        if is_gone:
            self._free.setdefault(1, []).append(page)
        else:
            self._in_use.add(page)

    def _check_view(self, address: int, length: int) -> None:
        """Errors: EFAULT for memory that the program has unmapped."""
        if self._ghosts and length > 0:
            last = (address + length - 1) // self._page
            if not self._ghosts.isdisjoint(range(address // self._page, last + 1)):
                raise Refused(errno.EFAULT)

    def drop(self, address: int, length: int) -> None:
        """Discard pages: they read as zeros when next used; pinned ones stay with their region.

        Transfers that use one end first.  Errors: EINVAL, ENOMEM where nothing is mapped.
        """
        first, pages = self._stretch(address, length)
        if not self.mapped(address, length):
            raise Refused(errno.ENOMEM)
        self._system_call()
        for page in range(first, first + pages):
            if not self._is_registered(page):
                self._drop_one(page)

    def _drop_one(self, page: int) -> None:
        """Discard a page.  One that a packet needs, which may go again, stays where it is."""
        for _ in range(LOOKS):
            if self._drop_page(self._node, SPACE, page):
                rights = int(self._entry(page)["rights"])
                self._memory.unmap(self._node, SPACE, page, 1)
                self._memory.map(self._node, SPACE, page, 1, rights)
                return
            self._wait_for(PATIENCE_PS)
        self._memory.write(self._node, SPACE, page * self._page, bytes(self._page))

    def read(self, address: int, length: int) -> bytes:
        """Bytes of memory.  Errors: EFAULT where nothing is mapped."""
        self._check_view(address, length)
        try:
            return self._memory.read(self._node, SPACE, address, length)
        except SimulationError as error:
            raise Refused(errno.EFAULT, str(error)) from None

    def write(self, address: int, data: bytes) -> None:
        """Store bytes.  Errors: EFAULT where nothing is mapped."""
        self._check_view(address, len(data))
        try:
            self._memory.write(self._node, SPACE, address, bytes(data))
        except SimulationError as error:
            raise Refused(errno.EFAULT, str(error)) from None

    def mapped(self, address: int, length: int) -> bool:
        """Whether all of the range is mapped."""
        if length < 1 or not 0 <= address <= self._room - length:
            return False
        entries = self._memory.state.entries[self._node, SPACE]
        first, last = address // self._page, (address + length - 1) // self._page
        if self._ghosts and not self._ghosts.isdisjoint(range(first, last + 1)):
            return False
        return bool((entries["state"][first : last + 1] != UNMAPPED).all())

    @property
    def _room(self) -> int:
        """Bytes of the address space."""
        return int(self._memory.state.entries.shape[2]) * self._page

    def _entry(self, page: int) -> Any:
        return self._memory.state.entries[self._node, SPACE, page]

    def _stretch(self, address: int, length: int) -> tuple[int, int]:
        """First page of a range, and how many.  Errors: EINVAL for what is no stretch of pages."""
        if address % self._page or length < 1 or not 0 <= address <= self._room - length:
            raise Refused(errno.EINVAL)
        return address // self._page, -(-length // self._page)
