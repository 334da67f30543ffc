"""The requests of a run: what each process asked of its network interface, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.svm.layout import PAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.diffs import Diff
    from nicscope.apps.svm.domain import Domain, Elsewhere
    from nicscope.apps.svm.program_record import ProgramRecord
    from nicscope.apps.svm.wire import Caller

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
    """Rows of a trace, and how often what was done."""

    def __init__(self, program: ProgramRecord, page_bytes: int = PAGE) -> None:
        self.program = program
        self._page_bytes = page_bytes
        self._rows: list[tuple[int, int, int, int, int, int, int, bool]] = []
        self.fetches = 0
        self.initial_copies = 0
        self.diffs = 0
        self.diff_bytes = 0

    def fetch(
        self, caller: Caller, page: int, home: Domain | Elsewhere, *, is_initial: bool
    ) -> None:
        """A page is fetched: a request leaves the control page, and a read fills the page."""
        self.initial_copies += is_initial
        self.fetches += not is_initial
        to = (home.node, is_initial)
        self._add(caller, SEND, CONTROL_BASE, REQUEST_BYTES, *to)
        self._add(caller, READ, self._address(page), self._page_bytes, *to)
        self.program.fetch(caller, page, home, is_initial=is_initial)

    def deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """A diff is written to its page's home from where its first word lies.

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
