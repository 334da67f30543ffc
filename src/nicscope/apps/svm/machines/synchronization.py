"""Locks, barriers and questions of shared memory on simulated machines."""

from __future__ import annotations

import struct
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.svm.coherence import Caller, Coherence, Costs, Notices
from nicscope.apps.svm.machines.messages import Kind, Letter, Mail, Waits
from nicscope.apps.svm.process import already_held_error, not_held_error
from nicscope.interfaces.tasks import Gate

if TYPE_CHECKING:
    from numpy.typing import NDArray


ITEM = struct.Struct("<HII")  # whose interval, which of its, and how many pages follow


class ReceivedNotices(Notices):
    """One domain's write notices: its own intervals, and those received in messages."""

    def __init__(self, domains: int, own: int) -> None:
        super().__init__(domains)
        self._own = own

    @property
    def clock(self) -> NDArray[np.int64]:
        """The domain's vector clock."""
        own: NDArray[np.int64] = self.clocks[self._own]
        return own

    def told(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> bytes:
        """Encode ``until`` and the intervals that a domain at clock ``since`` lacks."""
        pieces = [clock_bytes(until)]
        for writer, intervals in enumerate(self._intervals):
            gone = int(self._forgotten[writer])
            for number in range(max(int(since[writer]), gone), int(until[writer])):
                pages = intervals[number - gone]
                pieces += [ITEM.pack(writer, number, len(pages)), pages.astype("<u4").tobytes()]
        return b"".join(pieces)

    def hear(self, raw: bytes) -> NDArray[np.int64]:
        """Decode received intervals and keep them; the clock that they lead to."""
        clock = clock_of(raw, len(self._intervals))
        at = 4 * len(self._intervals)
        while at < len(raw):
            writer, number, many = ITEM.unpack_from(raw, at)
            at += ITEM.size
            held = self._intervals[writer]
            behind = int(self._forgotten[writer]) + len(held)
            assert number <= behind, "a notice is missing between those that were heard"
            if number == behind:
                held.append(np.frombuffer(raw, "<u4", many, at).astype(np.int64))
            at += 4 * many
        return clock

    def forget(self) -> None:
        """Discard all intervals: after a barrier every domain knows them."""
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(self.clock[writer] - self._forgotten[writer])]
        self._forgotten = self.clock.copy()


def clock_bytes(clock: NDArray[np.int64]) -> bytes:
    """Encode a clock, 32 bits for each domain."""
    return clock.astype("<u4").tobytes()


def clock_of(raw: bytes, domains: int) -> NDArray[np.int64]:
    """Decode the clock at the beginning of ``raw``."""
    return np.frombuffer(raw, "<u4", domains).astype(np.int64)


BARRIER_MANAGER = 0
SEPARATOR = b"\0"  # behind a lock's name


class Held:
    """One domain's state of a lock."""

    def __init__(self) -> None:
        self.is_here = False
        self.is_asked_for = False
        self.holder: int | None = None
        self.waiting: deque[tuple[int, Gate]] = deque()  # processes of this domain
        # Who gets it from here, what it knows, and how many of ``waiting`` asked before it.
        self.next: tuple[int, NDArray[np.int64], int] | None = None
        self.clock: NDArray[np.int64] | None = None  # to be learned by who holds it first here


class MessageSynchronization:
    """One domain's locks and barrier by messages."""

    def __init__(
        self,
        coherence: Coherence,
        notices: ReceivedNotices,
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
        """Wait for the lock, granted in order, and apply its last holder's notices."""
        called = repr(name).encode()
        lock = self._locks.setdefault(called, Held())
        if lock.holder == process:
            raise already_held_error(process, name)
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
        """Send diffs home, and grant the lock to the first waiter."""
        called = repr(name).encode()
        lock = self._locks.get(called)
        if lock is None or lock.holder != process:
            raise not_held_error(process, name)
        await self._coherence.flush(caller)
        lock.holder = None
        self._grant_next(called, lock)

    async def meet(self, caller: Caller, process: int) -> None:  # noqa: ARG002 - they are counted
        """Tell the manager when the domain's processes have arrived; wait for its release."""
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
        """Handle a request for a lock that this domain manages."""
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
        """Handle a request, forwarded by the manager, for a lock that this domain holds."""
        asker = int.from_bytes(letter.body[:2], "little")
        called, rest = _named(letter.body[2:])
        lock = self._locks[called]
        lock.next = asker, clock_of(rest, self._domains), len(lock.waiting)
        if lock.is_here and lock.holder is None:
            self._grant_next(called, lock)

    def granted(self, letter: Letter) -> None:
        """Handle the grant of a lock to this domain."""
        called, rest = _named(letter.body)
        lock = self._locks[called]
        lock.is_here, lock.is_asked_for = True, False
        lock.clock = self._notices.hear(rest)
        self._grant_next(called, lock)

    def arrived(self, letter: Letter) -> None:
        """Handle a domain's arrival at the barrier that this one manages."""
        self._arrived[letter.sender] = self._notices.hear(letter.body)
        if len(self._arrived) < self._domains:
            return
        everything = np.max([*self._arrived.values()], axis=0)
        for domain, clock in self._arrived.items():
            self._tell(domain, Kind.LEAVE, self._notices.told(clock, everything))
        self._arrived.clear()

    def left(self, letter: Letter) -> None:
        """Release the barrier here: apply the notices, and wake the domain's processes."""
        everything = self._notices.hear(letter.body)
        self._coherence.meet(everything)
        self._met = everything
        told, self._leave = self._leave, Gate()
        self._here = 0
        told.open()

    # -- within ----------------------------------------------------------------------------------

    def _grant_next(self, called: bytes, lock: Held) -> None:
        """Grant a free lock that is here to the first waiter."""
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
    """The number of a lock, a hash of its name that all domains compute alike."""
    return int(called) if called.isdigit() else zlib.crc32(called)


def _named(body: bytes) -> tuple[bytes, bytes]:
    """Split a message body into the lock's name and the rest."""
    called, _, rest = body.partition(SEPARATOR)
    return called, rest


class Question:
    """A request without a reply so far."""

    def __init__(self, page: int | None) -> None:
        self.page = page  # that was asked for, whose bytes go to its own place
        self.gate = Gate()
        self.answer = b""


class Questions:
    """One domain's outstanding requests."""

    def __init__(self, own: int, domains: int, mail: Mail) -> None:
        self.own = own
        self.domains = domains
        self._mail = mail
        self._open: dict[int, Question] = {}
        self._asked = 0

    async def ask(
        self, endpoint: Any, to: int, kind: Kind, body: bytes, what: str, page: int | None = None
    ) -> bytes:
        """Ask domain ``to``; its reply.  ``page``: its bytes are the answer's body."""
        self._asked += 1
        number = self._asked
        question = self._open[number] = Question(page)
        self._mail.post(Letter(kind, self.own, to, number, body), what)
        await question.gate.wait(endpoint)
        return question.answer

    def tell(self, to: int, kind: Kind, body: bytes, what: str) -> None:
        """Send domain ``to`` a message that needs no reply."""
        self._mail.post(Letter(kind, self.own, to, 0, body), what)

    def page_asked(self, number: int) -> int:
        """The page that a request asks for."""
        page = self._open[number].page
        assert page is not None, "an answer with a page to a question for none"
        return page

    def answered(self, letter: Letter) -> None:
        """Handle a reply."""
        question = self._open.pop(letter.number)
        question.answer = letter.body
        question.gate.open()
