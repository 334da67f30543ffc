"""What carries pages, diffs and synchronization between domains, and what that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nicscope.apps.svm.domain import Domain

if TYPE_CHECKING:
    from nicscope.apps.svm.diffs import Diff
    from nicscope.apps.svm.domain import Elsewhere
    from nicscope.apps.svm.records import Records


class Caller(NamedTuple):
    """In whose name, and on whose time, something is carried."""

    endpoint: Any  # of any interface
    domain: Domain
    pid: int  # on its node


class Costs(NamedTuple):
    """Logical costs (us), so that programs meet each other as they might on real machines.

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
    """A way for pages and diffs to go."""

    async def open(self, caller: Caller) -> None:
        """Have the caller's process carry and be reached."""

    async def claim(self, caller: Caller, page: int) -> int:
        """Have the caller's domain be the home of ``page`` if none is; which domain is."""

    def settle(self, caller: Caller, page: int) -> None:
        """Have others fetch ``page``, whose home the caller's domain is and has it by now."""

    async def fetch(
        self, caller: Caller, page: int, home: Domain | Elsewhere, *, is_initial: bool = False
    ) -> None:
        """Have the caller's domain have ``page`` as it is at its home by the end of this.

        ``is_initial``: as its creator has it, to whoever is its home from now on.
        """

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Have ``diff`` at its page's home by the end of this."""

    def publish(self, caller: Caller, page: int) -> None:
        """Have others fetch what the caller's domain has written in a page of its own."""

    def accept(self, caller: Caller, page: int) -> None:
        """Have the caller's domain read what others have brought to a page of its own."""

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Let time pass for the caller."""


class LogicalWire:
    """Carries everything at once, after the time that it costs; and records what was asked."""

    def __init__(self, costs: Costs, records: Records) -> None:
        self._costs = costs
        self._records = records

    async def open(self, caller: Caller) -> None:
        """Everybody is reached already."""

    async def claim(self, caller: Caller, page: int) -> int:  # noqa: ARG002 - whichever it is
        """Nobody asks for a page whose home is known."""
        return caller.domain.number

    def settle(self, caller: Caller, page: int) -> None:
        """Others see that a page is on its way."""

    async def fetch(
        self, caller: Caller, page: int, home: Domain | Elsewhere, *, is_initial: bool = False
    ) -> None:
        """Copy the page from its home when the cost of that has passed."""
        self._records.fetch(caller, page, home, is_initial=is_initial)
        assert isinstance(home, Domain)
        await caller.endpoint.sleep(self._costs.fetch)
        caller.domain.memory[page] = home.memory[page]

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Write the diff's words at the home when the cost of that has passed."""
        self._records.deposit(caller, diff, home)
        assert isinstance(home, Domain)
        await caller.endpoint.sleep(self._costs.diff)
        diff.apply(home.memory)

    def publish(self, caller: Caller, page: int) -> None:
        """There is nothing between a domain's copy and others."""

    def accept(self, caller: Caller, page: int) -> None:
        """As for ``publish``."""

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Let time pass."""
        await caller.endpoint.sleep(microseconds)
