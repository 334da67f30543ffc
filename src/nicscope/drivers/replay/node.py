"""One node under one design, replaying requests and growing as pages and processes appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.design import Design, Scheme
from nicscope.drivers.replay.schemes import entries_held, passes_of
from nicscope.drivers.replay.state import Case, whole
from nicscope.drivers.translation import counts_of_book, grown_parts, memory_of, new_parts
from nicscope.kernel.entry import bound
from nicscope.memory.numbering import Numbering, capacity
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS, Nic, new_cache
from nicscope.nic.recency import grown_recency, new_recency
from nicscope.nic.translate.book import COUNT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nicscope.drivers.replay.page_numbering import Alignment, LookupArrays, NumberedRequests


class Bound:
    """Kernels bound to a case, for as long as what that is made of stays the same."""

    def __init__(self, passes: Iterable[Any], case: Any, *made_of: object) -> None:
        self.passes = [bound(each, case) for each in passes]
        self._made_of = made_of

    def is_of(self, *made_of: object) -> bool:
        """Whether these are what the case was made of."""
        return all(one is other for one, other in zip(self._made_of, made_of, strict=True))


class Notes:
    """Intermediate results of a piece between passes; shared by all nodes and designs."""

    def __init__(self, units: int) -> None:
        self.key = np.empty(units, np.uint32)
        self.outcome = np.empty(units, np.uint8)
        self.set_index = np.empty(units, np.uint32)
        self.missed = np.empty(units + 1, np.uint32)
        self.found = np.zeros(1, np.int64)
        self.evicted = np.empty(units + 1, np.uint32)


# Counts of pages, which are those of a page's group times its pages where groups are looked up.
_OF_PAGES = (
    *(name for name in COUNT_NAMES if name.startswith("ni_misses")),
    "check_misses",
    "pins",
    "entries_fetched",
    "further_ways",
    "peak_pinned_pages",
)


def joins(design: Design) -> bool:
    """Whether runs of requests may be joined: no structure depends on who looked a page up.

    Nothing is fetched or pinned ahead, kept apart, or given up.
    """
    return (
        design.scheme is Scheme.UTLB
        and (design.prefetch or 1) == (design.prepin or 1) == 1
        and design.pin_limit is None
        and design.most_valid is None
        and not design.victim_entries
    )


def group_bits(design: Design, alignment: Alignment) -> int:
    """log2 of the pages that ``design`` may look up as one in runs of that ``alignment``.

    A group is in as many sets as it has pages; or it fills the sets, and takes several ways, if it
    makes no difference where in a set pages are found.
    """
    if not joins(design):
        return 0
    ways = design.ways or 1
    sets = (design.entries or 1) // ways
    most = sets * ways if ways > SEARCHED_WAYS else sets
    return min(alignment.of(bool(design.index_offset)), most.bit_length() - 1)


def _of_groups(design: Design, bits: int) -> Design:
    """``design`` with an entry for each group of 2**bits pages."""
    if not bits:
        return design
    entries, ways = design.entries or 1, design.ways or 1
    further = max(bits - (entries // ways).bit_length() + 1, 0)  # ways that each group takes
    return msgspec.structs.replace(design, entries=entries >> bits, ways=ways >> further)


class Node:
    """A NIC and its host as ``design`` (its page size settled) has them, replaying requests."""

    def __init__(
        self, design: Design, page_bits: int, kinds: bool, number: int, group_bits: int = 0
    ) -> None:
        """What its lookups name are groups of 2**group_bits pages."""
        self.number = number
        self._group_bits = group_bits
        self._searched = (design.ways or 1) <= SEARCHED_WAYS
        self._whole = design
        self._design = design = _of_groups(design, group_bits)
        self._fresh = np.zeros(1, np.int64)
        self._requests = self._lookups = self._received = 0
        self._numbering: Numbering | None = None
        tells = kinds and not _is_fully_associative_lru(design)
        self._parts = new_parts(design, page_bits, tells, number)
        self._parts.book.orders[0]["kinds_known"] = kinds
        held = entries_held(design)
        self._held = new_recency(held) if held else None
        self._bound: dict[int, Bound] = {}

    def replay(
        self,
        numbering: Numbering,
        lookup_arrays: LookupArrays,
        notes: Notes,
        named: NumberedRequests,
        processes: int,
    ) -> None:
        """Replays requests of this node, whose numbered lookups are in the arrays."""
        if numbering is not self._numbering or processes > len(self._parts.host.pinning.processes):
            self._parts = grown_parts(self._parts, self._design, numbering, processes)
            self._numbering = numbering
            if self._held is not None:
                self._held = grown_recency(self._held, capacity(numbering))
            self._bound.clear()
        self._parts.book.orders[0]["processes"] = processes
        known = self._bound.get(id(lookup_arrays))
        made_of = lookup_arrays, lookup_arrays.lookups, notes
        if known is None or not known.is_of(*made_of):
            known = Bound(passes_of(self._design), self._case(lookup_arrays, notes), *made_of)
            self._bound[id(lookup_arrays)] = known
        self._requests += named.end - named.begin
        self._lookups += named.pages
        self._received += named.received
        for do in known.passes:
            do(named.begin, named.end, named.lookups)

    def _case(self, lookup_arrays: LookupArrays, notes: Notes) -> Case:
        nic, host, book = self._parts
        lookups = lookup_arrays.lookups
        by_index = self._design.scheme is Scheme.UTLB_SHARED
        index = lookups.spread_index if self._design.index_offset else lookups.set_index
        return Case(
            nic=_indexed(nic, capacity(host.numbering)),
            host=whole(host, host.pinning),
            book=book,
            stream=lookup_arrays.stream,
            laid=lookup_arrays.laid,
            opened=lookup_arrays.opened,
            fresh=self._fresh,
            number=lookups.number,
            key=notes.key if by_index else lookups.number,
            set_index=notes.set_index if by_index else index,
            receive=lookups.receive,
            outcome=notes.outcome,
            missed=notes.missed,
            evicted=notes.evicted,
            found=notes.found,
            held=self._held,
        )

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        record = self._parts.book.counts[0]
        record["requests"] = self._requests
        record["lookups"] = self._lookups
        record["lookups_receive"] = self._received
        record["lookups_send"] = self._lookups - self._received
        counts = counts_of_book(self._parts.book)
        for name in _OF_PAGES if self._group_bits else ():
            count = counts[name]
            counts[name] = None if count is None else count << self._group_bits
        if not self._searched:
            counts["further_ways"] = 0
        return counts

    def nic_memory_bytes(self) -> dict[str, int]:
        """Bytes of NIC memory that each structure for translation takes on this node."""
        if not self._group_bits:
            return memory_of(self._parts)
        whole = new_cache(self._whole.entries or 1, self._whole.ways or 1)
        return memory_of(self._parts._replace(nic=whole), self._group_bits)


def _indexed(nic: Nic, keys: int) -> Nic:
    """The same NIC; the index of wide sets, if there is one, has a place of its own for each key.

    A real NIC's has twice as many as entries, and chains.  Where all keys are dense, and it is not
    the index's memory that is asked for, there need be none.
    """
    if len(nic.chains) == 0:
        return nic
    size = max(len(nic.chains), 1 << (keys - 1).bit_length())
    chains = np.zeros(size, np.uint32)
    entries = np.flatnonzero(nic.tags != EMPTY)
    chains[nic.tags[entries] & (size - 1)] = entries + 1  # tags from 1 to ``keys``: each its own
    nic.nexts[entries] = 0
    return nic._replace(chains=chains)


def _is_fully_associative_lru(design: Design) -> bool:
    """Whether the cache itself is the fully associative one that defines conflict misses."""
    lines = (design.entries or 0) // (design.line or 1)
    return (
        (design.ways or 1) == lines
        and not design.victim_entries
        and (design.prefetch or 1) == 1
        and design.pin_limit is None
        and design.most_valid is None
    )
