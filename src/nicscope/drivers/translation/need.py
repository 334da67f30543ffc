"""What the translation state of a node takes in memory, before any of it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.scheme import Scheme
from nicscope.drivers.translation.deeds import deeds_needed
from nicscope.drivers.translation.state import DEED
from nicscope.nic.layout import cache_bytes

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
