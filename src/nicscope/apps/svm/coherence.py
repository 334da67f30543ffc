"""The protocol: page faults, diffs, write notices, and what carries them between domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.apps.svm.domain import READABLE, UNMAPPED, WRITABLE, Diff, Domain, RemoteDomain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Lock
    from nicscope.apps.svm.records import ProgramRecord, Records
    from nicscope.interfaces.tasks import Gate


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
