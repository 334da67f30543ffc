"""Records what a run's processes asked of their network interface, and what each waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from nicscope.apps.svm.domain import PAGE, Diff, Domain, RemoteDomain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.coherence import Caller
    from nicscope.interfaces.tasks import Gate


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

    def __init__(self, program: ProgramRecord, page_bytes: int = PAGE) -> None:
        self.program = program
        self._page_bytes = page_bytes
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
        self._add(caller, SEND, CONTROL_BASE, REQUEST_BYTES, *to)
        self._add(caller, READ, self._address(page), self._page_bytes, *to)
        self.program.fetch(caller, page, home, is_initial=is_initial)

    def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Record a diff's write to its page's home, from where its first word lies.

        Its row ends with the page at the latest: heads of runs are no memory of the page's.
        """
        self.diffs += 1
        self.diff_bytes += diff.message_bytes
        length = min(diff.message_bytes, self._page_bytes - diff.first_byte)
        address = self._address(diff.page) + diff.first_byte
        writer = caller._replace(pid=diff.pid)
        self._add(writer, WRITE, address, length, home.node, False)
        self.program.deposit(caller, diff, home)

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

    def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Record that the caller writes a diff to its page's home, as in a request trace."""
        address = diff.page * self._page_bytes + diff.first_byte
        length = min(diff.message_bytes, self._page_bytes - diff.first_byte)
        row = ProgramRow("deposit", peer=home.node, address=address, length=length)
        self._add(self._strand(caller), row)

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

    def _strand(self, caller: Caller) -> _RowSequence:
        number = caller.domain.node * self._each + caller.pid
        return self._strands.setdefault(caller, _RowSequence(number))

    def _newest(self, strand: _RowSequence) -> Place:
        assert strand.last is not None
        return strand.process, strand.last

    def _add(self, strand: _RowSequence, row: ProgramRow) -> None:
        rows = self._rows.setdefault(strand.process, [])
        own = {place for process, place in strand.waits if process == strand.process}
        own |= set() if strand.last is None else {strand.last}
        others = sorted({each for each in strand.waits if each[0] != strand.process})
        usual = {len(rows) - 1} if rows else set()
        after = None if own == usual else tuple(sorted(own))
        rows.append(ProgramRow(*row[:6], after, tuple(others), row.after_start_others))
        strand.last, strand.waits = len(rows) - 1, []
