"""Pages and diffs carried by VMMC's remote fetches and stores, on simulated machines.

Each process is a domain, and exports the shared address space as it has it in its simulated memory.
What its program reads and writes is a copy of that beside the machine.  When its writes have to be
seen, and when it is told of others', ``Region.agree`` has both hold the same.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.svm.layout import WORD
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.apps.svm.diffs import Diff
    from nicscope.apps.svm.domain import Domain
    from nicscope.apps.svm.records import Records
    from nicscope.apps.svm.wire import Caller
    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.interfaces.vmmc import Endpoint, Imported, Transfer

AT_ONCE = 16  # stores of a diff that nobody has waited for yet


class Region:
    """A domain's shared memory in the simulated memory of its process."""

    def __init__(self, domain: Domain, buffer: Buffer) -> None:
        self._domain = domain
        self._buffer = buffer
        self._agreed = np.zeros_like(domain.memory)  # what both held when they last agreed

    def agree(self, page: int) -> None:
        """Give the machine what the program wrote in ``page``, and the program what came there."""
        there = self.of_page(page)
        came, wrote = np.asarray(there).view(np.uint32), self._domain.memory[page].view(np.uint32)
        agreed = self._agreed[page].view(np.uint32)
        has_come = came != agreed
        wrote[has_come] = came[has_come]
        agreed[:] = wrote
        there[:] = self._domain.memory[page]

    def take(self, page: int) -> None:
        """Give the program the whole page as it has come."""
        self._domain.memory[page] = np.asarray(self.of_page(page))
        self._agreed[page] = self._domain.memory[page]

    def give(self, page: int) -> None:
        """Give the machine the whole page as the program has it."""
        self.of_page(page)[:] = self._domain.memory[page]
        self._agreed[page] = self._domain.memory[page]

    def of_page(self, page: int) -> Any:
        """The page in simulated memory."""
        size = self._domain.memory.shape[1]
        return self._buffer.part(page * size, size).array()


class Seat(NamedTuple):
    """What a domain's process has at its NIC."""

    endpoint: Endpoint
    buffer: Buffer
    region: Region
    imported: list[Imported | None]  # of each domain; None: itself


class VmmcWire:
    """Carries by remote fetch and remote store; time passes as the machine has it."""

    def __init__(self, records: Records, domains: Sequence[Domain]) -> None:
        self._records = records
        self._domains = domains
        self._seats: dict[int, Seat] = {}

    async def open(self, caller: Caller) -> None:
        """Export the domain's memory, and import that of all others."""
        endpoint, domain = caller.endpoint, caller.domain
        buffer = endpoint.allocate(domain.memory.size)
        region = Region(domain, buffer)
        for page in np.flatnonzero(domain.memory.any(axis=1)).tolist():
            region.give(page)
        seat = Seat(endpoint, buffer, region, [None] * len(self._domains))
        self._seats[domain.number] = seat
        await endpoint.export(buffer, _name(domain))
        for other in self._domains:
            if other is not domain:
                seat.imported[other.number] = await endpoint.import_buffer(other.node, _name(other))

    async def fetch(
        self, caller: Caller, page: int, home: Domain, *, is_initial: bool = False
    ) -> None:
        """Fetch the page into the caller's own."""
        self._records.fetch(caller, page, home, is_initial=is_initial)
        seat, size = self._seats[caller.domain.number], home.memory.shape[1]
        transfer = await seat.endpoint.fetch(
            _imported(seat, home), seat.buffer, page * size, at=page * size, length=size
        )
        _check(await seat.endpoint.wait(transfer), "fetch", page)
        seat.region.take(page)

    async def deposit(self, caller: Caller, diff: Diff, home: Domain) -> None:
        """Store each run of the diff's words at the home."""
        self._records.deposit(caller, diff, home)
        seat, first = self._seats[caller.domain.number], diff.page * home.memory.shape[1]
        seat.region.give(diff.page)
        ends = np.flatnonzero(np.diff(diff.words) != 1)
        posted: deque[Transfer] = deque()
        for run in np.split(diff.words, ends + 1):
            if len(posted) == AT_ONCE:
                _check(await seat.endpoint.wait(posted.popleft()), "diff", diff.page)
            at = first + int(run[0]) * WORD
            posted.append(
                await seat.endpoint.store(
                    _imported(seat, home), seat.buffer, at, at=at, length=len(run) * WORD
                )
            )
        for transfer in posted:
            _check(await seat.endpoint.wait(transfer), "diff", diff.page)

    def publish(self, caller: Caller, page: int) -> None:
        """What the program wrote is in the machine's memory from now on."""
        self._seats[caller.domain.number].region.agree(page)

    def accept(self, caller: Caller, page: int) -> None:
        """What the NIC wrote there is the program's to read from now on."""
        self._seats[caller.domain.number].region.agree(page)

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Let time pass."""
        await caller.endpoint.sleep(microseconds)


def _name(domain: Domain) -> str:
    return f"shared memory of {domain.number}"


def _imported(seat: Seat, home: Domain) -> Imported:
    found = seat.imported[home.number]
    assert found is not None, "a domain carries nothing to itself"
    return found


def _check(completion: Any, what: str, page: int) -> None:
    if not completion.ok:
        raise SimulationError(f"the {what} of page {page} ended as {completion.status!r}")
