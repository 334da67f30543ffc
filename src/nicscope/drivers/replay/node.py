"""One node under one design: its NIC, host and book, grown as pages and processes appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.scheme import Scheme
from nicscope.drivers.replay.book import grown_book, new_book
from nicscope.drivers.replay.columns import tally
from nicscope.drivers.replay.counts import COUNT_NAMES, KIND_NAMES
from nicscope.drivers.replay.schemes.handle import replay_handle
from nicscope.drivers.replay.schemes.interrupt import replay_interrupt
from nicscope.drivers.replay.schemes.tables import replay_pinned, replay_static
from nicscope.drivers.replay.schemes.unet_mm import replay_unet_mm
from nicscope.drivers.replay.schemes.utlb import (
    SECOND_LEVEL,
    replay_utlb,
    replay_utlb_plain,
    replay_utlb_process,
    replay_utlb_shared,
)
from nicscope.drivers.replay.state import Host, Stretch
from nicscope.memory.indices import grown_indices, new_indices
from nicscope.memory.lines import grown_lines, new_lines
from nicscope.memory.numbering import Numbering, capacity, regions_of
from nicscope.memory.pinning import grown_pinning, new_pinning
from nicscope.memory.replacement import Replacement
from nicscope.nic.layout import AREA, DIRECTORY, SEARCHED_WAYS, new_cache, new_table, region_bytes

if TYPE_CHECKING:
    from nicscope.config.design import Design

# What the ordinal of a process is multiplied with to offset its set indices (UTLB 3.2 leaves the
# constant open).  Assumed: chosen among the odd numbers below 2**20 because the offsets of the
# first 2, 3, 4, 5, 8 and 16 processes lie furthest apart in the worst of the set counts
# 2**6..2**17: never closer than 0.238 of an even spacing (bench/index_offset.py).
OFFSET_STEP = 0x29B27
ADDRESS_BITS = 64

_KERNELS = {
    Scheme.STATIC: replay_static,
    Scheme.INTERRUPT: replay_interrupt,
    Scheme.UNET_MM: replay_unet_mm,
    Scheme.UTLB: replay_utlb,
    Scheme.UTLB_SHARED: replay_utlb_shared,
    Scheme.UTLB_PROCESS: replay_utlb_process,
    Scheme.HANDLE: replay_handle,
}
_DIFFERENCES = (  # name, the whole, what is counted of it
    ("ni_misses_send", "ni_misses", "ni_misses_receive"),
    ("ni_misses_send_compulsory", "ni_misses_compulsory", "ni_misses_receive_compulsory"),
    ("ni_misses_noncompulsory", "ni_misses", "ni_misses_compulsory"),
)
_CACHED = (Scheme.INTERRUPT, Scheme.UNET_MM, Scheme.UTLB, Scheme.UTLB_SHARED, Scheme.HANDLE)


class Node:
    """A NIC and its host as ``design`` (its page size settled) has them, replaying requests."""

    def __init__(self, design: Design, page_bits: int, kinds: bool, number: int) -> None:
        self.number = number
        self._kinds = kinds
        self._design = design
        self._processes = 0
        self._numbering: Numbering | None = None
        entries = design.entries or 0
        if design.scheme in _CACHED:
            self._nic = new_cache(
                entries, design.ways or 1, design.line or 1, design.victim_entries
            )
        else:
            self._nic = new_table(entries if design.scheme is Scheme.STATIC else 0)
        limit = entries if design.scheme is Scheme.UTLB_PROCESS else design.pin_limit
        policy = Replacement.LRU if design.replacement is None else design.replacement
        self._pinning = new_pinning(limit, policy, (design.seed or 0) + number)
        self._indices = new_indices()
        self._lines = new_lines()
        # Only a cache has misses to tell apart.
        shadow = (entries + (design.victim_entries or 0)) // (design.line or 1)
        self._book = new_book(kinds and design.scheme in _CACHED, shadow)
        self._give_orders(design, page_bits)

    def _give_orders(self, design: Design, page_bits: int) -> None:
        orders = self._book.orders[0]
        orders["offset_step"] = OFFSET_STEP if design.index_offset else 0
        orders["prefetch"] = design.prefetch or 1
        orders["prepin"] = design.prepin or 1
        orders["last_page"] = (1 << (ADDRESS_BITS - page_bits)) - 1
        orders["area_bytes"] = design.area_bytes or 0
        orders["area_pages"] = -(-(design.area_bytes or 0) >> page_bits)
        orders["high_water"] = -1 if design.high_water is None else design.high_water
        orders["line_bits"] = line_bits_of(design)
        orders["cached"] = design.scheme in _CACHED

    def replay(self, numbering: Numbering, stretch: Stretch, processes: int) -> None:
        """Carry out a stretch of this node's requests, whose numbers ``numbering`` gave."""
        if numbering is not self._numbering or processes > self._processes:
            self._grow(numbering, processes)
        host = Host(numbering, self._pinning, self._indices, self._lines)
        counts = self._book.counts[0]
        counts["requests"] += len(stretch.first)
        lookups, receive = tally(stretch)
        counts["lookups"] += lookups
        counts["lookups_receive"] += receive
        counts["lookups_send"] += lookups - receive
        if self._design.scheme is Scheme.PINNED:
            replay_pinned(host, self._book, stretch)
        elif _is_plain(self._design):
            replay_utlb_plain(self._nic, host, self._book, stretch)
        else:
            _KERNELS[self._design.scheme](self._nic, host, self._book, stretch)

    def _grow(self, numbering: Numbering, processes: int) -> None:
        self._numbering = numbering
        self._processes = processes
        room = 1 << (processes - 1).bit_length()
        units = capacity(numbering)
        scheme = self._design.scheme
        pages = units * (self._design.line or 1)
        self._pinning = grown_pinning(self._pinning, pages, room)
        if scheme is Scheme.UTLB_SHARED:
            self._indices = grown_indices(self._indices, numbering, room)
        if scheme is Scheme.HANDLE and self._design.high_water is not None:
            self._lines = grown_lines(self._lines, units)
        self._book = grown_book(self._book, units)

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        record = self._book.counts[0]
        counts: dict[str, int | None] = {name: int(record[name]) for name in COUNT_NAMES}
        for name, of, minus in _DIFFERENCES:
            counts[name] = int(record[of]) - int(record[minus])
        if not self._kinds:
            counts.update(dict.fromkeys(KIND_NAMES))
        return counts

    def nic_memory_bytes(self) -> dict[str, int]:
        """Bytes of NIC memory that each structure for translation takes on this node."""
        regions = region_bytes(self._nic)
        if self._design.scheme is Scheme.PINNED:
            return {"areas": self._processes * AREA.itemsize}
        if self._design.scheme is Scheme.UTLB_PROCESS:
            per_process = (self._design.entries or 0) * self._nic.frames.itemsize
            return {"tables": self._processes * per_process}
        if self._design.scheme is Scheme.UTLB_SHARED:
            regions["table_bases"] = self._processes * AREA.itemsize
        if self._design.scheme is Scheme.UTLB and self._numbering is not None:
            # Not all that has a number: other designs of the group and rejected requests do too.
            tables = regions_of(self._numbering, SECOND_LEVEL, self._pinning.state != 0)
            regions["directory"] = tables * DIRECTORY.itemsize
        return regions


def _is_plain(design: Design) -> bool:
    """Whether nothing is prefetched into the design's cache or dropped from it, nor is it wide."""
    return (
        design.scheme is Scheme.UTLB
        and (design.ways or 1) <= SEARCHED_WAYS
        and design.prefetch == 1
        and design.pin_limit is None
    )


def line_bits_of(design: Design) -> int:
    """log2 of the pages that share one entry number under ``design``."""
    return (design.line or 1).bit_length() - 1
