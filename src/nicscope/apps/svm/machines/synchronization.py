"""Locks and barriers as letters, and what processes learn by them.

A lock has a manager, a domain by the lock's number, which knows who asked last.  Who asks next is
passed on to that one, and gets the lock from it when it lets go: with its clock, and the notices
that who asked lacks of it.  A lock that nobody else asks for stays where it is.  At a barrier all
tell domain 0, which tells each what it lacks.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.svm.machines.heard import clock_bytes, clock_of
from nicscope.apps.svm.machines.letters import Kind, Letter
from nicscope.apps.svm.synchronization import held_already, not_held
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.coherence import Coherence
    from nicscope.apps.svm.machines.heard import HeardNotices
    from nicscope.apps.svm.machines.questions import Questions
    from nicscope.apps.svm.machines.waits import Waits
    from nicscope.apps.svm.wire import Caller, Costs

BARRIER_MANAGER = 0
SEPARATOR = b"\0"  # behind a lock's name


class Held:
    """A lock as one domain has it."""

    def __init__(self) -> None:
        self.is_here = False
        self.is_asked_for = False
        self.holder: int | None = None
        self.waiting: deque[tuple[int, Gate]] = deque()  # processes of this domain
        # Who gets it from here, what it knows, and how many of ``waiting`` asked before it.
        self.next: tuple[int, NDArray[np.int64], int] | None = None
        self.clock: NDArray[np.int64] | None = None  # to be learned by who holds it first here


class LetterSynchronization:
    """Of one domain."""

    def __init__(
        self,
        coherence: Coherence,
        notices: HeardNotices,
        questions: Questions,
        costs: Costs,
        waits: Waits,
    ) -> None:
        self._coherence = coherence
        self._notices = notices
        self._questions = questions
        self._costs = costs
        self._waits = waits
        self._own = questions.own
        self._domains = questions.domains
        self._locks: dict[bytes, Held] = {}
        self._last: dict[bytes, int] = {}  # who asked last, for locks that this domain manages
        self._here = 0  # processes of this domain that have come to the barrier
        self._leave = Gate()
        self._arrived: dict[int, NDArray[np.int64]] = {}  # domains at the barrier, if its manager
        self._met = np.zeros(self._domains, np.int64)  # what all knew when they met last

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Wait until nobody who asked before holds it, and know what its last holder knew."""
        called = repr(name).encode()
        lock = self._locks.setdefault(called, Held())
        if lock.holder == process:
            raise held_already(process, name)
        if lock.is_here and lock.holder is None:
            lock.holder = process
            await caller.endpoint.sleep(self._costs.local_lock)
            return
        gate = Gate()
        lock.waiting.append((process, gate))
        self._ask(called, lock)
        with self._waits.waiting(caller, f"lock {name!r}"):
            await gate.wait(caller.endpoint)
            if lock.clock is not None:
                clock, lock.clock = lock.clock, None
                await self._coherence.learn(caller, clock)

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Bring home what was written, and have the first who asked hold it."""
        called = repr(name).encode()
        lock = self._locks.get(called)
        if lock is None or lock.holder != process:
            raise not_held(process, name)
        await self._coherence.flush(caller)
        lock.holder = None
        self._hand_on(called, lock)

    async def meet(self, caller: Caller, process: int) -> None:  # noqa: ARG002 - they are counted
        """Tell the manager when all of the domain have come, and go on when it says so."""
        self._here += 1
        gate = self._leave
        if self._here == len(caller.domain.processes):
            clock = self._notices.clock
            self._tell(BARRIER_MANAGER, Kind.ARRIVE, self._notices.told(self._met, clock))
        with self._waits.waiting(caller, "all others at a barrier"):
            await gate.wait(caller.endpoint)
        self._coherence.accept(caller)

    # -- letters ---------------------------------------------------------------------------------

    def asked(self, letter: Letter) -> None:
        """Somebody asks this domain, which manages the lock, for it."""
        called, _ = _named(letter.body)
        before = self._last.get(called)
        self._last[called] = letter.sender
        if before is None:  # it is nobody's: what has been written before is no concern of it
            nothing = clock_bytes(np.zeros(self._domains, np.int64))
            self._tell(letter.sender, Kind.GRANT, called + SEPARATOR + nothing, called)
        else:
            body = letter.sender.to_bytes(2, "little") + letter.body
            self._tell(before, Kind.PASS, body, called)

    def passed(self, letter: Letter) -> None:
        """Who asked next gets the lock from this domain."""
        asker = int.from_bytes(letter.body[:2], "little")
        called, rest = _named(letter.body[2:])
        lock = self._locks[called]
        lock.next = asker, clock_of(rest, self._domains), len(lock.waiting)
        if lock.is_here and lock.holder is None:
            self._hand_on(called, lock)

    def granted(self, letter: Letter) -> None:
        """The lock comes here."""
        called, rest = _named(letter.body)
        lock = self._locks[called]
        lock.is_here, lock.is_asked_for = True, False
        lock.clock = self._notices.hear(rest)
        self._hand_on(called, lock)

    def arrived(self, letter: Letter) -> None:
        """A domain has come to the barrier, which this one manages."""
        self._arrived[letter.sender] = self._notices.hear(letter.body)
        if len(self._arrived) < self._domains:
            return
        everything = np.max([*self._arrived.values()], axis=0)
        for domain, clock in self._arrived.items():
            self._tell(domain, Kind.LEAVE, self._notices.told(clock, everything))
        self._arrived.clear()

    def left(self, letter: Letter) -> None:
        """All have come: this domain learns what they wrote, and its processes go on."""
        everything = self._notices.hear(letter.body)
        self._coherence.meet(everything)
        self._met = everything
        told, self._leave = self._leave, Gate()
        self._here = 0
        told.open()

    # -- within ----------------------------------------------------------------------------------

    def _hand_on(self, called: bytes, lock: Held) -> None:
        """Have the first who asked for a lock that is here, and nobody's, hold it."""
        if lock.next is not None and not lock.next[2]:
            asker, clock, _ = lock.next
            lock.next, lock.is_here, lock.clock = None, False, None
            told = self._notices.told(clock, self._notices.clock)
            self._tell(asker, Kind.GRANT, called + SEPARATOR + told, called)
            if lock.waiting:
                self._ask(called, lock)
        elif lock.waiting:
            lock.holder, gate = lock.waiting.popleft()
            if lock.next is not None:
                asker, clock, before = lock.next
                lock.next = asker, clock, before - 1
            gate.open()

    def _ask(self, called: bytes, lock: Held) -> None:
        if lock.is_here or lock.is_asked_for:
            return
        lock.is_asked_for = True
        manager = lock_number(called) % self._domains
        known = clock_bytes(self._notices.clock)
        self._tell(manager, Kind.LOCK, called + SEPARATOR + known, called)

    def _tell(self, to: int, kind: Kind, body: bytes, lock: bytes | None = None) -> None:
        what = "a barrier" if lock is None else f"lock {lock.decode()}"
        self._questions.tell(to, kind, body, what)


def lock_number(called: bytes) -> int:
    """A lock's number, by its name: all domains say the same."""
    return int(called) if called.isdigit() else zlib.crc32(called)


def _named(body: bytes) -> tuple[bytes, bytes]:
    """A lock's name, and what follows."""
    called, _, rest = body.partition(SEPARATOR)
    return called, rest
