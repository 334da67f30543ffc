"""Replaying an RDMA NIC: for each request its region, then its pages line by line.

One lookup serves all pages of a request in a line, whose entries come together: further ones hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.translate.book import NOT_DONE
from nicscope.nic.translate.rnic import (
    ask_line,
    ask_part,
    ask_regions,
    is_outside,
    packets_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import Stream
    from nicscope.nic.translate.book import Book
    from nicscope.nic.translate.rnic import Rnic


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
            _ask_regions_of(case, rules, row, process, part, parts)
            _ask_lines(case, at, lines)
            case.book.counts[0].mtt_l0_hits += pages
        at += lines
        part += parts


@step
def _units_of(first, pages, bits):
    return ((first + pages - 1) >> bits) - (first >> bits) + 1


@step
def _ask_regions_of(case, rules, row, process, part, parts):
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
def _ask_lines(case, at, lines):
    """Look up ``lines`` lines, whose names begin at ``at``."""
    counts = case.book.counts[0]
    misses = counts.mtt_l0_misses
    for i in range(at, at + lines):
        key, number = np.int64(case.key[i]), np.int64(case.set_index[i])
        case.outcome[i] = ask_line(case.rnic, case.book, key, number)
    counts.mtt_l0_hits -= counts.mtt_l0_misses - misses
