"""Small, dense numbers for the pages that a node's processes use.

Everything that is kept per page is then an array.  Pages are numbered in blocks of ``BLOCK`` that
are consecutive in the address space, so neighbours have neighbouring numbers and one search
serves a whole block.  The same structure numbers lines of pages and table indices: it numbers
``units``, whatever they are.

Invariant: a (process, unit) pair keeps the number it was first given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.hashing import place_of
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records
from nicscope.memory_limit import give_back
from nicscope.memory_limit import outgrown as longer

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_BITS = 4
BLOCK = 1 << BLOCK_BITS
NONE = -1
FEW = 1 << 12  # blocks: up to here the table stays near the processor with twice the places
MANY = 1 << 20  # blocks: from here on memory counts for more than an odd place more to look at

FREE = -1
SLOT = np.dtype(
    [
        ("block", "i8"),  # unit >> BLOCK_BITS
        ("process", "i4"),  # ``FREE`` if nobody has the slot
        ("first", "u4"),  # number of the block's first unit
    ],
    align=True,
)
OWNER = np.dtype([("unit", "i8"), ("process", "i8")], align=True)


class Numbering(NamedTuple):
    """An open-addressing table from (process, block of units) to numbers, and the way back."""

    # SLOT, shape (2**k,): at most half full, a quarter of ``FEW`` blocks, five eighths of ``MANY``
    slots: NDArray[Any]
    owners: NDArray[Any]  # OWNER, shape (blocks,): the first unit of each block of numbers
    used: NDArray[np.int64]  # shape (1,): blocks handed out


def new_numbering(blocks: int = 1024) -> Numbering:
    """An empty numbering with room for ``blocks`` (a power of two) blocks of units."""
    slots = records(_slots_for(blocks, 1), SLOT)
    slots["process"] = FREE
    return Numbering(slots, records(blocks, OWNER), np.zeros(1, np.int64))


def _slots_for(blocks: int, slots: int) -> int:
    """``slots``, a power of two, doubled until ``blocks`` blocks fill as much of them as may be."""
    fifths = 20 if blocks <= FEW else 10 if blocks <= MANY else 8
    while 5 * slots < fifths * blocks:
        slots *= 2
    return slots


def capacity(numbering: Numbering) -> int:
    """How many numbers the numbering can hand out before it must grow."""
    return len(numbering.owners) * BLOCK


def grown(numbering: Numbering, blocks: int) -> Numbering:
    """The same numbers in a table with room for at least ``blocks`` blocks."""
    size = len(numbering.owners)
    while size < blocks:
        size *= 2
    return _moved(numbering, size)


def outgrown(numbering: Numbering) -> Numbering:
    """The same numbers with room for more of them; nobody may use ``numbering`` any more.

    For twice as many or, where there are many, a fourth more.
    """
    blocks = len(numbering.owners)
    size = 2 * blocks if blocks < MANY else blocks + max(blocks // 4, 1)
    owners = longer(numbering.owners, size)
    slots = _slots_for(size, len(numbering.slots))
    if slots == len(numbering.slots):
        return numbering._replace(owners=owners)
    give_back(numbering.slots)
    table = longer(records(0, SLOT), slots)
    table["process"] = FREE
    made = Numbering(table, owners, numbering.used)
    _place_all(made)
    return made


def fitted(numbering: Numbering) -> Numbering:
    """The same numbers in as small a table as has room for them."""
    return _moved(numbering, 1 << (max(int(numbering.used[0]), 1) - 1).bit_length())


def _moved(numbering: Numbering, size: int) -> Numbering:
    made = new_numbering(size)
    used = int(numbering.used[0])
    made.owners[:used] = numbering.owners[:used]
    made.used[0] = used
    _place_all(made)
    return made


def regions_of(numbering: Numbering, units: int, chosen: NDArray[np.bool_]) -> int:
    """How many aligned regions of ``units`` (a power of two) units hold a chosen number.

    ``chosen``: shape (numbers,), at least as many as were handed out.
    """
    known = _regions(np.zeros((2, 0), np.int64))
    count = 0
    for begin in range(0, len(numbering.owners), MANY):
        owners = numbering.owners[begin : begin + MANY]
        those = chosen[begin * BLOCK : (begin + len(owners)) * BLOCK]
        parts = those.reshape(-1, max(1, BLOCK // units), min(units, BLOCK))
        if units <= BLOCK:
            count += int(np.count_nonzero(parts.any(axis=2)))
            continue
        used = owners[parts.any(axis=(1, 2))]
        found = _regions(np.stack([used["process"], used["unit"] // units]))
        known = _regions(np.concatenate([known, found], axis=1))
        count = known.shape[1]
    return count


def _regions(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each column of ``pairs`` once; shape (2, regions)."""
    ordered = pairs[:, np.lexsort(pairs)]
    is_new = np.ones(ordered.shape[1], np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    found: NDArray[np.int64] = ordered[:, is_new]
    return found


@step
def _slot_of(slots, process, block):
    """Position of the slot that holds (process, block), or of the free slot where it belongs."""
    # Unsigned places spare the check for negative ones, at which Python counts from the end.
    mask = np.uint64(slots.size - 1)
    place = place_of(block, process, slots.size)
    while True:
        slot = slots[place]
        # One branch instead of two: which of the two differs is as good as random.
        if (slot.block ^ block) | (slot.process ^ process) == 0 or slot.process == FREE:
            return place
        place = (place + np.uint64(1)) & mask


@kernel
def _place_all(numbering):
    for ordinal in range(numbering.used[0]):
        owner = numbering.owners[ordinal]
        block = owner.unit >> BLOCK_BITS
        slot = numbering.slots[_slot_of(numbering.slots, owner.process, block)]
        slot.block = block
        slot.process = owner.process
        slot.first = ordinal << BLOCK_BITS


@step
def find(numbering, process, unit):
    """The number of ``unit`` of ``process``, or ``NONE`` if its block was never numbered."""
    slot = numbering.slots[_slot_of(numbering.slots, process, unit >> BLOCK_BITS)]
    if slot.process == FREE:
        return np.int64(NONE)
    return np.int64(slot.first) | (unit & (BLOCK - 1))


@step
def number(numbering, process, unit):
    """The number of ``unit`` of ``process``, given now if it has none; ``NONE`` if all are."""
    block = unit >> BLOCK_BITS
    slot = numbering.slots[_slot_of(numbering.slots, process, block)]
    if slot.process == FREE:
        ordinal = numbering.used[0]
        if ordinal == numbering.owners.size:
            return np.int64(NONE)
        numbering.used[0] = ordinal + 1
        numbering.owners[ordinal].unit = block << BLOCK_BITS
        numbering.owners[ordinal].process = process
        slot.block = block
        slot.process = process
        slot.first = ordinal << BLOCK_BITS
    return np.int64(slot.first) | (unit & (BLOCK - 1))


@step
def place_in(numbering, process, unit):
    """Where in ``numbering.slots`` to look for ``unit`` of ``process`` first."""
    return place_of(unit >> BLOCK_BITS, process, numbering.slots.size)


@step
def probe(numbering, place, process, unit):
    """The number of ``unit`` of ``process`` if it is found at ``place``, and whether it is.

    Without a branch: where most units are found where they are looked for first, whoever has many
    to name writes down what this says, and has ``number`` search for the few others.
    """
    slot = numbering.slots[place]
    is_found = (slot.block ^ (unit >> BLOCK_BITS)) | (slot.process ^ process) == 0
    return np.int64(slot.first) | (unit & (BLOCK - 1)), is_found


@step
def unit_of(numbering, page):
    """The unit whose number is ``page``."""
    return numbering.owners[page >> BLOCK_BITS].unit | (page & (BLOCK - 1))


@step
def process_of(numbering, page):
    """The process that owns number ``page``."""
    return numbering.owners[page >> BLOCK_BITS].process
