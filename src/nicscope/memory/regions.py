"""Registered regions of one host, found by the bytes that a request touches.

Rows stand in the order of (process, first byte), each with the last byte that it or one before it
of its process reaches: a search ends where nothing before reaches far enough.  Addresses are
unsigned, whatever their highest bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import longer, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

REGION = np.dtype(
    [
        ("first", "u8"),  # byte
        ("last", "u8"),  # byte
        ("reach", "u8"),  # the last byte of it and of those before it of its process
        ("process", "i8"),
        ("number", "i8"),  # in the order of registration
        ("page_bits", "i8"),
        ("rights", "i8"),
        ("line", "i8"),  # of its first page, in the table of pages
    ],
    align=True,
)
NOBODY = -1  # no region holds all of a request
DENIED = -2  # one does, and allows it to nobody


class Regions(NamedTuple):
    """Some regions of one host."""

    rows: NDArray[Any]  # REGION, shape (regions + room,)
    used: NDArray[np.int64]  # shape (1,)


def new_regions() -> Regions:
    """None yet, and no room."""
    return Regions(records(0, REGION), np.zeros(1, np.int64))


def with_room(regions: Regions, more: int) -> Regions:
    """The same regions, with room for so many ``more``."""
    needed = int(regions.used[0]) + more
    if needed <= len(regions.rows):
        return regions
    return regions._replace(rows=longer(regions.rows, max(needed, 2 * len(regions.rows))))


@step
def _behind(regions, process, first):
    """How many regions do not begin behind the byte ``first`` of ``process``."""
    low = np.int64(0)
    high = np.int64(regions.used[0])
    while low < high:
        middle = (low + high) >> 1
        row = regions.rows[middle]
        if row.process < process or (row.process == process and row.first <= first):
            low = middle + 1
        else:
            high = middle
    return low


@step
def add(regions, process, first, last):
    """Place of a new region of these bytes, whose other fields are to be written."""
    at = _behind(regions, process, first)
    for row in range(regions.used[0], at, -1):
        regions.rows[row] = regions.rows[row - 1]
    regions.used[0] += 1
    regions.rows[at].process = process
    regions.rows[at].first = first
    regions.rows[at].last = last
    _renew_reach(regions, at)
    return at


@step
def remove(regions, at):
    """Take out the region at place ``at``."""
    regions.used[0] -= 1
    for row in range(at, regions.used[0]):
        regions.rows[row] = regions.rows[row + 1]
    _renew_reach(regions, at)


@step
def _renew_reach(regions, at):
    """What regions reach, from place ``at`` on."""
    row = np.int64(at)
    while row < regions.used[0]:
        here = regions.rows[row]
        reach = here.last
        if row > 0 and regions.rows[row - 1].process == here.process:
            reach = max(reach, regions.rows[row - 1].reach)
        here.reach = reach
        row += 1


@step
def find(regions, process, first, last, needed):
    """Place of the newest region that holds these bytes and has the rights ``needed``.

    ``DENIED`` if there is only one without them, ``NOBODY`` if there is none.
    """
    best = np.int64(NOBODY)
    at = _behind(regions, process, first) - 1
    while at >= 0:
        row = regions.rows[at]
        if row.process != process or row.reach < last:
            return best
        if row.last >= last:
            if row.rights & needed != needed:
                best = np.int64(DENIED) if best == NOBODY else best
            elif best < 0 or row.number > regions.rows[best].number:
                best = np.int64(at)
        at -= 1
    return best


@step
def find_exact(regions, process, first, last, page_bits):
    """Place of the newest region of exactly these bytes, or ``NOBODY``.

    ``page_bits`` of -1: whatever the size of its pages.
    """
    best = np.int64(NOBODY)
    at = _behind(regions, process, first) - 1
    while at >= 0:
        row = regions.rows[at]
        if row.process != process or row.first != first:
            return best
        if (
            row.last == last
            and (page_bits < 0 or row.page_bits == page_bits)
            and (best < 0 or row.number > regions.rows[best].number)
        ):
            best = np.int64(at)
        at -= 1
    return best
