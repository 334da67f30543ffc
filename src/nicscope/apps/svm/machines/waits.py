"""What processes wait for on simulated machines, said when it cannot come."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from nicscope.apps.svm.wire import Caller

SHOWN = 3  # of those who wait


class CarryingError(SimulationError):
    """Something does not get through to another node."""


class Wait(NamedTuple):
    """One of them."""

    node: int
    process: int  # on its node
    what: str
    since_us: float


class Waits:
    """Of one run."""

    def __init__(self) -> None:
        self._now: list[Wait] = []

    @contextlib.contextmanager
    def waiting(self, caller: Caller, what: str) -> Iterator[None]:
        """The caller waits for ``what`` as long as this lasts, unless it fails."""
        wait = Wait(caller.domain.node, caller.pid, what, caller.endpoint.now_us)
        self._now.append(wait)
        yield
        self._now.remove(wait)  # by identity or value: equal ones are alike

    def text(self, dead: Collection[int] = ()) -> str:
        """Who waits for what, but on nodes that are ``dead``."""
        alive = [wait for wait in self._now if wait.node not in dead]
        first = [
            f"process {wait.process} of node {wait.node} has waited for {wait.what} since "
            f"{wait.since_us:,.1f} us"
            for wait in sorted(alive, key=lambda wait: wait.since_us)[:SHOWN]
        ]
        more = len(alive) - len(first)
        return "; ".join([*first, *([f"{more} more wait"] if more else [])])
