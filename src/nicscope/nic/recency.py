"""The most recent of many keys, in order: what a fully associative LRU cache of them holds.

Each use of a key takes the next slot of a line, and makes the key's slot before it stale.  The
oldest slot that is not is that of the key that would have to go; what was used since is held.  So a
key needs one number, whatever becomes of it, and neither a hit nor a miss is a case of its own: no
processor could foresee which it is.  When the line is full, the keys that are held are used again
in their order.

Invariant: as many slots from the oldest on are not stale as keys are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import coded, step
from nicscope.kernel.records import records
from nicscope.memory_limit import outgrown

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAST_TIME = (1 << 32) - 1  # that a key's slot has
ONE = np.uint64(1)
WORD = 64  # slots
SLOTS_OF_A_KEY = 4  # at least, or a full line would be closed up too often

ORDER = np.dtype(
    [
        ("capacity", "i8"),  # keys
        ("held", "i8"),
        ("now", "i8"),  # the slot of the next use; slots are counted from 1, without end
        ("oldest", "i8"),  # the first that is not stale
    ],
    align=True,
)


class Recency(NamedTuple):
    """A line of uses, of which the last are kept: slot t is at t modulo its length, 2**k."""

    order: NDArray[Any]  # ORDER, shape (1,)
    last: NDArray[np.uint32]  # shape (keys,): the slot of each key's latest use; 0: none
    line: NDArray[np.uint32]  # shape (slots,): whose use it was
    stale: NDArray[np.uint64]  # shape (slots / 64,): a bit for each, 1 if its key was used since


def new_recency(capacity: int) -> Recency:
    """Nothing held, and no key known yet; see ``grown_recency``."""
    order = records(1, ORDER)
    order[0]["capacity"] = capacity
    order[0]["now"] = order[0]["oldest"] = 1
    none = np.zeros(0, np.uint32)
    return Recency(order, none, none, np.zeros(0, np.uint64))


def grown_recency(recency: Recency, keys: int) -> Recency:
    """The same with room for ``keys`` keys; nobody may use ``recency`` any more."""
    order = recency.order[0]
    most = SLOTS_OF_A_KEY * min(keys, int(order["capacity"])) + 2 * WORD
    slots = 1 << (most - 1).bit_length()
    grown = recency._replace(last=outgrown(recency.last, keys))
    if slots <= len(recency.line):
        return grown
    grown = grown._replace(line=np.zeros(slots, np.uint32), stale=np.zeros(slots // WORD, "u8"))
    times = np.arange(int(order["oldest"]), int(order["now"]))
    used = recency.line[times & (len(recency.line) - 1)] if len(times) else recency.line
    held = used[grown.last[used] == times]
    order["oldest"] = 1
    order["now"] = 1 + len(held)
    grown.last[:] = 0
    grown.last[held] = times = np.arange(1, 1 + len(held))
    grown.line[times] = held
    return grown


@coded("nicscope.kernel.compiler.states:lowest_bit")
def lowest_bit(word: Any) -> Any:
    """The place of the lowest bit that is set in ``word``, a uint64 that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


@step
def uses_of(recency):
    """What ``renew_held`` is handed: the next slot, the oldest, its word, and free places."""
    order = recency.order[0]
    now, oldest = np.int64(order.now), np.int64(order.oldest)
    return now, oldest, _word_from(recency, oldest), np.int64(order.capacity - order.held)


@step
def keep_uses(recency, now, oldest, left):
    """Write down what ``uses_of`` reads."""
    order = recency.order[0]
    order.now = now
    order.oldest = oldest
    order.held = order.capacity - left


@step
def _word_from(recency, time):
    """The slots of 64 that are not stale, from ``time`` on."""
    before = (ONE << np.uint64(time & (WORD - 1))) - ONE
    return ~(recency.stale[(time & (recency.line.size - 1)) >> 6] | before)


@step
def renew_held(recency, key, now, oldest, word, left):
    """Use ``key``; where it was not held and no place is ``left``, the oldest has to go for it.

    Returns 1 if it was held, the key that went plus 1 or 0, and the rest as it is now.  The caller
    holds that, so that no use need wait until the one before it is written to memory.
    """
    if (now - oldest > recency.line.size - 1 - WORD) | (now > LAST_TIME - recency.line.size):
        now, oldest, word = _close_up(recency, now, oldest)
    before = np.int64(recency.last[key])
    return _used(recency, key, before, np.int64(before >= oldest), now, oldest, word, left)


@step
def append_held(recency, key, now, oldest, word, left):
    """Use ``key``, of which the caller knows that it is not held; as ``renew_held``."""
    if (now - oldest > recency.line.size - 1 - WORD) | (now > LAST_TIME - recency.line.size):
        now, oldest, word = _close_up(recency, now, oldest)
    _, gone, now, oldest, word, left = _used(recency, key, 0, 0, now, oldest, word, left)
    return gone, now, oldest, word, left


@step
def _used(recency, key, before, held, now, oldest, word, left):
    last_slot = recency.line.size - 1
    if now & (WORD - 1) == 0:
        recency.stale[(now & last_slot) >> 6] = 0
    recency.line[now & last_slot] = key
    recency.last[key] = now
    bit = np.uint64(held) << np.uint64(before & (WORD - 1))
    recency.stale[(before & last_slot) >> 6] |= bit
    word &= ~(bit * np.uint64(before >> 6 == oldest >> 6))
    goes = np.int64(left == 0) & (1 - held)
    gone = (np.int64(recency.line[oldest & last_slot]) + 1) * goes
    word &= word - np.uint64(goes)
    left -= 1 - held - goes
    while word == 0:
        oldest = (oldest | (WORD - 1)) + 1
        word = _word_from(recency, oldest)
    oldest = (oldest & ~(WORD - 1)) + np.int64(lowest_bit(word))
    return held, gone, now + 1, oldest, word, left


@step
def drop_held(recency, key, oldest, word, left):
    """Drop ``key`` if it is held; before ``oldest`` is asked for again, some key is to be used.

    Returns 1 if it was held, and the word of the oldest slot and the places left as they are now.
    """
    before = np.int64(recency.last[key])
    held = np.int64(before >= oldest)
    recency.last[key] = before * (1 - held)
    bit = np.uint64(held) << np.uint64(before & (WORD - 1))
    recency.stale[(before & (recency.line.size - 1)) >> 6] |= bit
    word &= ~(bit * np.uint64(before >> 6 == oldest >> 6))
    return held, word, left + held


@step
def _close_up(recency, now, oldest):
    """Use the keys that are held again, oldest first; where the line ends and begins then."""
    last_slot = recency.line.size - 1
    if now > LAST_TIME - 2 * recency.line.size:
        # Times begin anew, at the same places of the line.
        ahead = (oldest >> 6 << 6) & ~last_slot
        for key in range(recency.last.size):
            time = np.int64(recency.last[key])
            recency.last[key] = time - ahead if time >= oldest else 0
        now -= ahead
        oldest -= ahead
    end = now
    for slot in range(oldest, end):
        key = recency.line[slot & last_slot]
        if np.int64(recency.last[key]) == slot:
            if now & (WORD - 1) == 0:
                recency.stale[(now & last_slot) >> 6] = 0
            recency.line[now & last_slot] = key
            recency.last[key] = now
            now += 1
    return now, end, _word_from(recency, end)
