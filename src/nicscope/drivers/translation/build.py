"""A node as a design has it: NIC, host and book, grown as pages and processes appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.config.delivery import ServedBy
from nicscope.config.scheme import Scheme
from nicscope.kernel.records import longer
from nicscope.memory.indices import grown_indices
from nicscope.memory.lines import grown_lines
from nicscope.memory.numbering import capacity, regions_of
from nicscope.memory.pinning import grown_pinning, new_pinning
from nicscope.memory.replacement import Replacement
from nicscope.nic.layout import AREA, DIRECTORY, Nic, new_cache, new_table, region_bytes
from nicscope.nic.translate.book import Book, grown_book, new_book
from nicscope.nic.translate.codes import (
    HANDLE,
    INTERRUPT,
    PINNED_AREA,
    RNIC,
    STATIC,
    UNET_MM,
    UTLB,
    UTLB_PROCESS,
    UTLB_SHARED,
)
from nicscope.nic.translate.counts import COUNT_NAMES, KIND_NAMES
from nicscope.nic.translate.state import Host, new_host
from nicscope.nic.translate.utlb import SECOND_LEVEL

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.memory.numbering import Numbering

# What the ordinal of a process is multiplied with to offset its set indices (UTLB 3.2 leaves the
# constant open).  Assumed: chosen among the odd numbers below 2**20 because the offsets of the
# first 2, 3, 4, 5, 8 and 16 processes lie furthest apart in the worst of the set counts
# 2**6..2**17: never closer than 0.238 of an even spacing (bench/index_offset.py).
OFFSET_STEP = 0x29B27
ADDRESS_BITS = 64

CODES = {
    Scheme.PINNED: PINNED_AREA,
    Scheme.STATIC: STATIC,
    Scheme.INTERRUPT: INTERRUPT,
    Scheme.UNET_MM: UNET_MM,
    Scheme.HANDLE: HANDLE,
    Scheme.RNIC: RNIC,
    Scheme.UTLB: UTLB,
    Scheme.UTLB_SHARED: UTLB_SHARED,
    Scheme.UTLB_PROCESS: UTLB_PROCESS,
}

_DIFFERENCES = (  # name, the whole, what is counted of it
    ("ni_misses_send", "ni_misses", "ni_misses_receive"),
    ("ni_misses_send_compulsory", "ni_misses_compulsory", "ni_misses_receive_compulsory"),
    ("ni_misses_noncompulsory", "ni_misses", "ni_misses_compulsory"),
)
_CACHED = (
    Scheme.INTERRUPT,
    Scheme.UNET_MM,
    Scheme.UTLB,
    Scheme.UTLB_SHARED,
    Scheme.HANDLE,
    Scheme.RNIC,
)


class Parts(NamedTuple):
    """One node."""

    nic: Nic
    host: Host
    book: Book


def new_parts(design: Design, page_bits: int, kinds: bool, number: int) -> Parts:
    """Node ``number`` of ``design``, with pages of 2**page_bits bytes; see ``grown_parts``."""
    entries = design.entries or 0
    if design.scheme in _CACHED:
        nic = new_cache(entries, design.ways or 1, design.line or 1, design.victim_entries)
    else:
        nic = new_table(entries if design.scheme is Scheme.STATIC else 0)
    limit = entries if design.scheme is Scheme.UTLB_PROCESS else design.pin_limit
    policy = Replacement.LRU if design.replacement is None else design.replacement
    host = new_host(new_pinning(limit, policy, (design.seed or 0) + number))
    # Only a cache has misses to tell apart.
    shadow = entries + (design.victim_entries or 0) + (design.l1_entries or 0)
    book = new_book(kinds and design.scheme in _CACHED, shadow // (design.line or 1))
    _give_orders(book, design, page_bits)
    book.orders[0]["kinds_known"] = kinds
    return Parts(nic, host, book)


def _give_orders(book: Book, design: Design, page_bits: int) -> None:
    orders = book.orders[0]
    orders["offset_step"] = OFFSET_STEP if design.index_offset else 0
    orders["prefetch"] = design.prefetch or 1
    orders["prepin"] = design.prepin or 1
    orders["last_page"] = (1 << (ADDRESS_BITS - page_bits)) - 1
    orders["area_bytes"] = design.area_bytes or 0
    orders["area_pages"] = -(-(design.area_bytes or 0) >> page_bits)
    orders["most_valid"] = design.most_valid or 0
    orders["high_water"] = -1 if design.high_water is None else design.high_water
    orders["line_bits"] = line_bits_of(design)
    orders["in_kernel"] = design.served_by == ServedBy.KERNEL
    orders["cached"] = design.scheme in _CACHED
    orders["scheme"] = CODES[design.scheme]


def grown_parts(parts: Parts, design: Design, numbering: Numbering, processes: int) -> Parts:
    """The same node with room for every number of ``numbering`` and for ``processes``."""
    room = 1 << (processes - 1).bit_length()
    units = capacity(numbering)
    pages = units * (design.line or 1)
    host, scheme = parts.host, design.scheme
    host = host._replace(numbering=numbering, pinning=grown_pinning(host.pinning, pages, room))
    if scheme is Scheme.UTLB_SHARED:
        host = host._replace(indices=grown_indices(host.indices, numbering, room))
    if scheme is Scheme.HANDLE and design.high_water is not None:
        host = host._replace(lines=grown_lines(host.lines, units))
    if scheme is Scheme.STATIC:
        host = host._replace(table_entries=longer(host.table_entries, pages))
    if scheme in (Scheme.STATIC, Scheme.RNIC):
        host = host._replace(run_ends=longer(host.run_ends, room))
    parts.book.orders[0]["processes"] = processes
    return Parts(parts.nic, host, grown_book(parts.book, units))


def counts_of_book(book: Book) -> dict[str, int | None]:
    """Every count so far; the kinds are None where they were not told apart."""
    record = book.counts[0]
    counts: dict[str, int | None] = {name: int(record[name]) for name in COUNT_NAMES}
    for name, of, minus in _DIFFERENCES:
        counts[name] = int(record[of]) - int(record[minus])
    if not book.orders[0]["kinds_known"]:
        counts.update(dict.fromkeys(KIND_NAMES))
    return counts


def memory_of(parts: Parts, group_bits: int = 0) -> dict[str, int]:
    """Bytes of NIC memory that each structure for translation takes on the node.

    None at all where the host's kernel keeps them, in memory of its own (U-Net/MM, 5.2).
    What is numbered are groups of 2**group_bits pages.
    """
    nic, host, book = parts
    if book.orders[0]["in_kernel"]:
        return {}
    scheme, processes = int(book.orders[0]["scheme"]), int(book.orders[0]["processes"])
    regions = region_bytes(nic)
    if scheme == PINNED_AREA:
        return {"areas": processes * AREA.itemsize}
    if scheme == UTLB_PROCESS:
        per_process = int(host.pinning.rules[0]["limit"]) * nic.frames.itemsize
        return {"tables": processes * per_process}
    if scheme == UTLB_SHARED:
        regions["table_bases"] = processes * AREA.itemsize
    if scheme == UTLB and len(host.pinning.state) > 0:
        # Not all that has a number: other designs of the group and rejected requests do too.
        is_pinned = np.asarray(host.pinning.state) != 0
        most = SECOND_LEVEL.bit_length() - 1
        tables = regions_of(host.numbering, SECOND_LEVEL >> min(group_bits, most), is_pinned)
        tables <<= max(group_bits - most, 0)
        regions["directory"] = tables * DIRECTORY.itemsize
    return regions


def line_bits_of(design: Design) -> int:
    """log2 of the pages that share one entry number under ``design``."""
    return (design.line or 1).bit_length() - 1
