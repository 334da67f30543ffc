"""Paging on demand for an RDMA NIC: what it asks for and has not, its host brings, fault by fault.

Nothing is pinned.  What is in the host's memory the NIC has translations of; what the kernel
reclaims is invalidated there (an MMU notifier).  An access of the NIC is not seen by the reclaiming
clock, which learns of a page when it is brought: mlx5 has no handler for the question whether a
page is young.  A fault brings what is absent from there to the end of its piece of the request; a
region that may be written is brought to be written (mlx5, ``odp.c``, ``pagefault_real_mr``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records
from nicscope.memory.paging.frames import bring, need
from nicscope.memory.paging.layout import DISK, READ, READY, WRITE, HostMemory
from nicscope.memory.paging.spaces import map_pages

if TYPE_CHECKING:
    from numpy.typing import NDArray


WHOLE = 62  # piece_bits of pieces that are whole requests
MOST_FAULTS = 1023  # of one request that are told apart from more
NOTES = 4096  # of how the counts grew, each a 64th later than the one before

COUNTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "requests",
            "lookups",  # pages that they touch
            "faults",  # of the NIC, each resolved by its host
            "major_faults",  # that had to read from swap
            "faulting_requests",
            "most_faults",  # of one request
            "fault_range_pages",  # that faults covered, there or not
            "minor_pages",  # that faults brought and nobody had touched
            "major_pages",  # that faults read from swap
            "advices",
            "advised_pages",  # there or not
            "prefetched_minor_pages",
            "prefetched_major_pages",
        )
    ],
    align=True,
)
RULES = np.dtype(
    [
        ("piece_bits", "i8"),  # of page numbers: pages with the same others are one piece
        ("advises", "i8"),
        ("ahead", "i8"),  # requests between an advice and the use of what it is about
        ("next_note", "i8"),  # the requests after which one is taken
        ("notes", "i8"),  # taken
    ],
    align=True,
)


class OnDemand(NamedTuple):
    """One node's memory, as its NIC finds it."""

    memory: HostMemory  # host 0, space 0: the numbers that a node's pages have
    rules: NDArray[Any]  # RULES, shape (1,)
    counts: NDArray[Any]  # COUNTS, shape (1,)
    notes: NDArray[Any]  # COUNTS, shape (NOTES,): the counts after some of the requests
    by_faults: NDArray[np.int64]  # shape (MOST_FAULTS + 1,): requests by how many faults each had


class Asked(NamedTuple):
    """Requests and the numbers of their pages, one after the other."""

    first: NDArray[np.int64]  # shape (requests,): page number in the process
    end: NDArray[np.int64]  # shape (requests,): where the request's end in ``number``
    number: NDArray[np.int64]


def new_on_demand(memory: HostMemory, piece_bits: int, advises: bool, ahead: int) -> OnDemand:
    """Nothing asked for yet."""
    rules = records(1, RULES)
    rules[0] = (piece_bits, advises, ahead, 1, 0)
    return OnDemand(
        memory,
        rules,
        records(1, COUNTS),
        records(NOTES, COUNTS),
        np.zeros(MOST_FAULTS + 1, np.int64),
    )


@kernel
def map_more(memory, first, count):
    """Have the process have ``count`` pages from ``first`` on, which nobody has touched."""
    return map_pages(memory, 0, 0, first, count, READ | WRITE)


@kernel
def use_requests(state, asked, advised, count):
    """Carry out the first ``count`` requests but the last ``ahead``; ``advised`` are known already.

    Each is advised of so many requests before it is used.
    """
    rules = state.rules[0]
    for row in range(advised, count):
        if rules.advises != 0:
            _advise(state, asked, row)
        if row >= rules.ahead:
            _use(state, asked, row - rules.ahead)


@kernel
def use_rest(state, asked, count):
    """Carry out ``count`` requests that have been advised of."""
    for row in range(count):
        _use(state, asked, row)


@step
def _begin_of(asked, row):
    return asked.end[row - 1] if row > 0 else np.int64(0)


@step
def _advise(state, asked, row):
    """Advise that a request's pages will be used: absent ones are faulted in."""
    counts, memory = state.counts[0], state.memory
    begin, end = _begin_of(asked, row), asked.end[row]
    counts.advices += 1
    counts.advised_pages += end - begin
    for place in range(begin, end):
        page = asked.number[place]
        needed = need(memory, 0, 0, page, 1)
        if needed != READY:
            bring(memory, 0, 0, page, 1, needed)
            counts.prefetched_major_pages += needed == DISK
            counts.prefetched_minor_pages += needed != DISK


@step
def _use(state, asked, row):
    """The NIC takes a request's pages in order, and faults where one is absent."""
    counts, memory = state.counts[0], state.memory
    bits = state.rules[0].piece_bits
    begin, end, first = _begin_of(asked, row), asked.end[row], asked.first[row]
    faults = np.int64(0)
    served = np.int64(-1)  # the piece that the last fault was of
    was_major = False
    for place in range(begin, end):
        page = asked.number[place]
        needed = need(memory, 0, 0, page, 1)
        if needed == READY:
            continue
        at = first + place - begin
        if at >> bits != served:
            served = at >> bits
            faults += 1
            was_major = False
            counts.fault_range_pages += min(first + end - begin, (served + 1) << bits) - at
        if needed == DISK:
            counts.major_faults += not was_major
            was_major = True
        bring(memory, 0, 0, page, 1, needed)
        counts.major_pages += needed == DISK
        counts.minor_pages += needed != DISK
    counts.requests += 1
    counts.lookups += end - begin
    counts.faults += faults
    counts.faulting_requests += faults > 0
    counts.most_faults = max(counts.most_faults, faults)
    state.by_faults[min(faults, MOST_FAULTS)] += 1
    if counts.requests == state.rules[0].next_note:
        _note(state)


@step
def _note(state):
    """Record the counts as they are now."""
    rules = state.rules[0]
    if rules.notes < NOTES:
        state.notes[rules.notes] = state.counts[0]
        rules.notes += 1
        rules.next_note += 1 + (rules.next_note >> 6)
