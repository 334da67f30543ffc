"""The host's IOMMU: what it translates with, and what it has to read of its tables for that.

An access of a device that keeps translations itself (ATS) looks its page up there, and where it
has it the IOMMU has nothing to do.  Any other looks its page up in the IOTLB.  A miss walks a
radix tree of 512 entries a
table: the entry of the page itself is always read, and each table's own entry above it is read
unless the walk cache of its level has it.  All of them replace the least recently used; sizes of
products are not published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records
from nicscope.memory.numbering import NONE, Numbering, new_numbering, number
from nicscope.nic.cache import renew
from nicscope.nic.layout import Nic, new_cache

if TYPE_CHECKING:
    from numpy.typing import NDArray


LEVEL_BITS = 9  # of a page number, for each level of the tree
LEVELS = 4  # of a tree whose pages have 4 KiB

COUNTS = np.dtype(
    [
        ("requests", "i8"),
        ("bytes", "i8"),
        ("pieces", "i8"),  # pages of 4 KiB that requests touch: one lookup each
        ("lookups", "i8"),  # of the IOTLB: all but those that the device has translated itself
        ("misses", "i8"),  # of the IOTLB
        ("reads", "i8"),  # of the host's memory, by walks
    ],
    align=True,
)


class Iommu(NamedTuple):
    """The IOMMU of one node; each level has numbers of its own, as tags must be dense."""

    page_bits: NDArray[np.int64]  # shape (1,): of the mapping's page, above those of 4 KiB
    counts: NDArray[Any]  # COUNTS, shape (1,)
    keeps: NDArray[np.int64]  # shape (1,): entries of the device's own cache
    device: Nic  # which is not used if that is 0
    iotlb: Nic
    tables: Nic  # the walk cache of tables of pages
    directories: Nic  # of tables of these, and so on; the last are not used with larger pages
    roots: Nic
    pages: Numbering
    table_numbers: Numbering
    directory_numbers: Numbering
    root_numbers: Numbering


NUMBERINGS = ("pages", "table_numbers", "directory_numbers", "root_numbers")


def new_iommu(page_bits: int, iotlb: int, walk_cache: int, device: int = 0) -> Iommu:
    """Caches that are empty: ``iotlb`` entries, and ``walk_cache`` of each level above.

    ``device``: entries of the device's own cache; 0: it has none.
    """
    tables, directories, roots = (new_cache(walk_cache, walk_cache) for _ in range(LEVELS - 1))
    return Iommu(
        np.array([page_bits], np.int64),
        records(1, COUNTS),
        np.array([device], np.int64),
        new_cache(max(device, 1), max(device, 1)),
        new_cache(iotlb, iotlb),
        tables,
        directories,
        roots,
        *(new_numbering(64) for _ in range(LEVELS)),
    )


@kernel
def translate(iommu, stream, begin, end):
    """Translate the requests ``begin..end`` of a stream; the first for which numbers ran out."""
    counts, shift = iommu.counts[0], iommu.page_bits[0]
    for row in range(begin, end):
        if not _numbered(iommu, stream, row):
            return np.int64(row)
        process, first = np.int64(stream.process[row]), stream.first[row]
        for unit in range(first, first + stream.pages[row]):
            counts.reads += _reads(iommu, process, unit >> shift)
        counts.requests += 1
        counts.bytes += stream.length[row]
        counts.pieces += stream.pages[row]
    return np.int64(end)


@step
def _numbered(iommu, stream, row):
    """Whether all that the request touches has a number at each level, given now if need be."""
    first, last = stream.first[row], stream.first[row] + stream.pages[row] - 1
    process, bits = np.int64(stream.process[row]), iommu.page_bits[0]
    return (
        _all_numbered(iommu.pages, process, first >> bits, last >> bits)
        and _all_numbered(
            iommu.table_numbers, process, first >> (bits + LEVEL_BITS), last >> (bits + LEVEL_BITS)
        )
        and _all_numbered(
            iommu.directory_numbers,
            process,
            first >> (bits + 2 * LEVEL_BITS),
            last >> (bits + 2 * LEVEL_BITS),
        )
        and _all_numbered(
            iommu.root_numbers,
            process,
            first >> (bits + 3 * LEVEL_BITS),
            last >> (bits + 3 * LEVEL_BITS),
        )
    )


@step
def _all_numbered(numbering, process, first, last):
    unit = first
    while unit <= last and number(numbering, process, unit) != NONE:
        unit += 1
    return unit > last


@step
def _reads(iommu, process, page):
    """Reads of the host's memory for one access to ``page``, which the caches then have."""
    if iommu.keeps[0] > 0 and _hits(iommu.device, iommu.pages, process, page):
        return np.int64(0)
    iommu.counts[0].lookups += 1
    if _hits(iommu.iotlb, iommu.pages, process, page):
        return np.int64(0)
    iommu.counts[0].misses += 1
    above = LEVELS - 1 - iommu.page_bits[0] // LEVEL_BITS  # levels whose entries name tables
    if above == 0 or _hits(iommu.tables, iommu.table_numbers, process, page >> LEVEL_BITS):
        return np.int64(1)
    page >>= 2 * LEVEL_BITS
    if above == 1 or _hits(iommu.directories, iommu.directory_numbers, process, page):
        return np.int64(2)
    page >>= LEVEL_BITS
    if above == 2 or _hits(iommu.roots, iommu.root_numbers, process, page):
        return np.int64(3)
    return np.int64(4)


@step
def _hits(cache, numbering, process, unit):
    """Whether the cache has the unit, which is its most recent from now on."""
    tag = number(numbering, process, unit) + 1
    depth, _ = renew(cache, 0, tag, cache.config[0].ways)
    return depth < cache.config[0].ways
