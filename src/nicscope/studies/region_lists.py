"""Lists of memory regions that a user has: sizes a line, or a table with addresses; what is joined.

Tensors that lie in one allocation can be registered each by itself, or all as the range that they
make together.
"""

from __future__ import annotations

import csv
from typing import NamedTuple

from nicscope.config.byte_size import SPELLINGS, read_bytes
from nicscope.errors import StudyError, did_you_mean

CACHES = ("none", "exact", "range")
_SIZES = ("bytes", "size", "length")
_ADDRESSES = ("address", "offset")
_END = 1 << 64  # of addresses


class Region(NamedTuple):
    """One line of a list."""

    address: int | None  # None: not told
    byte_count: int


def read_regions(text: str, called: str) -> list[Region]:
    """Regions of a list: a size a line, or a table with ``bytes`` and maybe ``address``.

    What follows a ``#`` says nothing.  Errors: ``StudyError`` naming the line.
    """
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    first = next((line for line in lines if line), "")
    names = [name.strip().lower() for name in first.split(",")]
    size = next((names.index(name) for name in _SIZES if name in names), None)
    if size is None:
        return [
            Region(None, _size(line, called, number))
            for number, line in enumerate(lines, 1)
            if line
        ]
    address = next((names.index(name) for name in _ADDRESSES if name in names), None)
    head = lines.index(first)
    found = []
    for number, line in enumerate(lines[head + 1 :], head + 2):
        if line:
            cells = next(csv.reader([line]))
            if len(cells) != len(names):
                raise StudyError(
                    f"{called}: line {number}: has {len(cells)} cells, and the first {len(names)}"
                )
            at = None if address is None else _address(cells[address], called, number)
            found.append(Region(at, _size(cells[size], called, number)))
    return found


def _size(text: str, called: str, number: int) -> int:
    size = read_bytes(text)
    if not size:
        raise StudyError(f"{called}: line {number}: {text[:40]!r} is no size, {SPELLINGS}")
    return size


def _address(text: str, called: str, number: int) -> int:
    try:
        address = int(text.strip(), 0)
    except ValueError:
        address = -1
    if not 0 <= address < _END:
        raise StudyError(f"{called}: line {number}: {text[:40]!r} is no address, such as 0x7f00")
    return address


def registered(regions: list[Region], cache: str, called: str) -> list[int]:
    """Bytes of each registration that a library with such a ``cache`` makes of ``regions``.

    ``none``: each line, ``exact``: what is listed twice once, ``range``: what touches or overlaps
    as one.  Errors: ``StudyError`` for another word, and for lines without addresses.
    """
    if cache not in CACHES:
        raise StudyError(f"--cache: no {cache!r}{did_you_mean(cache, CACHES)}")
    if cache == "none":
        return [region.byte_count for region in regions]
    if any((region.address or 0) + region.byte_count > _END for region in regions):
        raise StudyError(f"{called}: has a region that ends beyond the last address")
    if any(region.address is None for region in regions):
        raise StudyError(f"{called}: has no column address, by which --cache {cache} goes")
    if cache == "exact":
        return [region.byte_count for region in dict.fromkeys(regions)]
    joined: list[list[int]] = []
    for address, byte_count in sorted((at or 0, size) for at, size in regions):
        if joined and address <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], address + byte_count)
        else:
            joined.append([address, address + byte_count])
    return [end - begin for begin, end in joined]
