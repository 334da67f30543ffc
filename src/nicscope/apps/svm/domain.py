"""A coherence domain: the copy of shared memory that some processes have in common."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.apps.svm.diffs import Diff, diff_of
from nicscope.apps.svm.written import Written
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

UNMAPPED, READABLE, WRITABLE = 0, 1, 2  # how a process has a page
POISON = 0xA5  # what lies in copies that are out of date


class Elsewhere(NamedTuple):
    """A domain of another memory: nothing of it is known here but where it is."""

    number: int
    node: int

    @property
    def coming(self) -> dict[int, Gate]:
        """What is on its way there is not known here."""
        return {}


class Domain:
    """A node whose processes share memory, or a single process."""

    def __init__(
        self,
        number: int,
        node: int,
        processes: Sequence[int],
        protocol_pid: int,
        shape: tuple[int, int],
    ) -> None:
        """``processes`` of the whole program; ``shape``: how many pages of how many bytes.

        ``protocol_pid``: of the process of its node that answers for it when its own do not.
        """
        pages, page_bytes = shape
        self.number = number
        self.node = node
        self.protocol_pid = protocol_pid
        self.local = {process: place for place, process in enumerate(processes)}
        self.memory = np.zeros((pages, page_bytes), np.uint8)
        self.is_valid = np.zeros(pages, np.bool_)
        self.mapped = np.zeros((len(processes), pages), np.uint8)
        self.outdated = np.zeros(pages, np.int64)  # how often its copy has been
        self.twins: dict[int, NDArray[np.uint8]] = {}
        self.written = Written(len(processes), pages, page_bytes)
        self.coming: dict[int, Gate] = {}  # pages on their way here; open when they are here
        self.leaving: dict[int, Gate] = {}  # pages whose diffs are on their way home
        self._diffs: Counter[int] = Counter()  # on their way, by page
        self.come_home: set[int] = set()  # pages of its own in which it knows of others' words
        self.unannounced: set[int] = set()  # written, at home by now, and not in a notice yet

    def let_write(self, process: int, page: int, *, at_home: bool) -> None:
        """A process writes the page from now on; a twin keeps how it was, but not at its home."""
        place = self.local[process]
        self.mapped[place, page] = WRITABLE
        if not at_home:
            self.written.open(place, page)
            if page not in self.twins:
                self.twins[page] = self.memory[page].copy()

    def close_page(self, page: int, process: int) -> Diff | None:
        """The process no longer writes the page unnoticed; what it has written since its twin.

        Whoever else writes it goes on, against a twin that has these words.
        """
        place = self.local[process]
        if self.mapped[place, page] != WRITABLE:
            return None
        self.mapped[place, page] = READABLE
        twin = self.twins[page]
        mask = self.written.close(place, page)
        if not (self.mapped[:, page] == WRITABLE).any():
            mask[:] = True  # the last of them leaves nothing behind
            del self.twins[page]
        found = diff_of(page, self.memory[page], twin, mask, self.pid_of(process))
        if found is not None:
            found.apply_to(twin)
        return found

    @contextlib.contextmanager
    def awaiting(self, page: int) -> Iterator[Gate]:
        """The page is on its way here as long as this lasts; others of the domain wait for it."""
        gate = self.coming[page] = Gate()
        try:
            yield gate
        finally:
            del self.coming[page]
            gate.open()

    def close_at_home(self, pages: NDArray[np.int64], rows: Sequence[int]) -> None:
        """The processes of ``rows`` no longer write pages unnoticed that this is the home of."""
        for row in rows:
            mine = pages[self.mapped[row, pages] == WRITABLE]
            self.mapped[row, mine] = READABLE
            self.unannounced.update(mine.tolist())

    def used(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``pages``, not its own, of which it has a copy or will have one."""
        is_used = self.is_valid[pages]
        if self.coming:
            is_used |= np.isin(pages, list(self.coming))
        return pages[is_used]

    def leave(self, page: int) -> None:
        """A diff of the page leaves for its home."""
        self._diffs[page] += 1
        self.leaving.setdefault(page, Gate())

    def arrive(self, page: int) -> None:
        """One of the page is there: others can see what it says."""
        self.unannounced.add(page)
        self._diffs[page] -= 1
        if not self._diffs[page]:
            del self._diffs[page]
            self.leaving.pop(page).open()

    def pid_of(self, process: int) -> int:
        """On its node, where the pid of the protocol follows those of the program's processes."""
        return process % self.protocol_pid

    @property
    def processes(self) -> list[int]:
        """Their numbers in the whole program."""
        return list(self.local)

    def outdate(self, page: int) -> None:
        """Its copy of the page is out of date: nobody reads it any more."""
        assert page not in self.twins, "what was written in it would be lost"
        self.outdated[page] += 1
        self.is_valid[page] = False
        self.mapped[:, page] = UNMAPPED
        self.memory[page] = POISON
