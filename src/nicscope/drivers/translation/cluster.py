"""The translation state of every node of a cluster, in arrays with one row per node.

Nothing grows: pages and processes are known beforehand.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.scheme import Scheme
from nicscope.drivers.translation.build import (
    Parts,
    counts_of_book,
    grown_parts,
    line_bits_of,
    memory_of,
    new_parts,
)
from nicscope.drivers.translation.need import deeds_needed
from nicscope.drivers.translation.rnic import rnic_caches
from nicscope.errors import DesignError
from nicscope.kernel.decorators import kernel
from nicscope.kernel.records import records
from nicscope.kernel.rows import row_of
from nicscope.memory.indices import grown_indices
from nicscope.memory.numbering import BLOCK, Numbering, capacity, grown, new_numbering, number
from nicscope.nic.layout import VICTIM, new_table
from nicscope.nic.translate.nodes import Translations
from nicscope.nic.translate.state import DEED
from nicscope.room import zeros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.config.design import Design
    from nicscope.nic.translate.rnic import Rnic


def space_numbering(design: Design, processes: int, pages: int) -> Numbering:
    """Numbers for pages 0..pages-1 of each of ``processes`` address spaces of one node.

    Errors: ``DesignError`` if a line of ``design`` would reach beyond the address space.
    """
    bits = line_bits_of(design)
    if pages % (1 << bits):
        raise DesignError(
            f"lines of {1 << bits} pages do not fill an address space of {pages} pages; "
            f"make it a multiple of {1 << bits}"
        )
    units = pages >> bits
    blocks = processes * -(-units // BLOCK)
    numbering = new_numbering(1 << (blocks - 1).bit_length())
    _number_spaces(numbering, processes, units)
    return numbering


@kernel
def _number_spaces(numbering, processes, units):
    for process in range(processes):
        for unit in range(0, units, BLOCK):
            number(numbering, process, unit)


def new_translations(
    design: Design,
    numberings: Sequence[Numbering],
    processes: Sequence[int],
    longest: int,
    *,
    deeds: int | None = None,
    pages_per_space: int | None = None,
    node_numbers: Sequence[int] | None = None,
    kinds: bool = True,
    victims_grow: bool = False,
) -> Translations:
    """Nothing pinned and nothing translated on a cluster of NICs of ``design``.

    One element of ``numberings`` and ``processes`` per node: the numbers of all its pages (of
    lines, where entries are lines), and how many processes it has.  For programs,
    ``space_numbering`` makes them and ``pages_per_space`` ends each address space; for a trace,
    ``Namer`` makes them, with a reach of ``design.prepin - 1``.  ``longest``: pages of the longest
    request.  ``deeds``: room for as many, ``deeds_needed`` by default; 0 for none.
    ``node_numbers`` seed each node's own random choices, 0, 1, ... by default.  ``victims_grow``:
    the victim cache is a list that grows while all it holds is in use (U-Net/MM 5.2.1).
    ``design`` has its page size settled.
    """
    assert design.page_size is not None
    page_bits = design.page_size.bit_length() - 1
    blocks = max(len(numbering.owners) for numbering in numberings)
    most = max(processes)
    room = deeds_needed(design, longest) if deeds is None else deeds

    def node(place: int, numbering: Numbering, count: int) -> Parts:
        seed = place if node_numbers is None else node_numbers[place]
        parts = grown_parts(
            new_parts(design, page_bits, kinds, seed), design, grown(numbering, blocks), most
        )
        parts.book.orders[0]["processes"] = count
        if pages_per_space is not None:
            parts.book.orders[0]["last_page"] = pages_per_space - 1
        leaving = 0
        if victims_grow and design.scheme is Scheme.UNET_MM:
            parts, leaving = _growing(parts)
        return _timed(parts, design, room + 2 * leaving, longest)

    nodes = (
        node(place, *each) for place, each in enumerate(zip(numberings, processes, strict=True))
    )
    nic, host, book = stacked(nodes, len(numberings))
    return Translations(nic, host, book, _levels(design, len(numberings)))


def _levels(design: Design, nodes: int) -> Rnic:
    """The caches of RDMA NICs beside the one whose entries name frames."""
    levels: Rnic = stacked(repeat(rnic_caches(design, with_pages=False), nodes), nodes)
    return levels._replace(regions_1=levels.pages_1) if design.l1_shared else levels


def _timed(parts: Parts, design: Design, deeds: int, longest: int) -> Parts:
    """The node with what a replay does without: see the last fields of ``Host``."""
    nic, host, book = parts
    rows = len(host.pinning.processes)
    if design.scheme is Scheme.UTLB_PROCESS:
        nic = new_table(rows * (design.entries or 0))
        host = host._replace(indices=grown_indices(host.indices, host.numbering, rows))
    units = capacity(host.numbering)
    held = np.zeros(units * (design.line or 1), np.int32)
    host = host._replace(
        pinning=host.pinning._replace(held=held),
        numbers=np.zeros(longest, np.uint32),
        deed_count=np.zeros(1, np.int64),
        deeds=records(deeds, DEED),
        in_use=np.zeros(units, np.int32),
    )
    return Parts(nic, host, book)


def _growing(parts: Parts) -> tuple[Parts, int]:
    """The node with a victim list that has room for every page; how many may leave it at once."""
    pages = capacity(parts.host.numbering)
    nominal = len(parts.nic.victims) - 1
    room = max(pages, nominal)
    return parts._replace(nic=parts.nic._replace(victims=records(room + 1, VICTIM))), room - nominal


def stacked(parts: Iterable[Any], nodes: int) -> Any:
    """Equal parts of ``nodes`` nodes as one, each array with a leading axis of nodes.

    One part after the other is copied, and of it only what is not zero: the rest takes no memory.
    """
    whole = None
    for place, part in enumerate(parts):
        if whole is None:
            whole = _rows_like(part, nodes)
        _put(whole, place, part)
    return whole


def _rows_like(part: Any, nodes: int) -> Any:
    if isinstance(part, tuple):
        return tuple.__new__(type(part), (_rows_like(field, nodes) for field in part))
    array = np.asarray(part)
    return zeros((nodes, *array.shape), array.dtype)


def _put(whole: Any, place: int, part: Any) -> None:
    if isinstance(part, tuple):
        for rows, field in zip(whole, part, strict=True):
            _put(rows, place, field)
    elif np.ascontiguousarray(part).view(np.uint8).any():
        whole[place] = part


def counts_of(translations: Translations, n: int) -> dict[str, int | None]:
    """Every count of node ``n`` so far; the kinds are None where they were not told apart."""
    return counts_of_book(row_of(translations.book, n))


def nic_memory_bytes(translations: Translations, n: int) -> dict[str, int]:
    """Bytes of NIC memory that each structure for translation takes on node ``n``."""
    nic, host, book = (row_of(part, n) for part in translations[:3])
    return memory_of(Parts(nic, host, book))
