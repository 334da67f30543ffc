"""The coherence protocol between domains: page faults, write notices, wires, and a run's record.

A run's record says what its processes asked of their network interface, and what each waited for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nicscope.apps.svm.memory import (
    PAGE,
    READABLE,
    UNMAPPED,
    WORD,
    WRITABLE,
    Diff,
    Domain,
    Notices,
    RemoteDomain,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.programs import Gate


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
    skew: float = 0.0  # of the processes that leave a barrier, at most


SHARED_BASE = 1 << 32  # virtual address of shared memory, in every process
CONTROL_BASE = 1 << 20  # of the page from which requests are sent, always resident
REQUEST_BYTES = 32
SEND, WRITE, READ = 0, 1, 4  # codes of a trace's operations

COLUMNS = {
    "time_ns": np.int64,
    "node": np.int32,
    "pid": np.int32,
    "op": np.uint8,
    "address": np.uint64,
    "length": np.uint32,
    "peer": np.int32,
    "initial": np.bool_,  # the first distribution of what stood there before the processes
}


class Records:
    """Rows of a request trace, and counts of events."""

    def __init__(
        self, program: ProgramRecord, pages: int, page_bytes: int = PAGE, *, is_direct: bool = False
    ) -> None:
        """``pages`` of shared memory.  ``is_direct``: requests are GeNIMA's.

        It has no process at the other end that would answer (miNI, V, [23]): pages are read, and
        runs of a diff's words, write notices and barriers written where they belong; locks are the
        NICs' own.
        """
        self.program = program
        self._pages = pages
        self._page_bytes = page_bytes
        self._is_direct = is_direct
        self._log_bytes = 0
        if is_direct:  # of each process; it holds a notice of each page, the most of an interval
            self._log_bytes = -(-(REQUEST_BYTES + WORD * pages) // page_bytes) * page_bytes
        self._logged: dict[int, int] = {}  # bytes of its log that a process has filled
        self._rows: list[tuple[int, int, int, int, int, int, int, bool]] = []
        self.fetches = 0
        self.initial_copies = 0
        self.diffs = 0
        self.diff_bytes = 0

    def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool
    ) -> None:
        """Record a fetch: a request sent from the control page, and a read into the page."""
        self.initial_copies += is_initial
        self.fetches += not is_initial
        to = (home.node, is_initial)
        if not self._is_direct:
            self._add(caller, SEND, CONTROL_BASE, REQUEST_BYTES, *to)
        self._add(caller, READ, self._address(page), self._page_bytes, *to)
        self.program.fetch(caller, page, home, is_initial=is_initial)

    def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Record a diff's write to its page's home, from where its first word lies.

        Its row ends with the page at the latest: heads of runs are no memory of the page's.  What
        a node's protocol process brings home, as a lock is wanted elsewhere, is that process's own
        request: each node has five that use the network (UTLB, 6).
        """
        self.diffs += 1
        self.diff_bytes += diff.message_bytes
        is_protocols = caller.pid == caller.domain.protocol_pid
        sender = caller if is_protocols else caller._replace(pid=diff.pid)
        pieces = [(diff.first_byte, min(diff.message_bytes, self._page_bytes - diff.first_byte))]
        if self._is_direct:
            pieces = [(int(run[0]) * WORD, len(run) * WORD) for run in diff.runs]
        begin = diff.page * self._page_bytes
        pieces = [(begin + offset, length) for offset, length in pieces]
        self._write(sender, home, pieces)
        self.program.deposit(caller, [(home.node, *piece) for piece in pieces])

    def tell(
        self, sender: Caller, to: Domain | RemoteDomain, notices: int = 0, *, of_lock: bool
    ) -> None:
        """Record a message of a lock or barrier: a send from where the sender's requests lie.

        A direct barrier is a write to the same place at the other end; its manager has no protocol
        process, so it is its first that tells the rest.
        """
        if not self._is_direct:
            length = REQUEST_BYTES + WORD * notices
            self._add(sender, SEND, CONTROL_BASE, length, to.node, False)
        elif not of_lock:
            first = sender._replace(pid=sender.pid % sender.domain.protocol_pid)
            self._add(first, WRITE, CONTROL_BASE, REQUEST_BYTES, to.node, False)

    def announce(
        self, caller: Caller, others: Sequence[Domain | RemoteDomain], notices: int
    ) -> None:
        """Record that the caller tells ``others`` of the pages that it wrote, where that is direct.

        Each has a log of each process behind shared memory, at the same address as the process
        itself, and its copy is written a page at a time.  What no longer fits before a log's end
        begins it again.  In a program trace a barrier carries no notices.
        """
        if not self._is_direct:
            return
        length = REQUEST_BYTES + WORD * notices
        number = self.program.number_of(caller)
        begin = self._logged.get(number, 0)
        if begin + length > self._log_bytes:
            begin = 0
        self._logged[number] = begin + length
        begin += self._pages * self._page_bytes + number * self._log_bytes
        cuts = range(begin // self._page_bytes * self._page_bytes, begin + length, self._page_bytes)
        ends = [*cuts[1:], begin + length]
        pieces = [
            (max(begin, cut), end - max(begin, cut)) for cut, end in zip(cuts, ends, strict=True)
        ]
        for other in others:
            self._write(caller, other, pieces)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The rows, rising in time."""
        rows = sorted(self._rows, key=lambda row: row[0])
        held = [*zip(*rows, strict=True)] or [()] * len(COLUMNS)
        return {
            name: np.array(values, kind)
            for (name, kind), values in zip(COLUMNS.items(), held, strict=True)
        }

    def _address(self, page: int) -> int:
        return SHARED_BASE + page * self._page_bytes

    def _write(
        self, caller: Caller, to: Domain | RemoteDomain, pieces: Iterable[tuple[int, int]]
    ) -> None:
        for begin, length in pieces:
            self._add(caller, WRITE, SHARED_BASE + begin, length, to.node, False)

    def _add(
        self, caller: Caller, op: int, address: int, length: int, peer: int, is_initial: bool
    ) -> None:
        time_ns = round(caller.endpoint.now_us * 1000)
        node, pid = caller.domain.node, caller.pid
        self._rows.append((time_ns, node, pid, op, address, length, peer, is_initial))


NS_PER_US = 1000
# What is not in it, for whoever reads what is.
LEFT_OUT = [
    "which pages are fetched and which diffs deposited are as recorded; only times change",
    "the order in which processes ask for a lock is as recorded",
    "making a diff and applying it takes no time of the CPU",
    "write notices are no bytes of locks and barriers",
]

Place: TypeAlias = "tuple[int, int]"  # a process, and a row's place among its rows


class ProgramRow(NamedTuple):
    """One operation of a process; ``operation`` is named as in program traces."""

    operation: str
    peer: int = -1  # the node at the other end
    address: int = 0  # in shared memory
    length: int = 0  # bytes
    name: int = 0  # of a lock
    duration_ns: int = 0
    after: tuple[int, ...] | None = None  # own rows that must have ended; None: the one before
    after_others: tuple[Place, ...] = ()  # others' rows that must have ended
    after_start_others: tuple[Place, ...] = ()  # others' rows that must have begun


@dataclass
class _RowSequence:
    """Successive rows of a process."""

    process: int
    last: int | None = None  # place of the newest
    waits: list[Place] = field(default_factory=list)  # for what its next row does too


class ProgramRecord:
    """Program trace rows of every process of a run."""

    def __init__(
        self, processes_of_node: int, page_bytes: int = PAGE, *, with_initial: bool = False
    ) -> None:
        """``with_initial``: also the first distribution of what stood there before them."""
        self._each = processes_of_node
        self._page_bytes = page_bytes
        self.with_initial = with_initial
        self._rows: dict[int, list[ProgramRow]] = {}
        self._strands: dict[Caller, _RowSequence] = {}
        self._carriers: dict[Gate, list[Place]] = {}  # rows after which a gate opens
        self._locks: dict[object, int] = {}  # numbers of their names
        self._asked: dict[int, Place] = {}  # who asked last, by lock

    def rows_of(self, process: int) -> list[ProgramRow]:
        """The rows of a process, by its global number."""
        return self._rows.get(process, [])

    def compute(self, caller: Caller, microseconds: float) -> None:
        """Record computing; adjacent computing is merged into one row."""
        strand, duration = self._strand(caller), round(microseconds * NS_PER_US)
        rows = self._rows.setdefault(strand.process, [])
        is_newest = strand.last is not None and strand.last == len(rows) - 1
        if is_newest and not strand.waits and rows[-1].operation == "compute":
            last = rows[-1]
            rows[-1] = ProgramRow(*last[:5], last.duration_ns + duration, *last[6:])
        else:
            self._add(strand, ProgramRow("compute", duration_ns=duration))

    def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool
    ) -> None:
        """Record that the caller fetches a page from its home."""
        if self.with_initial or not is_initial:
            at = page * self._page_bytes
            row = ProgramRow("fetch", peer=home.node, address=at, length=self._page_bytes)
            self._add(self._strand(caller), row)

    def deposit(self, caller: Caller, pieces: Iterable[tuple[int, int, int]]) -> None:
        """Record that the caller writes ``pieces`` to other nodes, as in a request trace.

        A piece is a node, its first byte in shared memory and its length.  All are posted at once,
        and what follows waits for all.
        """
        strand = self._strand(caller)
        before, waits = strand.last, strand.waits
        ends: list[Place] = []
        for node, address, length in pieces:
            strand.last, strand.waits = before, [*waits]
            row = ProgramRow("deposit", peer=node, address=address, length=length)
            self._add(strand, row)
            ends.append(self._newest(strand))
        strand.waits = ends[:-1]

    def ask(self, caller: Caller, lock: object) -> None:
        """Record that the caller requests a lock that others requested before."""
        name = self._locks.setdefault(lock, len(self._locks))
        before = self._asked.get(name)
        strand = self._strand(caller)
        is_others = before is not None and before[0] != strand.process
        behind = (before,) if is_others and before is not None else ()
        self._add(strand, ProgramRow("lock", name=name, after_start_others=behind))
        self._asked[name] = self._newest(strand)

    def let_go(self, caller: Caller, lock: object) -> None:
        """Record that the caller releases a lock."""
        self._add(self._strand(caller), ProgramRow("unlock", name=self._locks[lock]))

    def meet(self, caller: Caller) -> None:
        """Record that the caller arrives at the barrier."""
        self._add(self._strand(caller), ProgramRow("barrier"))

    def opens(self, caller: Caller, gate: Gate) -> None:
        """Record that the caller's last row is what others wait for at ``gate``."""
        strand = self._strand(caller)
        if strand.last is not None:
            self._carriers.setdefault(gate, []).append(self._newest(strand))

    def passed(self, caller: Caller, gate: Gate) -> None:
        """Record that the caller has waited at ``gate``."""
        strand = self._strand(caller)
        strand.waits += self._carriers.get(gate, [])

    def begin_on_behalf(self, caller: Caller, asking: Caller) -> None:
        """Attribute the caller's rows from now on to ``asking``, which waits for them."""
        of = self._strand(asking)
        number = caller.domain.processes[0]
        waits = [] if of.last is None else [self._newest(of)]
        self._strands[caller] = _RowSequence(number, None, waits)

    def end_on_behalf(self, caller: Caller, asking: Caller) -> None:
        """Record that ``asking`` has waited for what ``caller`` did for it."""
        strand = self._strands.pop(caller)
        if strand.last is not None:
            self._strand(asking).waits.append(self._newest(strand))

    def number_of(self, caller: Caller) -> int:
        """The caller's number in the whole program."""
        return caller.domain.node * self._each + caller.pid

    def _strand(self, caller: Caller) -> _RowSequence:
        return self._strands.setdefault(caller, _RowSequence(self.number_of(caller)))

    def _newest(self, strand: _RowSequence) -> Place:
        assert strand.last is not None
        return strand.process, strand.last

    def _add(self, strand: _RowSequence, row: ProgramRow) -> None:
        rows = self._rows.setdefault(strand.process, [])
        if not strand.waits and strand.last == (len(rows) - 1 if rows else None):  # most by far
            rows.append(row)
            strand.last = len(rows) - 1
            return
        own = {place for process, place in strand.waits if process == strand.process}
        own |= set() if strand.last is None else {strand.last}
        others = sorted({each for each in strand.waits if each[0] != strand.process})
        usual = {len(rows) - 1} if rows else set()
        after = None if own == usual else tuple(sorted(own))
        rows.append(ProgramRow(*row[:6], after, tuple(others), row.after_start_others))
        strand.last, strand.waits = len(rows) - 1, []


class Waiter(NamedTuple):
    """A process that waits for a lock, and its gate."""

    process: int
    domain: int
    gate: Gate


class Lock:
    """A lock with a first-in first-out queue of waiters."""

    def __init__(self, manager: int, domains: int) -> None:
        """``manager``: the domain that knows who asked last; it has the lock at first."""
        self.manager = manager
        self.holder: int | None = None
        self.domain = manager  # that had it last
        self.asked = manager  # the domain that asked last
        # What who has it next has to know; None while that is still the last domain's own affair.
        self.clock: NDArray[np.int64] | None = np.zeros(domains, np.int64)
        self.granter: Caller | None = None  # who lets go of it for one who waits elsewhere
        self.waiting: list[Waiter] = []


class Wire(ABC):
    """A transport for pages and diffs."""

    @abstractmethod
    async def claim(self, caller: Caller, page: int) -> int:
        """Make the caller's domain the home of ``page`` if none is; returns the home."""

    def settle(self, caller: Caller, page: int) -> None:  # noqa: B027 - some need not tell
        """Allow others to fetch ``page``, now that the caller's domain, its home, has it."""

    @abstractmethod
    async def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool = False
    ) -> None:
        """Fetch ``page`` from its home into the caller's domain.

        ``is_initial``: as its creator has it, to whoever is its home from now on.
        """

    @abstractmethod
    async def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Apply ``diff`` at its page's home."""

    def tell(  # noqa: B027
        self, sender: Caller, to: Domain | RemoteDomain, notices: int = 0, *, of_lock: bool
    ) -> None:
        """Send a message of a lock or barrier; where these have letters it is one already."""

    def announce(  # noqa: B027 - likewise
        self, caller: Caller, others: Sequence[Domain | RemoteDomain], notices: int
    ) -> None:
        """Tell ``others`` of the pages that the caller wrote, if that does not wait for locks."""

    def agree(self, caller: Caller, page: int) -> None:  # noqa: B027 - likewise
        """Make writes to a page of the caller's domain visible to fetches, and diffs to it here.

        Where fetches read the domain's copy itself there is nothing to do.
        """


class LogicalWire(Wire):
    """Transfers everything at once, after its cost; and records the requests."""

    def __init__(self, costs: Costs, records: Records) -> None:
        self._costs = costs
        self._records = records

    async def claim(self, caller: Caller, page: int) -> int:  # noqa: ARG002 - whichever it is
        """The caller's domain: homes are global knowledge here."""
        return caller.domain.number

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

    def tell(
        self, sender: Caller, to: Domain | RemoteDomain, notices: int = 0, *, of_lock: bool
    ) -> None:
        """Record the message; its time is part of the lock's or barrier's."""
        self._records.tell(sender, to, notices, of_lock=of_lock)

    def announce(
        self, caller: Caller, others: Sequence[Domain | RemoteDomain], notices: int
    ) -> None:
        """Record the notices; their time likewise."""
        self._records.announce(caller, others, notices)


NO_HOME = -1
BARRIER_MANAGER = 0  # a domain


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
        await caller.endpoint.sleep(microseconds)

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
            at_home = pages[is_own]
            await self._serve(caller, self._costs.write_fault * len({*at_home.tolist()}))
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
            self._wire.agree(caller, page)
        domain.write_protect_home(written[at_home], rows)
        for page in written[~at_home].tolist():
            for process in of:
                diff = domain.write_protect(page, process)
                if diff is not None:
                    domain.leave(page)
                    await self._send_home(caller, diff)
        for gate in [*domain.leaving.values()]:
            await self._wait(caller, gate)
        if domain.unannounced:
            others = [each for each in self.domains if each.number != domain.number]
            self._wire.announce(caller, others, len(domain.unannounced))
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

    def ask(self, caller: Caller, lock: Lock) -> None:
        """Tell the manager of ``lock`` that the caller's domain wants it, unless that has it.

        The manager passes it on to the domain that asked last (TreadMarks, as HLRC has it).
        """
        domain = caller.domain
        before, lock.asked = lock.asked, domain.number
        if before == domain.number:
            return
        if lock.manager != domain.number:
            self._wire.tell(caller, self.domains[lock.manager], of_lock=True)
        if lock.manager != before:
            manager = self._protocol_process(caller, lock.manager)
            self._wire.tell(manager, self.domains[before], of_lock=True)

    def _protocol_process(self, caller: Caller, domain: int) -> Caller:
        """The protocol process of ``domain``'s node, in the caller's time."""
        there = self.here[domain]
        return Caller(caller.endpoint, there, there.protocol_pid)

    def _grant(
        self, sender: Caller, to: Domain, clock: NDArray[np.int64], *, of_lock: bool = False
    ) -> None:
        """Send a lock or a barrier's release with the write notices up to ``clock``."""
        if sender.domain is not to:
            notices = self._notices.lacked(to.number, clock)
            self._wire.tell(sender, to, notices, of_lock=of_lock)

    async def acquire(self, caller: Caller, lock: Lock) -> None:
        """Acquire semantics: apply the write notices of the last holder of ``lock``."""
        domain = caller.domain
        if lock.domain == domain.number:
            await caller.endpoint.sleep(self._costs.local_lock)
        else:
            await caller.endpoint.sleep(self._costs.remote_lock)
            there = self._protocol_process(caller, lock.domain)
            if lock.clock is None:  # its last domain has kept to itself what it wrote
                self._record.begin_on_behalf(there, caller)
                await self.flush(there)
                self._record.end_on_behalf(there, caller)
                lock.clock = self._notices.clocks[lock.domain].copy()
            self._grant(lock.granter or there, domain, lock.clock, of_lock=True)
            await self.learn(caller, lock.clock)
        lock.domain, lock.granter = domain.number, None

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
        leaves_domain = lock.waiting and lock.waiting[0].domain != lock.domain
        if leaves_domain or self._is_eager:
            await self.flush(caller)
            lock.clock = self._notices.clocks[caller.domain.number].copy()
        if leaves_domain:
            lock.granter = caller

    def accept(self, caller: Caller) -> None:
        """Make diffs that arrived at the caller's homes and are known by notices visible."""
        for page in sorted(caller.domain.updated_at_home):
            self._wire.agree(caller, page)
        caller.domain.updated_at_home.clear()

    def arrive(self, caller: Caller) -> None:
        """Tell the barrier's manager what the caller's domain wrote, all of which has arrived."""
        manager, clock = self.here[BARRIER_MANAGER], self._notices.clocks[caller.domain.number]
        self._grant(caller, manager, clock)

    def leave(self, caller: Caller) -> None:
        """Have the barrier's manager tell all others what any of them wrote."""
        everything = self._notices.clocks.max(axis=0)
        for domain in self.here:
            self._grant(self._protocol_process(caller, BARRIER_MANAGER), domain, everything)
        self.meet(everything)

    def meet(self, everything: NDArray[np.int64]) -> None:
        """Barrier semantics: all domains here learn ``everything`` that any knows.

        At a barrier, when all have brought home what they wrote.
        """
        for domain in self.here:
            unsent = self._apply_notices(domain, everything)
            assert not unsent, "a process has passed a barrier with writes of its own"
        self._notices.forget()
