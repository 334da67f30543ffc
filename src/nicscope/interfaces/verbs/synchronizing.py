"""What processes of a program wait for each other by, in the run's own time.

A wait lets the others go on.  A time-out has passed when virtual time has, or at once when nobody
can go on before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.world import here

if TYPE_CHECKING:
    from collections.abc import Callable

PS = 10**12  # of a second
LOOK_PS = 10**6  # after which a program that asks without waiting finds out that nothing has come


def waited(what: str, has_come: Callable[[], bool], timeout: float | None = None) -> bool:
    """Whether something has come in time; who does not wait lets others go on for a moment."""
    if has_come():
        return True
    patience = None if timeout is None else max(int(timeout * PS), LOOK_PS)
    return here().take_turns().wait(what, has_come, patience_ps=patience)


class Semaphore:
    """So many may go on at once."""

    _what = "a Semaphore"

    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._left = value

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Be one of those."""
        if not waited(self._what, lambda: self._left > 0, timeout if block else 0):
            return False
        self._left -= 1
        return True

    def release(self) -> None:
        """Be none of those any more."""
        self._left += 1

    def get_value(self) -> int:
        """How many more may."""
        return self._left

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """No more are released than have been acquired."""

    _what = "a BoundedSemaphore"

    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:
        super().__init__(value, ctx=ctx)
        self._most = value

    def release(self) -> None:
        """Be none of those any more.  Errors: ``ValueError`` for one too many."""
        if self._left >= self._most:
            raise ValueError("semaphore or lock released too many times")
        super().release()


class Lock(BoundedSemaphore):
    """One at a time."""

    _what = "a Lock"

    def __init__(self, *, ctx: Any = None) -> None:
        super().__init__(1, ctx=ctx)


class RLock(Lock):
    """One at a time, who may take it again."""

    _what = "an RLock"
    _owner: int | None = None
    _depth = 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Be the one, or so once more."""
        if self._owner != threading.get_ident():
            if not super().acquire(block, timeout):
                return False
            self._owner = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        """Be so once less.  Errors: ``AssertionError`` for somebody else."""
        if self._owner != threading.get_ident():
            raise AssertionError("attempt to release recursive lock not owned by process")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            super().release()


class Condition:
    """A lock, and those who wait until another says that something has changed."""

    def __init__(self, lock: Any = None, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._lock = RLock() if lock is None else lock
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self._waiting: list[object] = []

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *given: object) -> None:
        self._lock.__exit__(*given)

    def wait(self, timeout: float | None = None) -> bool:
        """Until notified; whether that came in time."""
        mine = object()
        self._waiting.append(mine)
        depth = getattr(self._lock, "_depth", 1)
        for _ in range(depth):
            self._lock.release()
        try:
            return waited("a Condition", lambda: mine not in self._waiting, timeout)
        finally:  # who is stopped meanwhile leaves its lock, too
            if mine in self._waiting:
                self._waiting.remove(mine)
            for _ in range(depth):
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Until notified when something holds; what it is then."""
        while not (found := predicate()):
            if not self.wait(timeout):
                return predicate()
        return found

    def notify(self, n: int = 1) -> None:
        """Have as many go on."""
        del self._waiting[:n]

    def notify_all(self) -> None:
        """Have all go on."""
        self._waiting.clear()


class Event:
    """Something that has happened, or not."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it has."""
        return self.wait(0)

    def set(self) -> None:
        """It has."""
        self._is_set = True

    def clear(self) -> None:
        """It has not."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has; whether that was in time."""
        return waited("an Event", lambda: self._is_set, timeout)


class Barrier(threading.Barrier):
    """A place that so many reach before any goes on."""

    def __init__(
        self,
        parties: int,
        action: Callable[[], Any] | None = None,
        timeout: float | None = None,
        *,
        ctx: Any = None,
    ) -> None:
        super().__init__(parties, action, timeout)
        self._cond: Any = Condition(ctx=ctx)
