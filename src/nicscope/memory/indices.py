"""Indices of a process's translation table, handed out lowest free first.

The user library of a table that it manages itself keeps page -> index (UTLB 3.1, 3.2).  A
(process, index) pair gets a dense key of its own, so that whatever is kept per table entry is an
array too.  Indices given back wait in a pairing heap per process, linked through their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import longer, records
from nicscope.memory.numbering import Numbering, capacity, grown, new_numbering, number, unit_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = -1
TABLE = np.dtype(
    [
        ("lowest", "i8"),  # key of the lowest index given back, or NONE
        ("handed_out", "i8"),  # indices ever handed out: 0..handed_out - 1
    ],
    align=True,
)
HEAP = np.dtype([("child", "i4"), ("sibling", "i4")], align=True)


class Indices(NamedTuple):
    """The tables of one node's processes; arrays have length 0 where no scheme uses them."""

    keys: Numbering  # of (process, index)
    key_of: NDArray[np.uint32]  # shape (pages,): the key of a pinned page's index
    page_of: NDArray[np.uint32]  # shape (keys,): the page + 1 whose index it is; 0 if free
    tables: NDArray[Any]  # TABLE, shape (processes,)
    heap: NDArray[Any]  # HEAP, shape (keys,)


def new_indices() -> Indices:
    """No index handed out."""
    none = np.zeros(0, np.uint32)
    return Indices(new_numbering(16), none, none, records(0, TABLE), records(0, HEAP))


def grown_indices(indices: Indices, pages: Numbering, processes: int) -> Indices:
    """The same indices with room for every page of ``pages`` and ``processes`` processes."""
    # Indices of a process are dense and no more than its pages, so they fill no more blocks.
    keys = indices.keys
    if len(keys.owners) < len(pages.owners):
        keys = grown(keys, len(pages.owners))
    known = len(indices.tables)
    larger = Indices(
        keys,
        longer(indices.key_of, capacity(pages)),
        longer(indices.page_of, capacity(keys)),
        longer(indices.tables, processes),
        longer(indices.heap, capacity(keys)),
    )
    larger.tables["lowest"][known:] = NONE
    return larger


@step
def take_index(indices, process, page):
    """Give ``page`` the lowest free index of ``process``."""
    table = indices.tables[process]
    if table.lowest == NONE:
        key = number(indices.keys, process, table.handed_out)
        table.handed_out += 1
    else:
        key = table.lowest
        table.lowest = _melded_children(indices, key)
    indices.key_of[page] = key
    indices.page_of[key] = page + 1


@step
def free_index(indices, process, page):
    """Free the index of ``page``; returns the key it had."""
    key = np.int64(indices.key_of[page])
    indices.page_of[key] = 0
    indices.heap[key].child = NONE
    indices.heap[key].sibling = NONE
    table = indices.tables[process]
    table.lowest = _melded(indices, table.lowest, key)
    return key


@step
def hand_on_index(indices, process, page, to):
    """Free the index of ``page`` for ``to``, which may be the same; returns the key that it had.

    As ``free_index`` and ``take_index``: where no index is free, ``to`` gets the same.
    """
    if indices.tables[process].lowest != NONE and page != to:
        key = free_index(indices, process, page)
        take_index(indices, process, to)
        return key
    key = np.int64(indices.key_of[page])
    indices.key_of[to] = key
    indices.page_of[key] = to + 1
    return key


@step
def _melded(indices, one, other):
    """The root of the two heaps made one: the lower index, the other as its first child."""
    if one == NONE:
        return np.int64(other)
    if other == NONE:
        return np.int64(one)
    if unit_of(indices.keys, other) < unit_of(indices.keys, one):
        one, other = other, one
    indices.heap[other].sibling = indices.heap[one].child
    indices.heap[one].child = other
    return np.int64(one)


@step
def _melded_children(indices, root):
    """The children of ``root`` as one heap: melded in pairs, then the pairs from the last on."""
    heap = indices.heap
    pairs = np.int64(NONE)
    child = np.int64(heap[root].child)
    while child != NONE:
        partner = np.int64(heap[child].sibling)
        following = np.int64(NONE)
        heap[child].sibling = NONE
        if partner != NONE:
            following = np.int64(heap[partner].sibling)
            heap[partner].sibling = NONE
        pair = _melded(indices, child, partner)
        heap[pair].sibling = pairs
        pairs = pair
        child = following
    merged = np.int64(NONE)
    while pairs != NONE:
        following = np.int64(heap[pairs].sibling)
        heap[pairs].sibling = NONE
        merged = _melded(indices, merged, pairs)
        pairs = following
    return merged
