"""One node under one design, replaying requests and growing as pages and processes appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.scheme import Scheme
from nicscope.drivers.replay.columns import tally
from nicscope.drivers.replay.schemes.handle import replay_handle
from nicscope.drivers.replay.schemes.interrupt import replay_interrupt
from nicscope.drivers.replay.schemes.tables import replay_pinned, replay_static
from nicscope.drivers.replay.schemes.unet_mm import replay_unet_mm
from nicscope.drivers.replay.schemes.utlb import (
    replay_utlb,
    replay_utlb_plain,
    replay_utlb_process,
    replay_utlb_shared,
)
from nicscope.drivers.translation.build import counts_of_book, grown_parts, memory_of, new_parts
from nicscope.nic.layout import SEARCHED_WAYS

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.drivers.replay.state import Stretch
    from nicscope.memory.numbering import Numbering

_KERNELS = {
    Scheme.STATIC: replay_static,
    Scheme.INTERRUPT: replay_interrupt,
    Scheme.UNET_MM: replay_unet_mm,
    Scheme.UTLB: replay_utlb,
    Scheme.UTLB_SHARED: replay_utlb_shared,
    Scheme.UTLB_PROCESS: replay_utlb_process,
    Scheme.HANDLE: replay_handle,
}


class Node:
    """A NIC and its host as ``design`` (its page size settled) has them, replaying requests."""

    def __init__(self, design: Design, page_bits: int, kinds: bool, number: int) -> None:
        self.number = number
        self._design = design
        self._processes = 0
        self._numbering: Numbering | None = None
        self._parts = new_parts(design, page_bits, kinds, number)

    def replay(self, numbering: Numbering, stretch: Stretch, processes: int) -> None:
        """Carry out a stretch of this node's requests, whose numbers ``numbering`` gave."""
        if numbering is not self._numbering or processes > self._processes:
            self._parts = grown_parts(self._parts, self._design, numbering, processes)
            self._numbering = numbering
            self._processes = processes
        nic, host, book = self._parts
        counts = book.counts[0]
        counts["requests"] += len(stretch.first)
        lookups, receive = tally(stretch)
        counts["lookups"] += lookups
        counts["lookups_receive"] += receive
        counts["lookups_send"] += lookups - receive
        if self._design.scheme is Scheme.PINNED:
            replay_pinned(host, book, stretch)
        elif _is_plain(self._design):
            replay_utlb_plain(nic, host, book, stretch)
        else:
            _KERNELS[self._design.scheme](nic, host, book, stretch)

    def counts(self) -> dict[str, int | None]:
        """Every count so far; the kinds are None where they were not told apart."""
        return counts_of_book(self._parts.book)

    def nic_memory_bytes(self) -> dict[str, int]:
        """Bytes of NIC memory that each structure for translation takes on this node."""
        return memory_of(self._parts)


def _is_plain(design: Design) -> bool:
    """Whether nothing is prefetched into the design's cache or dropped from it, nor is it wide."""
    return (
        design.scheme is Scheme.UTLB
        and (design.ways or 1) <= SEARCHED_WAYS
        and design.prefetch == 1
        and design.pin_limit is None
    )
