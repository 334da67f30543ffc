"""What the translation state of a node takes in memory, before any of it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.scheme import Scheme
from nicscope.nic.layout import cache_bytes
from nicscope.nic.translate.state import DEED

if TYPE_CHECKING:
    from nicscope.config.design import Design

# Of a page's number, state, links, counts and table entries, whatever the scheme keeps of these.
PAGE_BYTES = 96
COPIES = 2  # of every array while those of all nodes are put together
FRAME_BYTES = 4  # of a table on the NIC


def translation_bytes(design: Design, processes: int, pages: int, longest: int) -> int:
    """Bytes of one node at most, of so many processes with so many pages in all."""
    entries = design.entries or 0
    on_nic = cache_bytes(entries, design.ways or 1, design.line or 1, design.victim_entries)
    if design.scheme is Scheme.UTLB_PROCESS:
        on_nic = entries * FRAME_BYTES * (1 << (processes - 1).bit_length())
    log = deeds_needed(design, longest) * DEED.itemsize
    return COPIES * (on_nic + pages * PAGE_BYTES + log)


def deeds_needed(design: Design, longest: int) -> int:
    """The most deeds that one call makes, if requests have up to ``longest`` pages.

    The log must be cleared before each call that may write to it, for kernels check no bounds.
    """
    prepin, prefetch, line = design.prepin or 1, design.prefetch or 1, design.line or 1
    pinned = longest + prepin - 1
    return {
        Scheme.PINNED: 0,
        Scheme.STATIC: 2,  # pin, fill
        Scheme.INTERRUPT: 6,  # one drops and unpins at the limit, one on eviction; pin, fill
        Scheme.UNET_MM: 6,  # one drops and unpins at the cap, one on eviction; pin, fill
        # Each page that is pinned may drop and unpin another; or a miss fills and drops.
        Scheme.UTLB: max(3 * pinned, 2 * prefetch),
        Scheme.UTLB_SHARED: max(3 * pinned, 2 * prefetch),
        Scheme.UTLB_PROCESS: 4 * pinned,
        # What the high water asks for beyond that waits for the next call.
        # Twice what a line pins, so that a backlog of held pages is caught up with.
        Scheme.HANDLE: 4 * line + 1,
        Scheme.RNIC: line + 1,  # a line is filled and another drops; registered is page by page
    }[design.scheme]
