"""Replaying an RDMA NIC: for each request its region, then its pages line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.memory import numbering as numbers
from nicscope.memory import regions as table
from nicscope.memory.numbering import NONE, Numbering, process_of, unit_of
from nicscope.memory.regions import DENIED, Regions
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import NOT_DONE, Book, note_pins
from nicscope.nic.translate.rnic import (
    MPT_BYTES,
    MTT_BYTES,
    ask_line,
    ask_part,
    ask_regions,
    invalidate_line,
    invalidate_region,
    is_outside,
    packets_of,
)
from nicscope.nic.translate.state import Rnic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import Stream
    from nicscope.memory.numbering import Numbering
    from nicscope.memory.regions import Regions
    from nicscope.nic.translate.book import Book
    from nicscope.nic.translate.state import Rnic


REQUEST, REGISTER, DEREGISTER = range(3)  # kinds of rows
NO_REGION = 0  # whose requests are nobody's; regions are numbered from 1

HOST = np.dtype(
    [
        ("regions", "i8"),  # registered so far
        ("lines", "i8"),  # of the table of pages, given so far
        ("table_bytes", "i8"),  # of the tables of what is registered now
        ("page_bits", "i8"),  # of the host's pages, and of regions that do not say theirs
        ("line_bits", "i8"),
    ],
    align=True,
)
# Of a region that was given back: after how many requests of the piece.
GIVEN_BACK = np.dtype(
    [("after", "i8"), ("number", "i8"), ("line", "i8"), ("lines", "i8")], align=True
)


class HostRows(NamedTuple):
    """Rows of one node, each of shape (rows,)."""

    process: NDArray[np.int64]
    kind: NDArray[np.uint8]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint64]
    page_bits: NDArray[np.int64]  # of a registration; -1: not said
    rights: NDArray[np.uint8]  # that it gives, or that a request needs


class RegionCase(NamedTuple):
    """One node's regions, and the piece of its rows that is gone through."""

    host: NDArray[Any]  # HOST, shape (1,)
    live: Regions
    gone: Regions  # given back, but for those within another that was
    book: Book
    rows: HostRows
    stream: Stream  # of the piece's requests: their region in place of the process
    given_back: NDArray[Any]  # GIVEN_BACK, shape (deregistrations + room,)
    found: NDArray[np.int64]  # shape (2,): requests in the stream, regions given back


@kernel
def replay_rows(case, begin, end):
    """Replays rows ``begin..end``, for which all arrays have space.

    Returns the first row that gives back what is not registered, or ``end``.
    """
    case.found[0] = 0
    case.found[1] = 0
    for row in range(begin, end):
        kind = case.rows.kind[row]
        if kind == REGISTER:
            _register(case, row)
        elif kind == REQUEST:
            _request(case, row)
        elif not _give_back(case, row):
            return np.int64(row)
    return np.int64(end)


@step
def _last_of(case, row):
    return case.rows.address[row] + (case.rows.length[row] - np.uint64(1))


@step
def _register(case, row):
    host, counts = case.host[0], case.book.counts[0]
    first, last = case.rows.address[row], _last_of(case, row)
    bits = np.int64(case.rows.page_bits[row])
    bits = np.int64(host.page_bits) if bits < 0 else bits
    host.regions += 1
    at = table.add(case.live, np.int64(case.rows.process[row]), first, last)
    region = case.live.rows[at]
    region.number = host.regions
    region.page_bits = bits
    region.rights = np.int64(case.rows.rights[row])
    region.line = host.lines
    lines = _lines_of(host, region)
    host.lines += lines
    counts.regions += 1
    counts.pin_calls += 1
    counts.mtt_entries += _pages_between(first, last, bits)
    note_pins(case.book, _host_pages_of(host, region))
    host.table_bytes += MPT_BYTES + (lines << host.line_bits) * MTT_BYTES
    counts.icm_bytes = max(counts.icm_bytes, host.table_bytes)


@step
def _pages_between(first, last, bits):
    """Pages of 2**bits bytes that hold the bytes from ``first`` to ``last``."""
    shift = np.uint64(bits)
    return np.int64((last >> shift) - (first >> shift)) + 1


@step
def _lines_of(host, region):
    pages = _pages_between(region.first, region.last, region.page_bits)
    return (pages + (np.int64(1) << host.line_bits) - 1) >> host.line_bits


@step
def _host_pages_of(host, region):
    """Pages of the host that the region's own lie in: these are pinned."""
    within = (np.uint64(1) << np.uint64(region.page_bits)) - np.uint64(1)
    first = region.first - (region.first & within)
    return _pages_between(first, region.last | within, host.page_bits)


@step
def _give_back(case, row):
    """Deregisters a region; returns whether there is such a region."""
    host, counts = case.host[0], case.book.counts[0]
    process = np.int64(case.rows.process[row])
    first, last = case.rows.address[row], _last_of(case, row)
    at = table.find_exact(case.live, process, first, last, np.int64(case.rows.page_bits[row]))
    if at < 0:
        return False
    region = case.live.rows[at]
    lines = _lines_of(host, region)
    pages = _host_pages_of(host, region)
    given = case.given_back[case.found[1]]
    given.after = case.found[0]
    given.number = region.number
    given.line = region.line
    given.lines = lines
    case.found[1] += 1
    counts.unpin_calls += 1
    counts.unpins += pages
    counts.pinned_pages -= pages
    host.table_bytes -= MPT_BYTES + (lines << host.line_bits) * MTT_BYTES
    table.remove(case.live, at)
    if table.find(case.gone, process, first, last, 0) < 0:
        at = table.add(case.gone, process, first, last)
        case.gone.rows[at].rights = 0
    return True


@step
def _request(case, row):
    host, counts, stream = case.host[0], case.book.counts[0], case.stream
    process = np.int64(case.rows.process[row])
    first, last = case.rows.address[row], _last_of(case, row)
    to = case.found[0]
    case.found[0] += 1
    stream.receive[to] = case.rows.receive[row]
    stream.length[to] = case.rows.length[row]
    at = table.find(case.live, process, first, last, np.int64(case.rows.rights[row]))
    if at >= 0:
        region = case.live.rows[at]
        shift = np.uint64(region.page_bits)
        stream.process[to] = region.number
        page = np.int64((first >> shift) - (region.first >> shift))
        stream.first[to] = (np.int64(region.line) << host.line_bits) + page
        stream.pages[to] = _pages_between(first, last, region.page_bits)
        return
    stream.process[to] = NO_REGION
    stream.first[to] = np.int64(first >> np.uint64(host.page_bits))
    stream.pages[to] = _pages_between(first, last, host.page_bits)
    if at == DENIED:
        counts.rejected_rights += 1
    elif table.find(case.gone, process, first, last, 0) >= 0:
        counts.rejected_deregistered += 1
    else:
        counts.rejected_unregistered += 1


class Caches(NamedTuple):
    """The caches from which a deregistered region is dropped."""

    rnic: Rnic
    book: Book
    numbering: Numbering  # of lines


@kernel
def forget(caches, region, line, lines):
    """Drop the entry of ``region`` and its ``lines`` lines from ``line`` on from all caches.

    Line by line, or by all that the caches hold, whichever is less.
    """
    rnic, book, known = caches.rnic, caches.book, caches.numbering
    invalidate_region(rnic, book, region)
    if lines <= rnic.pages.tags.size + rnic.pages_1.tags.size:
        for number in range(line, line + lines):
            key = numbers.find(known, region, np.int64(number))
            if key != NONE:
                invalidate_line(rnic, book, key, np.int64(number))
        return
    # Backwards: a tag that goes makes those behind it move.
    for place in range(rnic.pages.tags.size - 1, -1, -1):
        tag = np.int64(rnic.pages.tags[place])
        if tag != EMPTY and process_of(known, tag - 1) == region:
            invalidate_line(rnic, book, tag - 1, unit_of(known, tag - 1))
    for place in range(rnic.pages_1.tags.size - 1, -1, -1):
        tag = np.int64(rnic.pages_1.tags[place])
        key = (tag >> 1) - 1
        if tag != EMPTY and tag & 1 == 0 and process_of(known, key) == region:
            invalidate_line(rnic, book, key, unit_of(known, key))


class Case(NamedTuple):
    """One RDMA NIC; its requests and lookups are overwritten piece by piece."""

    rnic: Rnic
    book: Book
    rules: NDArray[Any]  # ``RULES`` of the firmware
    pools: NDArray[np.int64]  # shape (processes,): first page of what each registered ahead
    stream: Stream  # shape (requests,)
    key: NDArray[np.uint32]  # shape (lookups,): names of lines, as all that follow
    set_index: NDArray[np.uint32]  # low bits of the line's number
    receive: NDArray[np.uint8]
    outcome: NDArray[np.uint8]  # as ``book`` has it
    part: NDArray[np.uint32]  # shape (parts,): of indirect regions, request after request
    part_index: NDArray[np.uint32]  # low bits of the part's number
    part_bits: NDArray[np.int64]  # shape (1,): log2 of the pages of a part


@kernel
def replay_rnic(case, begin, end, _count):
    """Replay requests ``begin..end``; lines are looked up once a request."""
    rules = case.rules[0]
    at = np.int64(0)
    part = np.int64(0)
    for row in range(begin, end):
        first, pages = case.stream.first[row], np.int64(case.stream.pages[row])
        lines = _units_of(first, pages, rules.line_bits)
        parts = _units_of(first, pages, case.part_bits[0]) if rules.is_indirect else np.int64(0)
        process = np.int64(case.stream.process[row])
        is_nobodys = rules.by_region == 1 and process == 0
        if is_nobodys or is_outside(rules, case.pools[process], first, pages):
            case.book.counts[0].rejected += 1
            for i in range(at, at + lines):
                case.outcome[i] = NOT_DONE
        else:
            _look_up_regions(case, rules, row, process, part, parts)
            _look_up_lines(case, at, lines)
            case.book.counts[0].mtt_l0_hits += pages
        at += lines
        part += parts


@step
def _units_of(first, pages, bits):
    return ((first + pages - 1) >> bits) - (first >> bits) + 1


@step
def _look_up_regions(case, rules, row, process, part, parts):
    """Look up the region of request ``row`` for each of its packets."""
    packets = packets_of(rules, np.int64(case.stream.length[row]))
    if not rules.is_indirect:
        ask_regions(case.rnic, case.book, process, packets)
        return
    for packet in range(max(packets, parts)):
        at = part + min(packet, parts - 1)
        key, number = np.int64(case.part[at]), np.int64(case.part_index[at])
        ask_part(case.rnic, case.book, process, key, number)


@step
def _look_up_lines(case, at, lines):
    """Look up ``lines`` lines, whose names begin at ``at``."""
    counts = case.book.counts[0]
    misses = counts.mtt_l0_misses
    for i in range(at, at + lines):
        key, number = np.int64(case.key[i]), np.int64(case.set_index[i])
        case.outcome[i] = ask_line(case.rnic, case.book, key, number)
    counts.mtt_l0_hits -= counts.mtt_l0_misses - misses
