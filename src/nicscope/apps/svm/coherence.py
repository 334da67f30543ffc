"""Coherence domains, whose processes share one copy of memory, and the protocol between them.

A domain has arrays, twins and diffs; the protocol has page faults, write notices and wires.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.errors import SimulationError
from nicscope.interfaces.programs import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

    from nicscope.apps.svm.process import Lock, ProgramRecord, Records


PAGE = 4096  # bytes
WORD = 4  # bytes: what a diff tells apart


@dataclass(frozen=True, eq=False)
class SharedArray:
    """An array in shared memory: ``first`` is its first byte in the shared address space."""

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    page_bytes: int

    @cached_property
    def byte_count(self) -> int:
        """The array's length in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @cached_property
    def row_elements(self) -> int:
        """Of each of its rows."""
        return math.prod(self.shape[1:])

    def in_bytes(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        """The array within ``memory``, a copy of the shared address space."""
        part = memory.reshape(-1)[self.first : self.first + self.byte_count]
        return part.view(self.dtype).reshape(self.shape)

    def pages(self, begin: int, end: int) -> NDArray[np.int64]:
        """The pages of its elements ``begin`` to ``end``, counted through all its axes."""
        size = self.dtype.itemsize
        first = (self.first + begin * size) // self.page_bytes
        last = (self.first + end * size - 1) // self.page_bytes
        return np.arange(first, last + 1, dtype=np.int64)

    def pages_of_elements(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some elements of its one axis, in that order, often more than once."""
        size = self.dtype.itemsize
        first = self.first + elements * size
        if self.page_bytes % size == 0:  # none lies in two
            return first // self.page_bytes
        return np.stack([first, first + size - 1], axis=1).ravel() // self.page_bytes

    def pages_of_each_row(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some of its rows, row by row."""
        width = self.row_elements * self.dtype.itemsize
        begins = self.first + rows * width
        if self.page_bytes % width == 0 == self.first % width:  # none lies in two
            return begins // self.page_bytes
        first, last = begins // self.page_bytes, (begins + width - 1) // self.page_bytes
        many = last - first + 1
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        return np.asarray(np.repeat(first, many) + within)

    def pages_of_rows(self, rows: range, columns: range) -> NDArray[np.int64]:
        """The pages of a block of a matrix, row by row; each once in a row."""
        width = self.row_elements
        runs = [self.pages(row * width + columns.start, row * width + columns.stop) for row in rows]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)


class Layout:
    """Arrays one after the other, each page aligned."""

    def __init__(self, page_bytes: int = PAGE) -> None:
        if page_bytes < WORD or page_bytes & (page_bytes - 1):
            raise SimulationError(f"a page has a power of two of bytes, not {page_bytes}")
        self.page_bytes = page_bytes
        self.arrays: dict[str, SharedArray] = {}
        self._used = 0

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self._used // self.page_bytes)

    def array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64
    ) -> SharedArray:
        """Add an array; it is initially zero.

        Errors: ``SimulationError`` for a name twice, no elements, or elements of no whole words.
        """
        kind = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if name in self.arrays:
            raise SimulationError(f"there is a shared array {name!r} already")
        if not sizes or min(sizes) < 1:
            raise SimulationError(f"shared array {name!r}: shape {sizes} has no elements")
        if kind.itemsize % WORD or kind.hasobject:
            raise SimulationError(
                f"shared array {name!r}: elements of {kind} are not whole words of {WORD} bytes"
            )
        first = self.pages * self.page_bytes
        made = SharedArray(name, first, sizes, kind, self.page_bytes)
        self.arrays[name] = made
        self._used = first + made.byte_count
        return made


RUN_HEAD = 8  # bytes of a message for each run of words: where it begins, and how many


class Diff(NamedTuple):
    """A diff for a page's home: ``words`` of the page, ascending, and their new ``values``."""

    page: int
    words: NDArray[np.int64]
    values: NDArray[np.uint32]
    pid: int = 0  # on its node, of the process that wrote them

    @property
    def first_byte(self) -> int:
        """The offset of its first word in the page."""
        return int(self.words[0]) * WORD

    @property
    def message_bytes(self) -> int:
        """Its size as a message: each word, and a header for each run of words."""
        runs = 1 + int(np.count_nonzero(np.diff(self.words) != 1))
        return WORD * len(self.words) + RUN_HEAD * runs

    def apply(self, memory: NDArray[np.uint8]) -> None:
        """Apply the diff to ``memory``, whose rows are pages."""
        self.apply_to(memory[self.page])

    def apply_to(self, copy: NDArray[np.uint8]) -> None:
        """Apply the diff to a copy of its page."""
        copy.view(np.uint32)[self.words] = self.values


def diff_of(
    page: int,
    copy: NDArray[np.uint8],
    twin: NDArray[np.uint8],
    mask: NDArray[np.bool_] | None = None,
    pid: int = 0,
) -> Diff | None:
    """The words of ``copy`` that differ from ``twin``, within ``mask``; None if there are none.

    ``mask``: the words that count, which ``pid`` may have written; None: all.
    """
    now = copy.view(np.uint32)
    differs = now != twin.view(np.uint32)
    words = np.flatnonzero(differs if mask is None else differs & mask)
    return Diff(page, words, now[words], pid) if len(words) else None


CLOSED = -1


class Written:
    """The words that each process has written of each page, away from the page's home.

    A node's processes share one copy, so a twin alone cannot tell which of them wrote a word.
    """

    def __init__(self, processes: int, pages: int, page_bytes: int) -> None:
        self._masks_of = np.full((processes, pages), CLOSED, np.int32)
        self._masks = np.zeros((1, page_bytes // WORD), np.bool_)
        self._free = [0]

    def open(self, process: int, page: int) -> None:
        """Begin to track a process's writes to a page."""
        if not self._free:
            many = len(self._masks)
            self._free += range(many, 2 * many)
            self._masks = np.concatenate([self._masks, np.zeros_like(self._masks)])
        self._masks_of[process, page] = self._free.pop()

    def close(self, process: int, page: int) -> NDArray[np.bool_]:
        """End tracking a process's writes to a page; the words that it may have written."""
        place = self._masks_of[process, page]
        mask: NDArray[np.bool_] = self._masks[place].copy()
        self._masks[place] = False
        self._masks_of[process, page] = CLOSED
        self._free.append(int(place))
        return mask

    def add_bytes(self, process: int, begin: int, end: int) -> None:
        """Mark bytes ``begin`` to ``end`` of the address space as written."""
        words = self._masks.shape[1]
        first, last = begin // WORD, -(-end // WORD)
        pages = self._masks_of[process, first // words : (last - 1) // words + 1]
        for index in np.flatnonzero(pages != CLOSED).tolist():
            base = (first // words + index) * words
            self._masks[pages[index], max(0, first - base) : last - base] = True

    def add_items(self, process: int, begins: NDArray[np.int64], size: int) -> None:
        """Mark items of ``size`` bytes that begin at ``begins`` as written."""
        if len(self._free) == len(self._masks):  # nobody writes anything away from its home
            return
        words = self._masks.shape[1]
        each = size // WORD
        if each > words:  # more than two pages each
            for begin in begins.tolist():
                self.add_bytes(process, begin, begin + size)
            return
        firsts = begins // WORD
        lasts = firsts + each - 1
        masks = self._masks_of[process]
        is_open = (masks[firsts // words] != CLOSED) | (masks[lasts // words] != CLOSED)
        every = (firsts[is_open, None] + np.arange(each)).ravel()
        places = masks[every // words]
        is_open = places != CLOSED
        self._masks[places[is_open], every[is_open] % words] = True


UNMAPPED, READABLE, WRITABLE = 0, 1, 2  # how a process has a page
POISON = 0xA5  # what lies in copies that are out of date


class RemoteDomain(NamedTuple):
    """A remote domain, of which only the location is known here."""

    number: int
    node: int

    @property
    def coming(self) -> dict[int, Gate]:
        """Pages in flight there, which are not known here."""
        return {}


class Domain:
    """A node whose processes share memory, or a single process."""

    def __init__(
        self,
        number: int,
        node: int,
        processes: Sequence[int],
        protocol_pid: int,
        shape: tuple[int, int],
    ) -> None:
        """``processes`` of the whole program; ``shape``: how many pages of how many bytes.

        ``protocol_pid``: of the process of its node that answers for it when its own do not.
        """
        pages, page_bytes = shape
        self.number = number
        self.node = node
        self.protocol_pid = protocol_pid
        self.local = {process: place for place, process in enumerate(processes)}
        self.memory = np.zeros((pages, page_bytes), np.uint8)
        self._arrays: dict[SharedArray, NDArray[Any]] = {}
        self.is_valid = np.zeros(pages, np.bool_)
        self.mapped = np.zeros((len(processes), pages), np.uint8)
        self.outdated = np.zeros(pages, np.int64)  # how often its copy has been
        self.twins: dict[int, NDArray[np.uint8]] = {}
        self.written = Written(len(processes), pages, page_bytes)
        self.coming: dict[int, Gate] = {}  # pages on their way here; open when they are here
        self.leaving: dict[int, Gate] = {}  # pages whose diffs are on their way home
        self._diffs: Counter[int] = Counter()  # on their way, by page
        self.updated_at_home: set[int] = (
            set()
        )  # pages of its own in which it knows of others' words
        self.unannounced: set[int] = set()  # written, at home by now, and not in a notice yet

    def array(self, array: SharedArray) -> NDArray[Any]:
        """A shared array as its copy has it; nobody may change how the view is used."""
        found = self._arrays.get(array)
        if found is None:
            found = self._arrays[array] = array.in_bytes(self.memory)
        return found

    def make_writable(self, process: int, page: int, *, at_home: bool) -> None:
        """Make a page writable for a process; keep a twin of it, except at its home."""
        place = self.local[process]
        self.mapped[place, page] = WRITABLE
        if not at_home:
            self.written.open(place, page)
            if page not in self.twins:
                self.twins[page] = self.memory[page].copy()

    def write_protect(self, page: int, process: int) -> Diff | None:
        """Write-protect a page for a process; the diff since its twin.

        Whoever else writes it goes on, against a twin that has these words.
        """
        place = self.local[process]
        if self.mapped[place, page] != WRITABLE:
            return None
        self.mapped[place, page] = READABLE
        twin = self.twins[page]
        mask = self.written.close(place, page)
        if not (self.mapped[:, page] == WRITABLE).any():
            mask[:] = True  # the last of them leaves nothing behind
            del self.twins[page]
        found = diff_of(page, self.memory[page], twin, mask, self.pid_of(process))
        if found is not None:
            found.apply_to(twin)
        return found

    @contextlib.contextmanager
    def awaiting(self, page: int) -> Iterator[Gate]:
        """Mark the page as in flight within the block; the domain's other processes wait for it."""
        gate = self.coming[page] = Gate()
        try:
            yield gate
        finally:
            del self.coming[page]
            gate.open()

    def write_protect_home(self, pages: NDArray[np.int64], rows: Sequence[int]) -> None:
        """Write-protect ``pages`` of this home for the processes of ``rows``."""
        for row in rows:
            mine = pages[self.mapped[row, pages] == WRITABLE]
            self.mapped[row, mine] = READABLE
            self.unannounced.update(mine.tolist())

    def used(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``pages`` of which the domain has a copy, or one in flight."""
        is_used = self.is_valid[pages]
        if self.coming:
            is_used |= np.isin(pages, list(self.coming))
        return pages[is_used]

    def leave(self, page: int) -> None:
        """Count a diff of the page that is in flight to its home."""
        self._diffs[page] += 1
        self.leaving.setdefault(page, Gate())

    def arrive(self, page: int) -> None:
        """Count a diff of the page that has arrived at its home."""
        self.unannounced.add(page)
        self._diffs[page] -= 1
        if not self._diffs[page]:
            del self._diffs[page]
            self.leaving.pop(page).open()

    def pid_of(self, process: int) -> int:
        """The process's pid on its node, where the protocol's pid follows the program's."""
        return process % self.protocol_pid

    @property
    def processes(self) -> list[int]:
        """The global numbers of its processes."""
        return list(self.local)

    def invalidate_copy(self, page: int) -> None:
        """Invalidate the domain's copy of the page."""
        assert page not in self.twins, "what was written in it would be lost"
        self.outdated[page] += 1
        self.is_valid[page] = False
        self.mapped[:, page] = UNMAPPED
        self.memory[page] = POISON


class Notices:
    """Write notices.  A clock is, for each domain, how many of its intervals one knows."""

    def __init__(self, domains: int) -> None:
        self.clocks = np.zeros((domains, domains), np.int64)
        self._intervals: list[list[NDArray[np.int64]]] = [[] for _ in range(domains)]
        self._forgotten = np.zeros(domains, np.int64)  # intervals that everybody knows

    def end_interval(self, domain: int, pages: Iterable[int]) -> None:
        """Close ``domain``'s interval with the pages that it wrote, unless there are none."""
        written = np.array(sorted(pages), np.int64)
        if len(written):
            self._intervals[domain].append(written)
            self.clocks[domain, domain] += 1

    def learn(self, domain: int, clock: NDArray[np.int64]) -> NDArray[np.int64]:
        """Advance ``domain``'s knowledge to ``clock``; the pages that others wrote, ascending."""
        news = [np.empty(0, np.int64)]
        for writer, (known, told) in enumerate(zip(self.clocks[domain], clock, strict=True)):
            if writer != domain and told > known:
                gone = self._forgotten[writer]
                news += self._intervals[writer][known - gone : told - gone]
        self.clocks[domain] = np.maximum(self.clocks[domain], clock)
        return np.unique(np.concatenate(news))

    def forget(self) -> None:
        """Discard intervals that every domain knows."""
        known = self.clocks.min(axis=0)
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(known[writer] - self._forgotten[writer])]
        self._forgotten = known


class Caller(NamedTuple):
    """The process on whose behalf, and in whose time, an operation runs."""

    endpoint: Any  # of any interface
    domain: Domain
    pid: int  # on its node


class Costs(NamedTuple):
    """Logical costs (us), so that processes interleave as they might on real machines.

    Assumed: those of the runs of the original programs that the facts were measured on.
    """

    access: float = 0.012  # of one element
    fetch: float = 150.0  # of a page from its home
    local_miss: float = 12.0  # of a page that its domain has and the process has not
    write_fault: float = 25.0
    diff: float = 40.0  # made and sent home
    remote_lock: float = 60.0
    local_lock: float = 3.0
    barrier: float = 120.0


class Wire(Protocol):
    """A transport for pages and diffs."""

    async def open(self, caller: Caller) -> None:
        """Prepare the caller's process to send and to be reached."""

    async def claim(self, caller: Caller, page: int) -> int:
        """Make the caller's domain the home of ``page`` if none is; returns the home."""

    def settle(self, caller: Caller, page: int) -> None:
        """Allow others to fetch ``page``, now that the caller's domain, its home, has it."""

    async def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool = False
    ) -> None:
        """Fetch ``page`` from its home into the caller's domain.

        ``is_initial``: as its creator has it, to whoever is its home from now on.
        """

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Apply ``diff`` at its page's home."""

    def publish(self, caller: Caller, page: int) -> None:
        """Make the caller's writes to a page of its own domain visible to fetches."""

    def accept(self, caller: Caller, page: int) -> None:
        """Make diffs that arrived for a page of the caller's domain visible to the caller."""

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Advance the caller's time."""


class LogicalWire:
    """Transfers everything at once, after its cost; and records the requests."""

    def __init__(self, costs: Costs, records: Records) -> None:
        self._costs = costs
        self._records = records

    async def open(self, caller: Caller) -> None:
        """Does nothing."""

    async def claim(self, caller: Caller, page: int) -> int:  # noqa: ARG002 - whichever it is
        """Does nothing: homes are global knowledge here."""
        return caller.domain.number

    def settle(self, caller: Caller, page: int) -> None:
        """Others see that a page is on its way."""

    async def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool = False
    ) -> None:
        """Copy the page from its home when the cost of that has passed."""
        self._records.fetch(caller, page, home, is_initial=is_initial)
        assert isinstance(home, Domain)
        await caller.endpoint.sleep(self._costs.fetch)
        caller.domain.memory[page] = home.memory[page]

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Write the diff's words at the home when the cost of that has passed."""
        self._records.deposit(caller, diff, home)
        assert isinstance(home, Domain)
        await caller.endpoint.sleep(self._costs.diff)
        diff.apply(home.memory)

    def publish(self, caller: Caller, page: int) -> None:
        """Does nothing: fetches read the domain's copy itself."""

    def accept(self, caller: Caller, page: int) -> None:
        """Does nothing, as ``publish``."""

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Advance the caller's time."""
        await caller.endpoint.sleep(microseconds)


NO_HOME = -1


class Coherence:
    """The coherence protocol of all pages; methods take the process that they run for."""

    def __init__(
        self,
        domains: Sequence[Domain | RemoteDomain],
        notices: Notices,
        wire: Wire,
        costs: Costs,
        record: ProgramRecord,
        *,
        is_eager: bool = False,
    ) -> None:
        """``is_eager``: who lets go of a lock brings home what it wrote at once.

        So it is where no other process can do that in its name later.  ``domains`` are those of
        the program; of what is elsewhere nothing is known but what is carried here.
        """
        self.here = [domain for domain in domains if isinstance(domain, Domain)]
        pages = len(self.here[0].memory)
        self.domains = domains
        self.homes = np.full(pages, NO_HOME, np.int32)  # a domain of each page
        self.is_initial = np.zeros(pages, np.bool_)  # written before the processes were made
        self._notices = notices
        self._wire = wire
        self._costs = costs
        self._record = record
        self._is_eager = is_eager

    async def open(self, caller: Caller) -> None:
        """Prepare the caller's process to send and to be reached, before any other operation."""
        await self._wire.open(caller)

    async def have(self, caller: Caller, process: int, page: int, least: int) -> None:
        """Make a page readable, or writable, for a process: page faults until it is."""
        domain = caller.domain
        mapped = domain.mapped[domain.local[process]]
        while mapped[page] < least:
            if page in domain.leaving and not domain.is_valid[page]:
                # At its home it lacks what this domain wrote.
                await self._wait(caller, domain.leaving[page])
            elif page in domain.coming:
                await self._wait(caller, domain.coming[page])
            elif self.homes[page] == NO_HOME:
                await self._settle(caller, page)
                self._map(domain, process, page)
            elif not domain.is_valid[page]:
                await self._fetch(caller, page, self.domains[self.homes[page]])
                self._map(domain, process, page)
            elif mapped[page] == UNMAPPED:
                await self._serve(caller, self._costs.local_miss)
                self._map(domain, process, page)
            else:
                await self._serve(caller, self._costs.write_fault)
                if domain.is_valid[page] and mapped[page] == READABLE:
                    at_home = bool(self.homes[page] == domain.number)
                    domain.make_writable(process, page, at_home=at_home)

    async def _wait(self, caller: Caller, gate: Gate) -> None:
        """Wait for a page or diff that another process is transferring."""
        await gate.wait(caller.endpoint)
        self._record.passed(caller, gate)

    async def _serve(self, caller: Caller, microseconds: float) -> None:
        """Charge the caller's CPU for a local page fault."""
        self._record.compute(caller, microseconds)
        await self._wire.spend(caller, microseconds)

    async def ensure_home_writable(
        self, caller: Caller, process: int, pages: NDArray[np.int64]
    ) -> None:
        """Make those of ``pages`` writable that the domain is the home of and the process reads.

        Faults that wait for nobody, all at once.
        """
        domain = caller.domain
        mapped = domain.mapped[domain.local[process]]
        is_own = (mapped[pages] == READABLE) & (self.homes[pages] == domain.number)
        if is_own.any():
            at_home = np.unique(pages[is_own])
            await self._serve(caller, self._costs.write_fault * len(at_home))
            mapped[at_home[mapped[at_home] == READABLE]] = WRITABLE

    def _map(self, domain: Domain, process: int, page: int) -> None:
        """Map the page for the process, if the copy is still valid after the time that passed."""
        mapped = domain.mapped[domain.local[process]]
        if domain.is_valid[page] and mapped[page] == UNMAPPED:
            mapped[page] = READABLE

    async def _settle(self, caller: Caller, page: int) -> None:
        """Make the first domain to touch a page its home, and copy the initial content there."""
        domain, creator = caller.domain, self.domains[0]
        with domain.awaiting(page) as gate:
            self.homes[page] = await self._wire.claim(caller, page)
            if self.homes[page] != domain.number:
                return
            if self.is_initial[page] and domain is not creator:
                await self._wire.fetch(caller, page, creator, is_initial=True)
                self._record.opens(caller, gate)
            self._wire.settle(caller, page)
            domain.is_valid[page] = True

    async def _fetch(self, caller: Caller, page: int, home: Domain | RemoteDomain) -> None:
        """Fetch a page from its home, waiting for it if it is in flight there itself."""
        domain = caller.domain
        if page in home.coming:
            await self._wait(caller, home.coming[page])
            return
        before = domain.outdated[page]
        with domain.awaiting(page) as gate:
            await self._wire.fetch(caller, page, home)
            self._record.opens(caller, gate)
        domain.is_valid[page] = domain.outdated[page] == before

    async def flush(self, caller: Caller, processes: Iterable[int] | None = None) -> None:
        """Send home the diffs of these processes of the caller's domain, of all if none are named.

        It ends when nothing that was on its way is any more, and the domain's interval with it.
        """
        domain = caller.domain
        of = domain.processes if processes is None else [*processes]
        rows = [domain.local[process] for process in of]
        written = np.flatnonzero((domain.mapped[rows] == WRITABLE).any(axis=0))
        at_home = self.homes[written] == domain.number
        for page in written[at_home].tolist():
            self._wire.publish(caller, page)
        domain.write_protect_home(written[at_home], rows)
        for page in written[~at_home].tolist():
            for process in of:
                diff = domain.write_protect(page, process)
                if diff is not None:
                    domain.leave(page)
                    await self._send_home(caller, diff)
        for gate in [*domain.leaving.values()]:
            await self._wait(caller, gate)
        self._notices.end_interval(domain.number, domain.unannounced)
        domain.unannounced.clear()

    async def _send_home(self, caller: Caller, diff: Diff) -> None:
        """Send ``diff``, which is marked as leaving, to its page's home."""
        try:
            await self._wire.deposit(caller, diff, self.domains[self.homes[diff.page]])
        finally:
            self._record.opens(caller, caller.domain.leaving[diff.page])
            caller.domain.arrive(diff.page)

    def _apply_notices(self, domain: Domain, clock: NDArray[np.int64]) -> list[Diff]:
        """Advance ``domain``'s knowledge to ``clock`` and invalidate its older copies.

        What it has itself written in such pages is leaving from now on.
        """
        unsent = []
        pages = self._notices.learn(domain.number, clock)
        at_home = self.homes[pages] == domain.number
        domain.updated_at_home.update(pages[at_home].tolist())
        for page in domain.used(pages[~at_home]).tolist():
            for process in domain.processes:
                diff = domain.write_protect(page, process)
                if diff is not None:
                    domain.leave(page)
                    unsent.append(diff)
            if domain.is_valid[page] or page in domain.coming:
                domain.invalidate_copy(page)
        return unsent

    async def acquire(self, caller: Caller, lock: Lock) -> None:
        """Acquire semantics: apply the write notices of the last holder of ``lock``."""
        domain = caller.domain
        if lock.domain in (None, domain.number):
            await self._wire.spend(caller, self._costs.local_lock)
        else:
            await self._wire.spend(caller, self._costs.remote_lock)
            if lock.clock is None:  # its last domain has kept to itself what it wrote
                behind = self.here[lock.domain]
                there = Caller(caller.endpoint, behind, behind.protocol_pid)
                self._record.begin_on_behalf(there, caller)
                await self.flush(there)
                self._record.end_on_behalf(there, caller)
                lock.clock = self._notices.clocks[lock.domain].copy()
            await self.learn(caller, lock.clock)
        lock.domain = domain.number

    async def learn(self, caller: Caller, clock: NDArray[np.int64]) -> None:
        """Acquire semantics: apply the write notices up to ``clock``."""
        for diff in self._apply_notices(caller.domain, clock):
            await self._send_home(caller, diff)
        self.accept(caller)

    async def release(self, caller: Caller, lock: Lock) -> None:
        """Release semantics: send diffs home if another domain waits for ``lock``.

        Else that waits until one does: an interval ends when a lock moves, not when it is let go.
        """
        lock.clock = None
        if lock.leaves_domain or self._is_eager:
            await self.flush(caller)
            lock.clock = self._notices.clocks[caller.domain.number].copy()

    def accept(self, caller: Caller) -> None:
        """Make diffs that arrived at the caller's homes and are known by notices visible."""
        for page in sorted(caller.domain.updated_at_home):
            self._wire.accept(caller, page)
        caller.domain.updated_at_home.clear()

    def meet(self, everything: NDArray[np.int64] | None = None) -> None:
        """Barrier semantics: all domains here learn ``everything``, by default all that any knows.

        At a barrier, when all have brought home what they wrote.
        """
        if everything is None:
            everything = self._notices.clocks.max(axis=0)
        for domain in self.here:
            unsent = self._apply_notices(domain, everything)
            assert not unsent, "a process has passed a barrier with writes of its own"
        self._notices.forget()
