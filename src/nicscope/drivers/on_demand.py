"""Requests of a trace at NICs whose hosts page on demand: which fault, and what is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay import columns
from nicscope.drivers.replay.columns import RequestColumns, TracePartitioner
from nicscope.drivers.replay.page_numbering import LookupArrays, NumberedRequests, PageNumberer
from nicscope.host.on_demand import COUNTS, Asked, map_more, new_on_demand, use_requests, use_rest
from nicscope.memory.numbering import BLOCK, Numbering, capacity
from nicscope.memory.paging.layout import PRESENT, SWAPPED, grown_memory, new_memory
from nicscope.memory_limit import check_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


FEW = 1024  # pages that a node has room for at first
BYTES_OF_A_PAGE = 64  # of the kernel's tables, for every page that is told apart


class Paging(NamedTuple):
    """How a host pages."""

    piece_bits: int  # pages that one fault may bring, or ``WHOLE`` for those of the request
    advises: bool
    ahead: int
    resident: int | None  # pages that may be in memory at once; None: any number


class Paged(NamedTuple):
    """What one node's host did."""

    counts: dict[str, int]
    notes: NDArray[Any]  # COUNTS, shape (notes,): as they were after ever more requests
    by_faults: NDArray[np.int64]  # shape (faults,): requests by how many faults each had


class Touched(NamedTuple):
    """What requests of a node touched."""

    pages: int
    runs: int  # of neighbouring pages


class OnDemandReplay:
    """Every node's NIC, under each of several ways of paging."""

    def __init__(self, ways: Sequence[Paging], page_bits: int) -> None:
        self._ways = ways
        self._page_bits = page_bits
        self._parter = TracePartitioner()
        self._desk = LookupArrays()
        self._nodes: list[_Node] = []

    def feed(self, batch: RequestColumns) -> None:
        """Carry out a batch of requests, in the order of issue."""
        for piece in columns.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for share in self._parter.shares(self._page_bits, self._desk.stream):
                if share.place == len(self._nodes):
                    self._nodes.append(_Node(self._ways))
                self._nodes[share.place].feed(self._desk, share.begin, share.end)

    def finish(self) -> None:
        """Carries out prefetches that were advised and not used yet."""
        for node in self._nodes:
            for host in node.hosts:
                host.finish()

    def paged(self) -> list[list[Paged]]:
        """Of each way, what each node's host did."""
        return [
            [node.hosts[place].paged() for node in self._nodes] for place in range(len(self._ways))
        ]

    def touched(self) -> list[Touched]:
        """Of each node."""
        return [node.touched() for node in self._nodes]


class _Node:
    def __init__(self, ways: Sequence[Paging]) -> None:
        self.namer = PageNumberer(0)
        self.hosts = [_Host(way) for way in ways]

    def feed(self, lookup_arrays: LookupArrays, begin: int, end: int) -> None:
        for named in self.namer.named(lookup_arrays, begin, end):
            asked = _asked(lookup_arrays, named)
            for host in self.hosts:
                host.use(asked, self.namer.numbering)

    def touched(self) -> Touched:
        """Pages that are somewhere, in memory or in swap, and their runs in each process."""
        numbering = self.namer.numbering
        used = int(numbering.used[0])
        state = self.hosts[0].entries["state"][: used * BLOCK]
        there = (state == PRESENT) | (state == SWAPPED)
        owners = numbering.owners[:used]
        order = np.lexsort((owners["unit"], owners["process"]))
        there = there.reshape(-1, BLOCK)[order].ravel()
        process = np.repeat(owners["process"][order], BLOCK)[there]
        unit = (owners["unit"][order][:, None] + np.arange(BLOCK)).ravel()[there]
        gaps = (np.diff(unit) != 1) | (np.diff(process) != 0)
        return Touched(len(unit), int(gaps.sum()) + bool(len(unit)))


class _Host:
    """One node's host under one way of paging."""

    def __init__(self, way: Paging) -> None:
        self._way = way
        frames = FEW if way.resident is None else way.resident
        blocks = 0 if way.resident is None else FEW
        memory = new_memory(1, frames + 1, 1, 1, FEW, blocks)
        map_more(memory, 0, FEW)
        self._state = new_on_demand(memory, way.piece_bits, way.advises, way.ahead)
        nothing = np.zeros(0, np.int64)
        self._waiting = Asked(nothing, nothing, nothing)

    @property
    def entries(self) -> NDArray[Any]:
        """The page table."""
        table: NDArray[Any] = self._state.memory.entries[0, 0]
        return table

    def use(self, asked: Asked, numbering: Numbering) -> None:
        """Carries out requests but those that so far are only prefetch advice."""
        self._make_room(capacity(numbering))
        known = len(self._waiting.first)
        every = _joined(self._waiting, asked) if known else asked
        count = len(every.first)
        use_requests(self._state, every, known, count)
        self._waiting = _last(every, min(self._way.ahead, count))

    def finish(self) -> None:
        """Carries out prefetches that wait."""
        use_rest(self._state, self._waiting, len(self._waiting.first))
        self._waiting = _last(self._waiting, 0)

    def paged(self) -> Paged:
        """What has been done."""
        state, host = self._state, self._state.memory.hosts[0]
        counts = {name: int(state.counts[0][name]) for name in COUNTS.names or ()}
        counts["invalidated_pages"] = int(host["reclaimed"])
        counts["written_pages"] = int(host["page_outs"])
        most = int(state.counts[0]["most_faults"])
        return Paged(
            counts, state.notes[: int(state.rules[0]["notes"])], state.by_faults[: most + 1]
        )

    def _make_room(self, pages: int) -> None:
        had = self._state.memory.entries.shape[2]
        if pages <= had:
            return
        check_memory(
            pages * BYTES_OF_A_PAGE,
            f"paging of {pages:,} pages",
            "take larger pages, or a trace that touches fewer",
        )
        limit = self._way.resident
        frames = pages if limit is None else limit
        blocks = 0 if limit is None else pages
        memory = grown_memory(self._state.memory, frames + 1, pages, blocks)
        map_more(memory, had, pages - had)
        self._state = self._state._replace(memory=memory)


def _asked(lookup_arrays: LookupArrays, named: NumberedRequests) -> Asked:
    """The requests whose lookups have been numbered."""
    stream = lookup_arrays.stream
    return Asked(
        stream.first[named.begin : named.end].copy(),
        np.cumsum(stream.pages[named.begin : named.end], dtype=np.int64),
        lookup_arrays.lookups.number[: named.lookups].astype(np.int64),
    )


def _joined(one: Asked, other: Asked) -> Asked:
    return Asked(
        np.concatenate((one.first, other.first)),
        np.concatenate((one.end, other.end + len(one.number))),
        np.concatenate((one.number, other.number)),
    )


def _last(asked: Asked, count: int) -> Asked:
    """The last ``count`` of the requests."""
    left = len(asked.first) - count
    begin = int(asked.end[left - 1]) if left else 0
    return Asked(asked.first[left:].copy(), asked.end[left:] - begin, asked.number[begin:].copy())
