"""What an RNIC keeps of tables in host memory: contexts of queue pairs, or work requests.

A fully associative set of keys, dense from 0.  Vendors publish neither sizes nor replacement, so
both are parameters: whom a new key displaces is the least recently used one, or any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.hashing import place_of
from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

LRU, RANDOM = 0, 1
ABSENT = -1
_REPLACEMENT, _FREE, _DRAWN = range(3)  # of ``state``
_SALT = 17  # of the draws


class Residents(NamedTuple):
    """Slots, and where each key is; the last row of ``newer`` and ``older`` closes the ring."""

    slot_of: NDArray[np.int32]  # by key; ABSENT
    key_of: NDArray[np.int32]  # by slot
    newer: NDArray[np.int32]  # by slot; of a free one the next that is free
    older: NDArray[np.int32]
    state: NDArray[np.int64]


def new_residents(keys: int, slots: int, replacement: int) -> Residents:
    """An empty set of ``slots`` for keys below ``keys``; no more slots than keys are made."""
    slots = min(slots, keys)
    ring = np.arange(1, slots + 2, dtype=np.int32)
    ring[slots] = slots
    older = np.full(slots + 1, slots, np.int32)
    return Residents(
        np.full(keys, ABSENT, np.int32),
        np.full(slots, ABSENT, np.int32),
        ring,
        older,
        np.array([replacement, 0, 0], np.int64),
    )


@step
def is_resident(kept, key):
    """Whether ``key`` is there; it becomes the one used last."""
    slot = kept.slot_of[key]
    if slot == ABSENT:
        return False
    _unlink(kept, slot)
    _append(kept, slot)
    return True


@step
def bring(kept, key):
    """Insert ``key``, which is not there, in a free slot or in place of another key."""
    ends = kept.key_of.size
    if ends == 0:
        return
    slot = np.int64(kept.state[_FREE])
    if slot < ends:
        kept.state[_FREE] = kept.newer[slot]
    else:
        slot = np.int64(kept.newer[ends])
        if kept.state[_REPLACEMENT] == RANDOM:
            slot = np.int64(place_of(kept.state[_DRAWN], _SALT, ends))
            kept.state[_DRAWN] += 1
        kept.slot_of[kept.key_of[slot]] = ABSENT
        _unlink(kept, slot)
    kept.key_of[slot] = key
    kept.slot_of[key] = slot
    _append(kept, slot)


@step
def look_up(kept, key):
    """Whether ``key`` is there; one that is not is brought."""
    if is_resident(kept, key):
        return True
    bring(kept, key)
    return False


@step
def leave(kept, key):
    """Remove ``key``, if it is there: it will not be asked for again."""
    slot = kept.slot_of[key]
    if slot == ABSENT:
        return
    _unlink(kept, slot)
    kept.slot_of[key] = ABSENT
    kept.newer[slot] = kept.state[_FREE]
    kept.state[_FREE] = slot


@step
def _unlink(kept, slot):
    kept.newer[kept.older[slot]] = kept.newer[slot]
    kept.older[kept.newer[slot]] = kept.older[slot]


@step
def _append(kept, slot):
    ends = kept.key_of.size
    newest = kept.older[ends]
    kept.newer[newest] = slot
    kept.older[slot] = newest
    kept.newer[slot] = ends
    kept.older[ends] = slot
