"""State that steps of a translation get, of one node or all, and pages held by requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import routine, row_of, step
from nicscope.memory.indices import Indices, new_indices
from nicscope.memory.lines import Lines, await_unpinning, new_lines
from nicscope.memory.numbering import Numbering, new_numbering, unit_of
from nicscope.memory.pinning import PINNED, Pinning
from nicscope.nic.cache import find as find_entry
from nicscope.nic.cache import hold, release
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE, Nic
from nicscope.nic.linked import is_used
from nicscope.nic.translate.book import INTERRUPT, MISS, PINNED_AREA, UNET_MM, Book
from nicscope.nic.victim import ABSENT, find_victim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory.indices import Indices
    from nicscope.memory.lines import Lines
    from nicscope.memory.numbering import Numbering
    from nicscope.memory.pinning import Pinning
    from nicscope.nic.layout import Nic
    from nicscope.nic.translate.book import Book


PIN_ACTION = np.dtype([("what", "i8"), ("key", "i8"), ("place", "i8")], align=True)


class Host(NamedTuple):
    """One node's host side; the parts that a scheme does not use are empty.

    Of the last three, a replay, in which no time passes between asking and serving, has none: by
    their type, kernels are compiled without asking for them (``timeless``).
    """

    numbering: Numbering  # of pages; of lines where entries are lines
    pinning: Pinning
    indices: Indices  # of translation tables that the user library manages
    lines: Lines  # filled lines that may be unpinned
    # static registration: the table's entry of each registered page, shape (pages,), and the page
    # after the last one registered in the request at hand, shape (processes,)
    table_entries: NDArray[np.int32]
    run_ends: NDArray[np.int64]
    numbers: NDArray[np.uint32]  # shape (longest request,): of the request at hand
    pin_action_count: NDArray[np.int64] | None  # shape (1,)
    pin_actions: NDArray[Any] | None  # PIN_ACTION; see ``pin_actions``
    in_use: NDArray[np.int32] | None  # shape (units,): transfers that use the page, or the line


class Request(NamedTuple):
    """One request, as kernels pass it on."""

    process: Any
    first: Any  # page number
    pages: Any
    receive: Any
    at: Any  # where its units' numbers begin


def new_host(pinning: Pinning) -> Host:
    """A host that knows no page and no process yet."""
    return Host(
        new_numbering(16),
        pinning,
        new_indices(),
        new_lines(),
        np.zeros(0, np.int32),
        np.zeros(0, np.int64),
        np.zeros(0, np.uint32),
        None,
        None,
        None,
    )


@step
def set_of(nic, book, process, number):
    """The set in which the entry for ``number`` of ``process`` belongs."""
    return (number + process * book.orders[0].offset_step) & (nic.config[0].sets - 1)


class Rnic(NamedTuple):
    """The caches of one RDMA NIC; those without entries are not there."""

    pages: Nic
    regions: Nic
    pages_1: Nic
    regions_1: Nic  # the same as ``pages_1`` where the level is shared


class Translations(NamedTuple):
    """Every node's NIC, host and book; each array of theirs has a leading axis of nodes."""

    nic: Nic
    host: Host
    book: Book
    levels: Rnic  # of an RDMA NIC beside its pages' first, which is in ``nic``; else empty


@step
def translation_of(translations, n):
    """Node ``n`` as (nic, host, book); ``translations`` were handed over."""
    return row_of(translations.nic, n), row_of(translations.host, n), row_of(translations.book, n)


@step
def levels_of(translations, n):
    """The region caches and second levels of node ``n``, an RDMA NIC."""
    return row_of(translations.levels, n)


@step
def has_room(nic, row):
    """Whether set ``row`` has an entry that no transfer uses."""
    ways = nic.config[0].ways
    used = 0
    for entry in range(row * ways, (row + 1) * ways):
        used += is_used(nic, entry)
    return used < ways


@step
def tag_of(nic, host, book, process, page, key):
    """The set and the tag under which the cache would have ``page`` (number ``key``) or its line.

    The set is ``MISS`` if the page has none: nobody has pinned it.
    """
    unit = page >> book.orders[0].line_bits
    stream_number = key >> book.orders[0].line_bits
    if host.indices.tables.size > 0:
        if host.pinning.state[key] & PINNED == 0:
            return np.int64(MISS), np.int64(EMPTY)
        stream_number = np.int64(host.indices.key_of[key])
        unit = unit_of(host.indices.keys, stream_number)
    return set_of(nic, book, process, unit), stream_number + 1


@step
def entry_of(nic, host, book, process, page, key):
    """The cache's entry for ``page`` (number ``key``) or for its line, or ``MISS``; not a use."""
    row, tag = tag_of(nic, host, book, process, page, key)
    if row == MISS:
        return np.int64(MISS)
    return find_entry(nic, row, tag)


@routine
def keep_page(host, book, key):
    """Keep ``page``, whose number is ``key``, pinned for one more outstanding request."""
    if _requests_keep(book):
        host.pinning.held[key] += 1


@routine
def release_page(nic, host, book, process, page, key):
    """Release ``page``, which a request kept pinned."""
    if _requests_keep(book):
        _let_go(nic, host, book, process, page, key)


@step
def _requests_keep(book):
    """Whether outstanding requests keep their pages pinned."""
    scheme = book.orders[0].scheme
    return scheme != INTERRUPT and scheme != UNET_MM and scheme != PINNED_AREA


@routine
def hold_key(nic, host, book, process, page, key):
    """One more transfer uses ``page``, whose number is ``key``: its entry stays, if it is there."""
    host.pinning.held[key] += 1
    unit = key >> book.orders[0].line_bits
    host.in_use[unit] += 1
    if host.in_use[unit] == 1 and book.orders[0].cached:
        entry = entry_of(nic, host, book, process, page, key)
        if entry != MISS:
            hold(nic, entry)
        else:
            place = find_victim(nic, key + 1)
            if place != ABSENT:
                nic.victims[place].frame |= IN_USE


@routine
def release_key(nic, host, book, process, page, key):
    """Release ``page``, which a transfer held."""
    unit = key >> book.orders[0].line_bits
    host.in_use[unit] -= 1
    if host.in_use[unit] == 0 and book.orders[0].cached:
        entry = entry_of(nic, host, book, process, page, key)
        if entry != MISS:
            release(nic, entry)
        else:
            place = find_victim(nic, key + 1)
            if place != ABSENT:
                nic.victims[place].frame &= FRAME_BITS
    _let_go(nic, host, book, process, page, key)


@step
def _let_go(nic, host, book, process, page, key):
    """Count one user less; a line that the high-water scan skipped for it waits again."""
    host.pinning.held[key] -= 1
    if host.pinning.held[key] == 0 and host.lines.filled.size > 0:
        line = key >> book.orders[0].line_bits
        if (
            host.pinning.state[key] & PINNED
            and host.lines.place[line] == 0
            and entry_of(nic, host, book, process, page, key) == MISS
        ):
            await_unpinning(host.lines, line)
