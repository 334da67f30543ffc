"""Dense numbers for the pages that requests touch, and runs of requests that are joined."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay import columns
from nicscope.drivers.replay.columns import RequestColumns, Stream, TracePartitioner, new_stream
from nicscope.drivers.translation import OFFSET_STEP
from nicscope.hashing import LOW
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.entry import bound
from nicscope.kernel.records import records
from nicscope.memory.numbering import (
    BLOCK,
    NONE,
    Numbering,
    capacity,
    new_numbering,
    number,
    outgrown,
    place_in,
    probe,
)
from nicscope.memory_limit import check_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray


# Assumed: groups of fewer pages save less than it costs to read a trace once more for them.
LEAST_BITS = 3
MOST_BITS = 20  # of a group; runs of 4 GiB in pages of 4 KiB

LAST = np.dtype(
    [
        ("process", "i8"),  # of the request that came last; -1: none did
        ("page", "i8"),  # the last of its pages
        ("receive", "i8"),
        ("edges", "u8"),  # all page numbers at which a run began or ended, or-ed together
        ("processes", "u8"),  # likewise their ordinals
    ],
    align=True,
)


def no_previous_request() -> NDArray[Any]:
    """The state before the first request."""
    last = records(1, LAST)
    forget(last)
    return last


def forget(last: NDArray[Any]) -> None:
    """Ends the present run: the next request begins a new one."""
    last[0]["process"] = last[0]["page"] = -1


@step
def continues_run(process, page, receive, stream, row):
    """Whether request ``row`` begins at ``page``, where the last one ended, or right behind it."""
    ahead = stream.first[row] - page
    return (
        (ahead == 0 or ahead == 1)
        and np.int64(stream.process[row]) == process
        and np.int64(stream.receive[row]) == receive
    )


class Share(NamedTuple):
    """State of the kernel that finds the edges of runs."""

    stream: Stream
    last: NDArray[Any]  # LAST, shape (1,)


@kernel
def note_edges(share, begin, end):
    """Records where the runs of the requests ``begin..end`` of one NIC begin and end."""
    stream, last = share.stream, share.last[0]
    process, page, receive = last.process, last.page, last.receive
    edges, processes = np.uint64(last.edges), np.uint64(last.processes)
    for row in range(begin, end):
        if not continues_run(process, page, receive, stream, row):
            process = np.int64(stream.process[row])
            receive = np.int64(stream.receive[row])
            edges |= np.uint64(stream.first[row]) | np.uint64(page + 1)
            processes |= np.uint64(process)
        page = stream.first[row] + np.int64(stream.pages[row]) - 1
    last.process, last.page, last.receive = process, page, receive
    last.edges, last.processes = edges, processes


class Alignment(NamedTuple):
    """log2 of the pages of a group, where sets are spread by process and where they are not."""

    spread: int
    plain: int

    def of(self, is_spread: bool) -> int:
        """The alignment for one of both."""
        return self.spread if is_spread else self.plain


NO_GRAIN = Alignment(0, 0)


def common_alignment(alignments: Iterable[Alignment]) -> Alignment:
    """The alignment of all requests, given those of parts that share no node."""
    return Alignment(*map(min, zip(*alignments, strict=True)))


class AlignmentSearch:
    """The coarsest alignment of the requests fed so far, for each of some page sizes."""

    def __init__(
        self, page_sizes: Iterable[int], *, by_process: bool = False, spread: bool = False
    ) -> None:
        """A NIC belongs to a node, or to each process if ``by_process``.

        Whether nobody asks but for caches whose sets are ``spread``.
        """
        self._spread = spread
        self._bits = {size: size.bit_length() - 1 for size in page_sizes}
        self._hopeful = list(self._bits)
        self._parter = TracePartitioner(by_process)
        self._stream = new_stream(columns.ROWS, lengths=False)
        self._lasts: dict[tuple[int, int], tuple[NDArray[Any], Callable[..., None]]] = {}

    def feed(self, batch: RequestColumns) -> bool:
        """Records a batch's runs; False once pages of no size are aligned any more."""
        for piece in columns.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for size in self._hopeful:
                for share in self._parter.shares(self._bits[size], self._stream):
                    self._noting(size, share.place)(share.begin, share.end)
            self._hopeful = [size for size in self._hopeful if self._of(size).of(self._spread)]
            if not self._hopeful:
                return False
        return True

    def cut(self) -> None:
        """Ends all runs, so that what follows is counted separately."""
        for last, _ in self._lasts.values():
            last[0]["edges"] |= np.uint64(last[0]["page"] + 1)
            forget(last)

    def result(self) -> dict[int, Alignment]:
        """The grain by page size."""
        self.cut()
        return {size: self._of(size) if size in self._hopeful else NO_GRAIN for size in self._bits}

    def _noting(self, size: int, place: int) -> Callable[..., None]:
        key = (size, place)
        if key not in self._lasts:
            last = no_previous_request()
            self._lasts[key] = last, bound(note_edges, Share(self._stream, last))
        return self._lasts[key][1]

    def _of(self, size: int) -> Alignment:
        lasts = [last[0] for (of, _), (last, _) in self._lasts.items() if of == size]
        edges, processes = 0, 0
        for last in lasts:
            edges |= int(last["edges"])
            processes |= int(last["processes"])
        # Odd steps between processes leave no group of one where those of another are.
        return Alignment(_bits_of(edges | processes * OFFSET_STEP), _bits_of(edges))


def _bits_of(edges: int) -> int:
    bits = (edges & -edges).bit_length() - 1 if edges else MOST_BITS
    return min(bits, MOST_BITS) if bits >= LEAST_BITS else 0


def alignments_of(
    batches: Iterable[RequestColumns],
    page_sizes: Iterable[int],
    *,
    by_process: bool = False,
    spread: bool = False,
) -> dict[int, Alignment]:
    """The grain of ``batches`` by page size; reads no further than it must.

    See ``AlignmentSearch``.
    """
    alignments = AlignmentSearch(page_sizes, by_process=by_process, spread=spread)
    for batch in batches:
        if not alignments.feed(batch):
            break
    return alignments.result()


# Measured: its number and what one design or curve keeps of it (bench/bench_pool.py).  Of further
# pages, at most as many as there are: what is kept moves piece by piece when it grows.
BYTES_OF_A_PAGE = 16

SAMPLED = 253  # requests of which one is asked; odd, as patterns repeat by powers of two

# Places in ``NumberingKernelState.found``; ``SINGLE``: 1 if each request has one page, not copied.
LOOKUPS, PAGES, RECEIVED, REPEATS, DOUBTFUL, NEEDED, SINGLE = range(7)


class Lookups(NamedTuple):
    """Units that requests touch, one after the other: pages, or lines of pages."""

    number: NDArray[np.uint32]  # dense names of the (process, unit) pairs
    set_index: NDArray[np.uint32]  # low bits of the unit: its set
    spread_index: NDArray[np.uint32]  # the same with the offset of its process
    receive: NDArray[np.uint8]


class NumberingKernelState(NamedTuple):
    """State of the kernels that number pages."""

    numbering: Numbering
    stream: Stream
    last: NDArray[Any]  # ``alignment.LAST``, shape (1,): the request that came before
    laid: NDArray[np.int32]  # shape (requests,): units laid out for each
    opened: NDArray[np.uint8]  # likewise: 1 if it has further pages of the unit before its first
    lookups: Lookups
    unit: NDArray[np.int64]  # shape (units,), as all that follow
    process: NDArray[np.int32]
    place: NDArray[np.uint32]  # in the table of numbers
    doubtful: NDArray[np.uint32]  # one more: lookups whose units are to be searched for
    found: NDArray[np.int64]  # shape (7,): see above


@kernel
def lay_out(naming, begin, end, unit_bits):
    """Writes the units of the requests from ``begin`` up to ``end``, while there is space.

    A unit is 2**unit_bits pages.  Where each request has one page, its unit is left where it is.
    Returns the first request that is left.
    """
    stream, found = naming.stream, naming.found
    received, asked = np.int64(0), np.int64(0)
    for request in range(begin, end):
        asked += stream.pages[request]
    naming.last[0].process = -1
    found[REPEATS], found[SINGLE] = 0, 0
    if asked == end - begin and asked <= naming.unit.size:
        for request in range(begin, end):
            received += stream.receive[request]
            naming.lookups.receive[request - begin] = stream.receive[request]
        for request in range(begin, end):
            naming.laid[request] = 1
            naming.opened[request] = 0
        found[LOOKUPS], found[PAGES], found[RECEIVED] = asked, asked, received
        found[SINGLE] = 1
        return np.int64(end)
    at, pages = np.int64(0), np.int64(0)
    row = np.int64(begin)
    while row < end:
        first = stream.first[row] >> unit_bits
        last = (stream.first[row] + stream.pages[row] - 1) >> unit_bits
        found[NEEDED] = last - first + 1
        if at + found[NEEDED] > naming.unit.size:
            break
        for unit in range(first, last + 1):
            _put(naming, at, row, unit)
            at += 1
        naming.laid[row] = found[NEEDED]
        naming.opened[row] = 0
        pages += stream.pages[row]
        received += stream.pages[row] * np.int64(stream.receive[row])
        row += 1
    found[LOOKUPS], found[PAGES], found[RECEIVED] = at, pages, received
    return row


@kernel
def share_units(naming, begin, end, unit_bits):
    """Whether, by a sample, most requests of ``begin..end`` share a unit with an earlier one."""
    stream = naming.stream
    asked, shared = np.int64(0), np.int64(0)
    for row in range(begin + 1, end, SAMPLED):
        page = stream.first[row - 1] + np.int64(stream.pages[row - 1]) - 1
        process, receive = np.int64(stream.process[row - 1]), np.int64(stream.receive[row - 1])
        joins = continues_run(process, page, receive, stream, row)
        shared += np.int64(joins and stream.first[row] >> unit_bits == page >> unit_bits)
        asked += 1
    return 2 * shared > asked


@kernel
def lay_out_joined(naming, begin, end, unit_bits):
    """As ``lay_out``, but for a unit that a request shares with the one before it in its run."""
    stream, found, last = naming.stream, naming.found, naming.last[0]
    process, page, receive = last.process, last.page, last.receive
    edges, mask = np.uint64(0), np.uint64((1 << unit_bits) - 1)
    at, pages, received, repeats = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    row = np.int64(begin)
    while row < end:
        many = np.int64(stream.pages[row])
        final = stream.first[row] + many - 1
        unit, final_unit = stream.first[row] >> unit_bits, final >> unit_bits
        joins = continues_run(process, page, receive, stream, row)
        opened = np.int64(0)
        if joins and unit == page >> unit_bits:
            # Pages behind the one that the request before ended with: some, in the same unit?
            opened = np.int64(final > page and (page + 1) >> unit_bits == unit)
            unit += 1
            repeats += 1
        found[NEEDED] = final_unit - unit + 1
        if at + found[NEEDED] > naming.unit.size:
            break
        if not joins:
            process, receive = np.int64(stream.process[row]), np.int64(stream.receive[row])
            edges |= np.uint64(stream.first[row]) | np.uint64(page + 1)
        page = final
        for each in range(unit, final_unit + 1):
            _put(naming, at, row, each)
            at += 1
        naming.laid[row] = found[NEEDED]
        naming.opened[row] = opened
        pages += many
        received += many * receive
        row += 1
    last.process, last.page, last.receive = process, page, receive
    last.edges |= edges & mask
    found[LOOKUPS], found[PAGES], found[RECEIVED], found[REPEATS] = at, pages, received, repeats
    found[SINGLE] = 0
    return row


@step
def _put(naming, at, row, unit):
    naming.unit[at] = unit
    naming.process[at] = naming.stream.process[row]
    naming.lookups.receive[at] = naming.stream.receive[row]


@kernel
def name(naming, begin, unit_bits, step):
    """Write the numbers and sets of the units of requests from ``begin`` on, and what is doubtful.

    The processes of a node begin ``step`` units apart.
    """
    stream = naming.stream
    if naming.found[SINGLE]:
        _number_all(naming, stream.first[begin:], stream.process[begin:], unit_bits, step)
    else:
        _number_all(naming, naming.unit, naming.process, 0, step)


@step
def _number_all(naming, units, processes, unit_bits, step):
    numbering, lookups, count = naming.numbering, naming.lookups, naming.found[LOOKUPS]
    for i in range(count):
        process, unit = np.int64(processes[i]), units[i] >> unit_bits
        naming.place[i] = place_in(numbering, process, unit)
        lookups.set_index[i] = unit & LOW
        lookups.spread_index[i] = (unit + process * step) & LOW
    doubtful = np.int64(0)
    for i in range(count):
        process, unit = np.int64(processes[i]), units[i] >> unit_bits
        known, is_certain = probe(numbering, naming.place[i], process, unit)
        lookups.number[i] = known
        naming.doubtful[doubtful] = i
        doubtful += np.int64(not is_certain)
    naming.found[DOUBTFUL] = doubtful


@step
def _key_of_lookup(naming, begin, i, unit_bits):
    """The process and the unit of lookup ``i`` of requests from ``begin`` on."""
    if naming.found[SINGLE]:
        return np.int64(naming.stream.process[begin + i]), naming.stream.first[
            begin + i
        ] >> unit_bits
    return np.int64(naming.process[i]), naming.unit[i]


@kernel
def number_doubtful(naming, begin, unit_bits, done):
    """Numbers the doubtful lookups from the ``done``-th on; the first that found no space."""
    for place in range(done, naming.found[DOUBTFUL]):
        i = naming.doubtful[place]
        process, unit = _key_of_lookup(naming, begin, i, unit_bits)
        known = number(naming.numbering, process, unit)
        if known == NONE:
            return np.int64(place)
        naming.lookups.number[i] = known
    return naming.found[DOUBTFUL]


@kernel
def number_ahead(naming, begin, unit_bits, reach, done):
    """Numbers ``reach`` units after each lookup from the ``done``-th on; where space ran out."""
    for i in range(done, naming.found[LOOKUPS]):
        process, unit = _key_of_lookup(naming, begin, i, unit_bits)
        for further in range(min(BLOCK, reach), reach + BLOCK, BLOCK):
            if number(naming.numbering, process, unit + min(further, reach)) == NONE:
                return np.int64(i)
    return naming.found[LOOKUPS]


class LookupArrays:
    """A stream and arrays for its lookups, reused for one node after the other."""

    def __init__(self, stream: Stream | None = None) -> None:
        """For ``stream``, or for one that is to be written."""
        self.stream = new_stream(columns.ROWS) if stream is None else stream
        self.found = np.zeros(7, np.int64)
        self.laid = np.empty(len(self.stream.first), np.int32)
        self.opened = np.empty(len(self.stream.first), np.uint8)
        self.make_room(columns.UNITS)

    def make_room(self, units: int) -> None:
        """Grows the arrays until one request of ``units`` units fits."""
        self.lookups = Lookups(
            np.empty(units, np.uint32),
            np.empty(units, np.uint32),
            np.empty(units, np.uint32),
            np.empty(units, np.uint8),
        )
        self._unit = np.empty(units, np.int64)
        self._process = np.empty(units, np.int32)
        self._place = np.empty(units, np.uint32)
        self._doubtful = np.empty(units + 1, np.uint32)

    def naming(self, numbering: Numbering, last: NDArray[Any]) -> NumberingKernelState:
        """State of the kernels that number the stream's lookups by ``numbering``."""
        scratch = (self._unit, self._process, self._place, self._doubtful)
        return NumberingKernelState(
            numbering,
            self.stream,
            last,
            self.laid,
            self.opened,
            self.lookups,
            *scratch,
            self.found,
        )


class NumberedRequests(NamedTuple):
    """Requests of a stream whose numbered lookups are in the arrays, until the next are."""

    begin: int
    end: int
    lookups: int
    pages: int
    received: int  # of the pages, on the receive path
    repeats: int  # lookups of the unit that was looked up last, which are left out


class PageNumberer:
    """Dense numbers of the units (2**unit_bits pages) of one node, or of one process."""

    def __init__(
        self,
        unit_bits: int,
        reach: int = 0,
        step: int = 0,
        grain_bits: int = 0,
        *,
        joins: bool = False,
    ) -> None:
        """``reach`` units beyond each request get numbers too, as pinning ahead may touch them.

        Processes begin ``step`` units apart where sets are spread.  What is named are groups of
        2**grain_bits units, which needs runs that are aligned to them.  Those are joined if it
        ``joins``, and other runs where it pays.
        """
        self.numbering: Numbering = new_numbering()
        self._unit_bits = unit_bits + grain_bits
        self._is_grained = bool(grain_bits)
        self._joins = joins
        self._last = no_previous_request()
        self._reach = reach
        self._step = step
        self._bound: dict[int, _Bound] = {}

    def named(
        self, lookup_arrays: LookupArrays, begin: int, end: int
    ) -> Iterator[NumberedRequests]:
        """Numbers what requests ``begin..end`` of the stream look up, in pieces of limited size.

        A piece is overwritten by the next.
        """
        while begin < end:
            known = self._on(lookup_arrays)
            joins = self._joins and (
                self._is_grained or known.share_units(begin, end, self._unit_bits)
            )
            lay = known.lay_out_joined if joins else known.lay_out
            row = lay(begin, end, self._unit_bits)
            if row == begin:  # one request that is longer than the budget
                lookup_arrays.make_room(int(lookup_arrays.found[NEEDED]))
                continue
            self._name(lookup_arrays, begin)
            yield NumberedRequests(begin, row, *lookup_arrays.found[:DOUBTFUL].tolist())
            begin = row
        if self._is_grained and self._last[0]["edges"]:
            raise ValueError("a run of requests is not aligned to the grain that was given")

    def cut(self) -> None:
        """Ends the present run: the next request begins a new one."""
        forget(self._last)

    def _name(self, lookup_arrays: LookupArrays, begin: int) -> None:
        bits, done = self._unit_bits, 0
        self._on(lookup_arrays).name(begin, bits, self._step)
        while (
            done := self._on(lookup_arrays).number_doubtful(begin, bits, done)
        ) < lookup_arrays.found[DOUBTFUL]:
            self._grow()
        done = 0
        while (
            self._reach
            and (done := self._on(lookup_arrays).number_ahead(begin, bits, self._reach, done))
            < lookup_arrays.found[LOOKUPS]
        ):
            self._grow()

    def _grow(self) -> None:
        pages = capacity(self.numbering)
        check_memory(
            pages * BYTES_OF_A_PAGE,
            f"keeping more than {pages:,} pages apart",
            "take larger pages, or a trace that touches fewer",
        )
        self.numbering = outgrown(self.numbering)

    def _on(self, lookup_arrays: LookupArrays) -> _Bound:
        known = self._bound.get(id(lookup_arrays))
        if known is None or not known.is_of(self.numbering, lookup_arrays):
            known = self._bound[id(lookup_arrays)] = _Bound(
                self.numbering, lookup_arrays, self._last
            )
        return known


class _Bound:
    """The numbering kernels bound to one numbering and one set of lookup arrays."""

    def __init__(
        self, numbering: Numbering, lookup_arrays: LookupArrays, last: NDArray[Any]
    ) -> None:
        self._numbering, self._lookup_arrays, self._lookups = (
            numbering,
            lookup_arrays,
            lookup_arrays.lookups,
        )
        naming = lookup_arrays.naming(numbering, last)
        self._naming = naming
        self.name: Callable[..., None] = bound(name, naming)
        self.number_doubtful: Callable[..., int] = bound(number_doubtful, naming)

    @functools.cached_property
    def lay_out(self) -> Callable[..., int]:
        return bound(lay_out, self._naming)

    @functools.cached_property
    def share_units(self) -> Callable[..., bool]:
        return bound(share_units, self._naming)

    @functools.cached_property
    def lay_out_joined(self) -> Callable[..., int]:
        return bound(lay_out_joined, self._naming)

    @functools.cached_property
    def number_ahead(self) -> Callable[..., int]:
        return bound(number_ahead, self._naming)

    def is_of(self, numbering: Numbering, lookup_arrays: LookupArrays) -> bool:
        return (
            numbering is self._numbering
            and lookup_arrays is self._lookup_arrays
            and lookup_arrays.lookups is self._lookups
        )


def numbering_of(stream: Stream, unit_bits: int, reach: int) -> Numbering:
    """Numbers for all units that the requests of ``stream`` touch, and ``reach`` beyond each."""
    namer = PageNumberer(unit_bits, reach)
    for _ in namer.named(LookupArrays(stream), 0, len(stream.first)):
        pass
    return namer.numbering
