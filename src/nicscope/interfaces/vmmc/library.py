"""VMMC's user library: which pages of a process are pinned, and which of them it gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.machine import COMPUTE, GIVE_UP, REGISTER, UNPIN, Machine
from nicscope.errors import SimulationError
from nicscope.host.pages import TABLE_PAGES, is_table_swapped_out, swap_table
from nicscope.interfaces.arguments import LEAST, whole
from nicscope.interfaces.buffers import checked_range
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.tasks import NO_END, left
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.layout import DONE, STATUS_NAMES
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.state import translation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.vmmc.cluster import Cluster


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


class UserLibrary(Process):
    """What a process of VMMC knows of its own pinned pages, and has the driver do with them."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        assert cluster.simulation is not None
        self.policy: Callable[[Sequence[PinnedPage]], int] | None = None
        """The application's own replacement policy: the page to unpin, of those it is handed."""
        self._book = PinBook(cluster.simulation.machine, self.node, self.number)
        self._ended: dict[int, str] = {}  # how transfers have, that nobody has waited for
        self._reaped = 0

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
        await self._sim_process.ask(COMPUTE, duration=self._cost("system_call"))
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
        address, length = place
        await self._make_room(self._pages(address, length))
        ended = await self._sim_process.ask(
            REGISTER, peer=self.port, address=address, payload=length
        )
        if ended.address != DONE:
            raise SimulationError(
                f"cannot {what}: {STATUS_NAMES[ended.address]} to pin {length} bytes"
            )

    async def _give_up(self, place: Place | None) -> None:
        if place is not None:
            address, length = place
            await self._sim_process.ask(GIVE_UP, peer=self.port, address=address, payload=length)

    def _pages(self, address: int, length: int) -> range:
        page_size = self._memory.page_size
        return range(address // page_size, (address + length - 1) // page_size + 1)

    def _cost(self, name: str) -> int:
        costs: Any = self._ports.costs[self.node]
        return int(costs[name])
