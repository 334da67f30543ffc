"""Shared memory's arrays, and the copies of it that coherence domains have: twins, diffs, notices.

A coherence domain is a node, whose processes share one copy of memory, or a single process.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import SimulationError
from nicscope.interfaces.programs import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray


PAGE = 4096  # bytes
WORD = 4  # bytes: what a diff tells apart


@dataclass(frozen=True, eq=False)
class SharedArray:
    """An array in shared memory: ``first`` is its first byte in the shared address space."""

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    page_bytes: int

    @cached_property
    def byte_count(self) -> int:
        """The array's length in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @cached_property
    def row_elements(self) -> int:
        """Of each of its rows."""
        return math.prod(self.shape[1:])

    def in_bytes(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        """The array within ``memory``, a copy of the shared address space."""
        part = memory.reshape(-1)[self.first : self.first + self.byte_count]
        return part.view(self.dtype).reshape(self.shape)

    def pages(self, begin: int, end: int) -> NDArray[np.int64]:
        """The pages of its elements ``begin`` to ``end``, counted through all its axes."""
        size = self.dtype.itemsize
        first = (self.first + begin * size) // self.page_bytes
        last = (self.first + end * size - 1) // self.page_bytes
        return np.arange(first, last + 1, dtype=np.int64)

    def pages_of_elements(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some elements of its one axis, in that order, often more than once."""
        size = self.dtype.itemsize
        first = self.first + elements * size
        if self.page_bytes % size == 0:  # none lies in two
            return first // self.page_bytes
        return np.stack([first, first + size - 1], axis=1).ravel() // self.page_bytes

    def pages_of_each_row(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some of its rows, row by row."""
        width = self.row_elements * self.dtype.itemsize
        begins = self.first + rows * width
        if self.page_bytes % width == 0 == self.first % width:  # none lies in two
            return begins // self.page_bytes
        first, last = begins // self.page_bytes, (begins + width - 1) // self.page_bytes
        many = last - first + 1
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        return np.asarray(np.repeat(first, many) + within)

    def pages_of_rows(self, rows: range, columns: range) -> NDArray[np.int64]:
        """The pages of a block of a matrix, row by row; each once in a row."""
        width = self.row_elements
        runs = [self.pages(row * width + columns.start, row * width + columns.stop) for row in rows]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)


class Layout:
    """Arrays one after the other, each page aligned."""

    def __init__(self, page_bytes: int = PAGE) -> None:
        if page_bytes < WORD or page_bytes & (page_bytes - 1):
            raise SimulationError(f"a page has a power of two of bytes, not {page_bytes}")
        self.page_bytes = page_bytes
        self.arrays: dict[str, SharedArray] = {}
        self._used = 0

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self._used // self.page_bytes)

    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        pages_after: int = 0,
    ) -> SharedArray:
        """Add an array; it is initially zero.  ``pages_after``: that stay empty behind it.

        Errors: ``SimulationError`` for a name twice, no elements, or elements of no whole words.
        """
        kind = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if name in self.arrays:
            raise SimulationError(f"there is a shared array {name!r} already")
        if not sizes or min(sizes) < 1:
            raise SimulationError(f"shared array {name!r}: shape {sizes} has no elements")
        if kind.itemsize % WORD or kind.hasobject:
            raise SimulationError(
                f"shared array {name!r}: elements of {kind} are not whole words of {WORD} bytes"
            )
        first = self.pages * self.page_bytes
        made = SharedArray(name, first, sizes, kind, self.page_bytes)
        self.arrays[name] = made
        self._used = first + made.byte_count + pages_after * self.page_bytes
        return made


RUN_HEAD = 8  # bytes of a message for each run of words: where it begins, and how many


class Diff(NamedTuple):
    """A diff for a page's home: ``words`` of the page, ascending, and their new ``values``."""

    page: int
    words: NDArray[np.int64]
    values: NDArray[np.uint32]
    pid: int = 0  # on its node, of the process that wrote them

    @property
    def first_byte(self) -> int:
        """The offset of its first word in the page."""
        return int(self.words[0]) * WORD

    @property
    def message_bytes(self) -> int:
        """Its size as a message: each word, and a header for each run of words."""
        runs = 1 + int(np.count_nonzero(np.diff(self.words) != 1))
        return WORD * len(self.words) + RUN_HEAD * runs

    @property
    def runs(self) -> list[NDArray[np.int64]]:
        """Its words in runs without a gap."""
        return np.split(self.words, np.flatnonzero(np.diff(self.words) != 1) + 1)

    def apply(self, memory: NDArray[np.uint8]) -> None:
        """Apply the diff to ``memory``, whose rows are pages."""
        self.apply_to(memory[self.page])

    def apply_to(self, copy: NDArray[np.uint8]) -> None:
        """Apply the diff to a copy of its page."""
        copy.view(np.uint32)[self.words] = self.values


def diff_of(
    page: int,
    copy: NDArray[np.uint8],
    twin: NDArray[np.uint8],
    mask: NDArray[np.bool_] | None = None,
    pid: int = 0,
) -> Diff | None:
    """The words of ``copy`` that differ from ``twin``, within ``mask``; None if there are none.

    ``mask``: the words that count, which ``pid`` may have written; None: all.
    """
    now = copy.view(np.uint32)
    differs = now != twin.view(np.uint32)
    words = np.flatnonzero(differs if mask is None else differs & mask)
    return Diff(page, words, now[words], pid) if len(words) else None


CLOSED = -1


class Written:
    """The words that each process has written of each page, away from the page's home.

    A node's processes share one copy, so a twin alone cannot tell which of them wrote a word.
    """

    def __init__(self, processes: int, pages: int, page_bytes: int) -> None:
        self._masks_of = np.full((processes, pages), CLOSED, np.int32)
        self._masks = np.zeros((1, page_bytes // WORD), np.bool_)
        self._free = [0]

    def open(self, process: int, page: int) -> None:
        """Begin to track a process's writes to a page."""
        if not self._free:
            many = len(self._masks)
            self._free += range(many, 2 * many)
            self._masks = np.concatenate([self._masks, np.zeros_like(self._masks)])
        self._masks_of[process, page] = self._free.pop()

    def close(self, process: int, page: int) -> NDArray[np.bool_]:
        """End tracking a process's writes to a page; the words that it may have written."""
        place = self._masks_of[process, page]
        mask: NDArray[np.bool_] = self._masks[place].copy()
        self._masks[place] = False
        self._masks_of[process, page] = CLOSED
        self._free.append(int(place))
        return mask

    def add_bytes(self, process: int, begin: int, end: int) -> None:
        """Mark bytes ``begin`` to ``end`` of the address space as written."""
        words = self._masks.shape[1]
        first, last = begin // WORD, -(-end // WORD)
        pages = self._masks_of[process, first // words : (last - 1) // words + 1]
        for index in np.flatnonzero(pages != CLOSED).tolist():
            base = (first // words + index) * words
            self._masks[pages[index], max(0, first - base) : last - base] = True

    def add_items(self, process: int, begins: NDArray[np.int64], size: int) -> None:
        """Mark items of ``size`` bytes that begin at ``begins`` as written."""
        if len(self._free) == len(self._masks):  # nobody writes anything away from its home
            return
        words = self._masks.shape[1]
        each = size // WORD
        if each > words:  # more than two pages each
            for begin in begins.tolist():
                self.add_bytes(process, begin, begin + size)
            return
        firsts = begins // WORD
        lasts = firsts + each - 1
        masks = self._masks_of[process]
        is_open = (masks[firsts // words] != CLOSED) | (masks[lasts // words] != CLOSED)
        every = (firsts[is_open, None] + np.arange(each)).ravel()
        places = masks[every // words]
        is_open = places != CLOSED
        self._masks[places[is_open], every[is_open] % words] = True


UNMAPPED, READABLE, WRITABLE = 0, 1, 2  # how a process has a page
POISON = 0xA5  # what lies in copies that are out of date


class RemoteDomain(NamedTuple):
    """A remote domain, of which only the location is known here."""

    number: int
    node: int

    @property
    def coming(self) -> dict[int, Gate]:
        """Pages in flight there, which are not known here."""
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
        self._arrays: dict[SharedArray, NDArray[Any]] = {}
        self.is_valid = np.zeros(pages, np.bool_)
        self.mapped = np.zeros((len(processes), pages), np.uint8)
        self.outdated = np.zeros(pages, np.int64)  # how often its copy has been
        self.twins: dict[int, NDArray[np.uint8]] = {}
        self.written = Written(len(processes), pages, page_bytes)
        self.coming: dict[int, Gate] = {}  # pages on their way here; open when they are here
        self.leaving: dict[int, Gate] = {}  # pages whose diffs are on their way home
        self._diffs: Counter[int] = Counter()  # on their way, by page
        # Pages of its own in which it knows of others' words.
        self.updated_at_home: set[int] = set()
        self.unannounced: set[int] = set()  # written, at home by now, and not in a notice yet

    def array(self, array: SharedArray) -> NDArray[Any]:
        """A shared array as its copy has it; nobody may change how the view is used."""
        found = self._arrays.get(array)
        if found is None:
            found = self._arrays[array] = array.in_bytes(self.memory)
        return found

    def make_writable(self, process: int, page: int, *, at_home: bool) -> None:
        """Make a page writable for a process; keep a twin of it, except at its home."""
        place = self.local[process]
        self.mapped[place, page] = WRITABLE
        if not at_home:
            self.written.open(place, page)
            if page not in self.twins:
                self.twins[page] = self.memory[page].copy()

    def write_protect(self, page: int, process: int) -> Diff | None:
        """Write-protect a page for a process; the diff since its twin.

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
        pid = process % self.protocol_pid  # where the protocol's pid follows the program's
        found = diff_of(page, self.memory[page], twin, mask, pid)
        if found is not None:
            found.apply_to(twin)
        return found

    @contextlib.contextmanager
    def awaiting(self, page: int) -> Iterator[Gate]:
        """Mark the page as in flight within the block; the domain's other processes wait for it."""
        gate = self.coming[page] = Gate()
        try:
            yield gate
        finally:
            del self.coming[page]
            gate.open()

    def write_protect_home(self, pages: NDArray[np.int64], rows: Sequence[int]) -> None:
        """Write-protect ``pages`` of this home for the processes of ``rows``."""
        for row in rows:
            mine = pages[self.mapped[row, pages] == WRITABLE]
            self.mapped[row, mine] = READABLE
            self.unannounced.update(mine.tolist())

    def used(self, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ``pages`` of which the domain has a copy, or one in flight."""
        is_used = self.is_valid[pages]
        if self.coming:
            is_used |= np.isin(pages, list(self.coming))
        return pages[is_used]

    def leave(self, page: int) -> None:
        """Count a diff of the page that is in flight to its home."""
        self._diffs[page] += 1
        self.leaving.setdefault(page, Gate())

    def arrive(self, page: int) -> None:
        """Count a diff of the page that has arrived at its home."""
        self.unannounced.add(page)
        self._diffs[page] -= 1
        if not self._diffs[page]:
            del self._diffs[page]
            self.leaving.pop(page).open()

    @property
    def processes(self) -> list[int]:
        """The global numbers of its processes."""
        return list(self.local)

    def invalidate_copy(self, page: int) -> None:
        """Invalidate the domain's copy of the page."""
        assert page not in self.twins, "what was written in it would be lost"
        self.outdated[page] += 1
        self.is_valid[page] = False
        self.mapped[:, page] = UNMAPPED
        self.memory[page] = POISON


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
        news = self._news(domain, clock)
        self.clocks[domain] = np.maximum(self.clocks[domain], clock)
        return np.unique(np.concatenate([np.empty(0, np.int64), *news]))

    def lacked(self, domain: int, clock: NDArray[np.int64]) -> int:
        """How many notices up to ``clock`` the domain has not heard of."""
        return sum(map(len, self._news(domain, clock)))

    def _news(self, domain: int, clock: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The pages of each interval of others up to ``clock`` that the domain does not know."""
        news: list[NDArray[np.int64]] = []
        for writer, (known, told) in enumerate(zip(self.clocks[domain], clock, strict=True)):
            if writer != domain and told > known:
                gone = self._forgotten[writer]
                news += self._intervals[writer][known - gone : told - gone]
        return news

    def forget(self) -> None:
        """Discard intervals that every domain knows."""
        known = self.clocks.min(axis=0)
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(known[writer] - self._forgotten[writer])]
        self._forgotten = known
