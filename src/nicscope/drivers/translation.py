"""How a NIC and its host translate one page, for every driver: look up, serve misses."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import SCHEMES, Design, Holds, Scheme, ServedBy
from nicscope.errors import DesignError
from nicscope.kernel.decorators import kernel, row_of
from nicscope.kernel.records import longer, records
from nicscope.memory.indices import grown_indices
from nicscope.memory.lines import grown_lines
from nicscope.memory.numbering import (
    BLOCK,
    Numbering,
    capacity,
    grown,
    new_numbering,
    number,
    regions_of,
)
from nicscope.memory.pinning import grown_pinning, new_pinning
from nicscope.memory.replacement import Replacement
from nicscope.memory_limit import zeros
from nicscope.nic.layout import (
    AREA,
    DIRECTORY,
    VICTIM,
    Nic,
    cache_bytes,
    new_cache,
    new_table,
    region_bytes,
)
from nicscope.nic.translate.book import (
    COUNT_NAMES,
    HANDLE,
    INTERRUPT,
    KIND_NAMES,
    PINNED_AREA,
    RNIC,
    STATIC,
    UNET_MM,
    UTLB,
    UTLB_PROCESS,
    UTLB_SHARED,
    Book,
    grown_book,
    new_book,
)
from nicscope.nic.translate.rnic import MPT_BYTES, MTT_BYTES, TAG_BYTES, new_rnic
from nicscope.nic.translate.state import PIN_ACTION, Host, Rnic, Translations, new_host
from nicscope.nic.translate.utlb import SECOND_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


class Parts(NamedTuple):
    """One node."""

    nic: Nic
    host: Host
    book: Book


def new_parts(design: Design, page_bits: int, kinds: bool, number: int) -> Parts:
    """Node ``number`` of ``design``, with pages of 2**page_bits bytes; see ``grown_parts``."""
    entries = design.entries or 0
    is_cache = SCHEMES[design.scheme].holds is Holds.CACHE
    if is_cache:
        nic = new_cache(entries, design.ways or 1, design.line or 1, design.victim_entries)
    else:
        nic = new_table(entries if design.scheme is Scheme.STATIC else 0)
    limit = entries if design.scheme is Scheme.UTLB_PROCESS else design.pin_limit
    policy = Replacement.LRU if design.replacement is None else design.replacement
    host = new_host(new_pinning(limit, policy, (design.seed or 0) + number))
    # Only a cache has misses to tell apart.
    shadow = entries + (design.victim_entries or 0) + (design.l1_entries or 0)
    book = new_book(kinds and is_cache, shadow // (design.line or 1))
    _write_rules(book, design, page_bits)
    book.orders[0]["kinds_known"] = kinds
    return Parts(nic, host, book)


def _write_rules(book: Book, design: Design, page_bits: int) -> None:
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
    orders["cached"] = SCHEMES[design.scheme].holds is Holds.CACHE
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
    log = pin_actions_needed(design, longest) * PIN_ACTION.itemsize
    return COPIES * (on_nic + pages * PAGE_BYTES + log)


def pin_actions_needed(design: Design, longest: int) -> int:
    """The most pin actions of one call, if requests have up to ``longest`` pages.

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


def rnic_caches(design: Design, *, with_pages: bool = True) -> Rnic:
    """Tags alone; the second level of regions is that of pages where the design shares it.

    ``with_pages``: the first level of pages too, which another cache is where they have frames.
    """
    line = design.line or 1
    pages = (design.entries or 0) // line if with_pages else 0
    rnic = new_rnic(
        (pages, design.ways or 1),
        (design.mpt_entries or 0, design.mpt_ways or 1),
        ((design.l1_entries or 0) // line, design.l1_ways or 1),
        (design.mpt_l1_entries or 0, design.mpt_l1_ways or 1),
    )
    return rnic._replace(regions_1=rnic.pages_1) if design.l1_shared else rnic


def rnic_bytes(design: Design) -> dict[str, int]:
    """Bytes of NIC memory of the caches of ``design``; none where the host's kernel translates.

    A level that regions share has room for the larger of a line and a region's entry.
    """
    if design.served_by == ServedBy.KERNEL:
        return {}
    line = design.line or 1
    pages, further = (design.entries or 0) // line, (design.l1_entries or 0) // line
    regions, own = design.mpt_entries or 0, design.mpt_l1_entries or 0
    each = max(line * MTT_BYTES, MPT_BYTES) if design.l1_shared else line * MTT_BYTES
    found = {
        "mtt_l0": pages * line * MTT_BYTES,
        "mpt_l0": regions * MPT_BYTES,
        "mtt_l1": further * each,
        "mpt_l1": own * MPT_BYTES,
        "level_tags": (pages + regions + further + own) * TAG_BYTES,
    }
    return {name: size for name, size in found.items() if size}


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
    pin_actions: int | None = None,
    pages_per_space: int | None = None,
    node_numbers: Sequence[int] | None = None,
    kinds: bool = True,
    victims_grow: bool = False,
) -> Translations:
    """Nothing pinned and nothing translated on a cluster of NICs of ``design``.

    One element of ``numberings`` and ``processes`` per node: the numbers of all its pages (of
    lines, where entries are lines), and how many processes it has.  For programs,
    ``space_numbering`` makes them and ``pages_per_space`` ends each address space; for a trace,
    ``PageNumberer`` makes them, with a reach of ``design.prepin - 1``.  ``longest``: pages of the
    longest request.  ``pin_actions``: how many fit, ``pin_actions_needed`` by default; 0 for none.
    ``node_numbers`` seed each node's own random choices, 0, 1, ... by default.  ``victims_grow``:
    the victim cache is a list that grows while all it holds is in use (U-Net/MM 5.2.1).
    ``design`` has its page size settled.
    """
    assert design.page_size is not None
    page_bits = design.page_size.bit_length() - 1
    blocks = max(len(numbering.owners) for numbering in numberings)
    most = max(processes)
    room = pin_actions_needed(design, longest) if pin_actions is None else pin_actions

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


def _timed(parts: Parts, design: Design, pin_actions: int, longest: int) -> Parts:
    """The node with the arrays that only timed drivers need: see the last fields of ``Host``."""
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
        pin_action_count=np.zeros(1, np.int64),
        pin_actions=records(pin_actions, PIN_ACTION),
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
