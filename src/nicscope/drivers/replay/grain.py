"""Runs of requests that go on where the one before ended, and the grain to which all are aligned.

A transfer of many megabytes comes as requests of some kilobytes.  Where every *run*, from a request
that does not go on to the last one that does, begins and ends at multiples of 2**grain pages, the
pages of such a group are looked up together or not at all, in their order.  Then what holds for one
page of a group holds for all: each stands as deep in its set as the others.  So a cache is told
everything by one lookup of each group, as if it had as many sets fewer, and counts are multiplied.

Invariant: grouping by a grain of ``grains_of`` changes no count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay import parting
from nicscope.drivers.replay.columns import new_stream
from nicscope.drivers.replay.parting import Parter
from nicscope.drivers.translation.build import OFFSET_STEP
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.entering import bound
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns, Stream

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


def no_last() -> NDArray[Any]:
    """Before the first request."""
    last = records(1, LAST)
    forget(last)
    return last


def forget(last: NDArray[Any]) -> None:
    """Begin a run with the next request, whatever it is."""
    last[0]["process"] = last[0]["page"] = -1


@step
def goes_on(process, page, receive, stream, row):
    """Whether request ``row`` begins where one that ended with ``page`` did, or right behind it."""
    ahead = stream.first[row] - page
    return (
        (ahead == 0 or ahead == 1)
        and np.int64(stream.process[row]) == process
        and np.int64(stream.receive[row]) == receive
    )


class Share(NamedTuple):
    """What the kernel that looks for edges is handed."""

    stream: Stream
    last: NDArray[Any]  # LAST, shape (1,)


@kernel
def note_edges(share, begin, end):
    """Note where the runs of the requests ``begin..end`` of one NIC begin and end."""
    stream, last = share.stream, share.last[0]
    process, page, receive = last.process, last.page, last.receive
    edges, processes = np.uint64(last.edges), np.uint64(last.processes)
    for row in range(begin, end):
        if not goes_on(process, page, receive, stream, row):
            process = np.int64(stream.process[row])
            receive = np.int64(stream.receive[row])
            edges |= np.uint64(stream.first[row]) | np.uint64(page + 1)
            processes |= np.uint64(process)
        page = stream.first[row] + np.int64(stream.pages[row]) - 1
    last.process, last.page, last.receive = process, page, receive
    last.edges, last.processes = edges, processes


class Grain(NamedTuple):
    """log2 of the pages of a group, where sets are spread by process and where they are not."""

    spread: int
    plain: int

    def of(self, is_spread: bool) -> int:
        """One of both."""
        return self.spread if is_spread else self.plain


NO_GRAIN = Grain(0, 0)


def common(grains: Iterable[Grain]) -> Grain:
    """The grain of all requests, given those of parts that have no node in common."""
    return Grain(*map(min, zip(*grains, strict=True)))


class Grains:
    """The coarsest grain for pages of each of some sizes, in the requests fed so far."""

    def __init__(
        self, page_sizes: Iterable[int], *, by_process: bool = False, spread: bool = False
    ) -> None:
        """A NIC belongs to a node, or to each process if ``by_process``.

        Whether nobody asks but for caches whose sets are ``spread``.
        """
        self._spread = spread
        self._bits = {size: size.bit_length() - 1 for size in page_sizes}
        self._hopeful = list(self._bits)
        self._parter = Parter(by_process)
        self._stream = new_stream(parting.ROWS, lengths=False)
        self._lasts: dict[tuple[int, int], tuple[NDArray[Any], Callable[..., None]]] = {}

    def feed(self, batch: RequestColumns) -> bool:
        """Note the runs of a batch; False once there is no grain for pages of any size."""
        for piece in parting.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for size in self._hopeful:
                for share in self._parter.shares(self._bits[size], self._stream):
                    self._noting(size, share.place)(share.begin, share.end)
            self._hopeful = [size for size in self._hopeful if self._of(size).of(self._spread)]
            if not self._hopeful:
                return False
        return True

    def cut(self) -> None:
        """Begin runs anew: what comes from here on is counted apart."""
        for last, _ in self._lasts.values():
            last[0]["edges"] |= np.uint64(last[0]["page"] + 1)
            forget(last)

    def result(self) -> dict[int, Grain]:
        """The grain by page size."""
        self.cut()
        return {size: self._of(size) if size in self._hopeful else NO_GRAIN for size in self._bits}

    def _noting(self, size: int, place: int) -> Callable[..., None]:
        key = (size, place)
        if key not in self._lasts:
            last = no_last()
            self._lasts[key] = last, bound(note_edges, Share(self._stream, last))
        return self._lasts[key][1]

    def _of(self, size: int) -> Grain:
        lasts = [last[0] for (of, _), (last, _) in self._lasts.items() if of == size]
        edges, processes = 0, 0
        for last in lasts:
            edges |= int(last["edges"])
            processes |= int(last["processes"])
        # Odd steps between processes leave no group of one where those of another are.
        return Grain(_bits_of(edges | processes * OFFSET_STEP), _bits_of(edges))


def _bits_of(edges: int) -> int:
    bits = (edges & -edges).bit_length() - 1 if edges else MOST_BITS
    return min(bits, MOST_BITS) if bits >= LEAST_BITS else 0


def grains_of(
    batches: Iterable[RequestColumns],
    page_sizes: Iterable[int],
    *,
    by_process: bool = False,
    spread: bool = False,
) -> dict[int, Grain]:
    """The grain of ``batches`` for pages of each of ``page_sizes``; reads no further than it must.

    See ``Grains``.
    """
    grains = Grains(page_sizes, by_process=by_process, spread=spread)
    for batch in batches:
        if not grains.feed(batch):
            break
    return grains.result()
