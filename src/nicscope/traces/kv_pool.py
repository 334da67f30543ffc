"""A pool of KV cache blocks in host memory: which blocks a request finds, and where each lies.

Blocks are found by prefix: a block stands for its tokens and all before them, so a request reads
the longest run of its blocks, from the front, that the pool holds, computes the rest and writes it.
The pool keeps the blocks that were used last (Mooncake, FAST'25, section 3.2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = -1


class Placed(NamedTuple):
    """What became of each reference to a block."""

    slots: NDArray[np.int64]  # of the pool, by reference
    found: NDArray[np.int64]  # blocks at the front of each request that the pool held
    evicted: int
    used: int  # slots that were ever filled


@kernel
def place_blocks(firsts, blocks, capacity, newer, older, slot_of, slots, found):
    """Fill ``slots`` and ``found``; returns blocks evicted and slots used.

    ``firsts``: where each request's blocks begin, and their end.  By block: ``slot_of``, filled
    with ``NOWHERE``, and ``newer`` and ``older``, whose further last row closes the ring.
    """
    ends = slot_of.size  # stands between the newest and the oldest
    newer[ends] = ends
    older[ends] = ends
    used, evicted = 0, 0
    for request in range(firsts.size - 1):
        first, last = firsts[request], firsts[request + 1]
        run = first
        while run < last and slot_of[blocks[run]] != NOWHERE:
            run += 1
        found[request] = run - first
        for reference in range(first, last):
            block = blocks[reference]
            if slot_of[block] != NOWHERE:
                newer[older[block]] = newer[block]
                older[newer[block]] = older[block]
            elif used < capacity:
                slot_of[block] = used
                used += 1
            else:
                victim = newer[ends]  # the oldest
                newer[ends] = newer[victim]
                older[newer[victim]] = ends
                slot_of[block] = slot_of[victim]
                slot_of[victim] = NOWHERE
                evicted += 1
            newest = older[ends]
            newer[newest] = block
            older[block] = newest
            newer[block] = ends
            older[ends] = block
            slots[reference] = slot_of[block]
    return evicted, used


def place(firsts: NDArray[np.int64], ids: NDArray[np.int64], capacity: int | None) -> Placed:
    """Where a pool of ``capacity`` blocks, None for as many as there are, has each reference's.

    ``firsts``: shape (requests + 1,), where the references of each request begin; ``ids``: the
    block of each reference, any numbers.
    """
    distinct, blocks = np.unique(ids, return_inverse=True)
    many = distinct.size
    slots = np.empty(ids.size, np.int64)
    found = np.empty(firsts.size - 1, np.int64)
    evicted, used = place_blocks(
        firsts,
        blocks.astype(np.int64),
        many if capacity is None else capacity,
        np.zeros(many + 1, np.int64),
        np.zeros(many + 1, np.int64),
        np.full(many, NOWHERE, np.int64),
        slots,
        found,
    )
    return Placed(slots, found, int(evicted), int(used))
