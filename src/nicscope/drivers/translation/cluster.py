"""The translation state of every node of a cluster, in arrays with one row per node.

Nothing grows: pages and processes are known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.scheme import Scheme
from nicscope.drivers.translation.book import Book
from nicscope.drivers.translation.build import (
    Parts,
    counts_of_book,
    grown_parts,
    line_bits_of,
    memory_of,
    new_parts,
)
from nicscope.drivers.translation.deeds import deeds_needed
from nicscope.drivers.translation.state import DEED, Host
from nicscope.errors import DesignError
from nicscope.jit import as_records, kernel, records, step
from nicscope.memory.indices import Indices, grown_indices
from nicscope.memory.lines import Lines
from nicscope.memory.numbering import BLOCK, Numbering, capacity, grown, new_numbering, number
from nicscope.memory.pinning import Pinning
from nicscope.nic.layout import Nic, new_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.design import Design


class Translations(NamedTuple):
    """Every node's NIC, host and book; each array of theirs has a leading axis of nodes."""

    nic: Nic
    host: Host
    book: Book


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
) -> Translations:
    """Nothing pinned and nothing translated on a cluster of NICs of ``design``.

    One element of ``numberings`` and ``processes`` per node: the numbers of all its pages (of
    lines, where entries are lines), and how many processes it has.  For programs,
    ``space_numbering`` makes them and ``pages_per_space`` ends each address space; for a trace,
    ``Namer`` makes them, with a reach of ``design.prepin - 1``.  ``longest``: pages of the longest
    request.  ``deeds``: room for as many, ``deeds_needed`` by default; 0 for none.
    ``node_numbers`` seed each node's own random choices, 0, 1, ... by default.  ``design`` has
    its page size settled.
    """
    assert design.page_size is not None
    page_bits = design.page_size.bit_length() - 1
    blocks = max(len(numbering.owners) for numbering in numberings)
    most = max(processes)
    room = deeds_needed(design, longest) if deeds is None else deeds
    nodes = []
    for place, (numbering, count) in enumerate(zip(numberings, processes, strict=True)):
        seed = place if node_numbers is None else node_numbers[place]
        parts = grown_parts(
            new_parts(design, page_bits, kinds, seed), design, grown(numbering, blocks), most
        )
        parts.book.orders[0]["processes"] = count
        if pages_per_space is not None:
            parts.book.orders[0]["last_page"] = pages_per_space - 1
        nodes.append(_timed(parts, design, room, longest))
    return Translations(*_stacked(nodes))


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


def _stacked(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, tuple):
        columns = (_stacked(column) for column in zip(*parts, strict=True))
        return tuple.__new__(type(first), columns)
    stack = np.stack([np.asarray(part) for part in parts])
    return as_records(stack) if first.dtype.names else stack


def counts_of(translations: Translations, n: int) -> dict[str, int | None]:
    """Every count of node ``n`` so far; the kinds are None where they were not told apart."""
    return counts_of_book(_row(translations.book, n))


def nic_memory_bytes(translations: Translations, n: int) -> dict[str, int]:
    """Bytes of NIC memory that each structure for translation takes on node ``n``."""
    return memory_of(Parts(*(_row(part, n) for part in translations)))


def _row(part: Any, n: int) -> Any:
    if isinstance(part, tuple):
        return tuple.__new__(type(part), (_row(each, n) for each in part))
    return part[n]


@step
def translation_of(translations, n):
    """Node ``n`` as (nic, host, book), whose arrays are views."""
    nic, host, book = translations
    return nic_of(nic, n), host_of(host, n), book_of(book, n)


@step
def nic_of(nic, n):
    """The NIC of node ``n``."""
    return Nic(
        nic.config[n],
        nic.registers[n],
        nic.tags[n],
        nic.frames[n],
        nic.places[n],
        nic.links[n],
        nic.ends[n],
        nic.chains[n],
        nic.victims[n],
    )


@step
def book_of(book, n):
    """The book of node ``n``."""
    return Book(book.orders[n], book.counts[n], book.past[n], book.shadow[n])


@step
def host_of(host, n):
    """The host of node ``n``."""
    pinning, indices, lines = host.pinning, host.indices, host.lines
    return Host(
        numbering_of(host.numbering, n),
        Pinning(
            pinning.rules[n],
            pinning.state[n],
            pinning.processes[n],
            pinning.links[n],
            pinning.buckets[n],
            pinning.members[n],
            pinning.places[n],
            pinning.held[n],
        ),
        Indices(
            numbering_of(indices.keys, n),
            indices.key_of[n],
            indices.page_of[n],
            indices.tables[n],
            indices.heap[n],
        ),
        Lines(lines.filled[n], lines.place[n], lines.heap[n], lines.counts[n]),
        host.table_entries[n],
        host.run_ends[n],
        host.numbers[n],
        host.deed_count[n],
        host.deeds[n],
        host.in_use[n],
    )


@step
def numbering_of(numbering, n):
    """The numbering of node ``n``."""
    return Numbering(numbering.slots[n], numbering.owners[n], numbering.used[n])
