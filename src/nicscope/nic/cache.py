"""The translation cache: one component, set up five ways by the published systems.

``lookup`` asks, ``fill`` answers a miss, ``drop`` invalidates; nothing here waits.  A key is
(set, tag).  Sets of up to ``SEARCHED_WAYS`` ways are searched way by way (UTLB 6.3, miNI IV.B.2),
larger ones through a hash index with links in order of use.  Replacement in a set is LRU by
lookup; an entry in use by a transfer is never evicted (U-Net/MM 4.2).
"""

from __future__ import annotations

import numpy as np

from nicscope.jit import step
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE, SEARCHED_WAYS
from nicscope.nic.linked import linked_drop, linked_fill, linked_find, linked_renew

MISS = -1
REFUSED = -1  # ``fill`` found every way of the set in use
LAST_AGE = 0xFFFFFFFF


@step
def lookup(nic, row, tag):
    """Entry that holds ``tag`` in set ``row``, now the most recent of its set, or ``MISS``."""
    ways = nic.config[0].ways
    if ways == 1:
        return row if nic.tags[row] == tag else np.int64(MISS)
    if ways > SEARCHED_WAYS:
        entry = linked_find(nic, tag)
        if entry != MISS:
            linked_renew(nic, row, entry)
        return entry
    entry = searched(nic, row, tag)
    if entry != MISS:
        nic.ages[entry] = next_age(nic)
    return entry


@step
def exchange(nic, row, tag, frame):
    """``lookup`` and, if that misses, ``fill`` of a direct-mapped cache in one: 1 if it missed.

    Without a branch, as which of the two it is cannot be predicted.  No entry may be in use.
    """
    missed = np.int64(nic.tags[row] != tag)
    nic.tags[row] = tag
    nic.frames[row] = frame
    return missed


@step
def find(nic, row, tag):
    """Entry that holds ``tag`` in set ``row`` or ``MISS``; no use is noted."""
    if nic.config[0].ways > SEARCHED_WAYS:
        return linked_find(nic, tag)
    return searched(nic, row, tag)


@step
def searched(nic, row, tag):
    """Entry that holds ``tag`` in set ``row``, looked for way by way, or ``MISS``.

    All ways are compared: where the entry is cannot be predicted, and a wrong guess costs more.
    """
    first = row * nic.config[0].ways
    entry = np.int64(MISS)
    for candidate in range(first, first + nic.config[0].ways):
        entry = np.int64(candidate) if nic.tags[candidate] == tag else entry
    return entry


@step
def next_age(nic):
    """The age of a use that happens now; ages are ranked anew before they overflow."""
    registers = nic.registers[0]
    if registers.clock == LAST_AGE:
        rank_ages(nic)
    registers.clock += 1
    return registers.clock


@step
def rank_ages(nic):
    """Replace the ages of each set by their ranks 1..ways, which keeps every order.

    From the oldest on: ages not yet replaced are the larger ones, as no rank exceeds its age.
    """
    ways = nic.config[0].ways
    for first in range(0, nic.tags.size, ways):
        done = np.int64(0)  # the age of entries that are free, and that stay so
        for rank in range(1, ways + 1):
            oldest = first
            least = np.int64(LAST_AGE) + 1
            for entry in range(first, first + ways):
                age = np.int64(nic.ages[entry])
                if done < age < least:
                    least = age
                    oldest = entry
            if least > LAST_AGE:
                break
            nic.ages[oldest] = rank
            done = max(least, np.int64(rank))
    nic.registers[0].clock = ways


@step
def fill(nic, row, tag):
    """Put ``tag`` in set ``row`` as its most recent; returns the entry, its frames to be written.

    The caller has seen a miss: ``tag`` is not there.  ``registers.evicted`` is the tag that had
    to leave, or ``EMPTY``.  Returns ``REFUSED`` if every way of the set is in use.
    """
    ways = nic.config[0].ways
    if ways > SEARCHED_WAYS:
        return linked_fill(nic, row, tag)
    entry = row if ways == 1 else oldest_way(nic, row)
    if nic.frames[entry * nic.config[0].line] & IN_USE:
        return np.int64(REFUSED)
    nic.registers[0].evicted = nic.tags[entry]
    nic.tags[entry] = tag
    if ways > 1:
        nic.ages[entry] = next_age(nic)
    return entry


@step
def oldest_way(nic, row):
    """The entry of set ``row`` to fill next: a free one (its age is 0), else the least recent.

    Entries in use come last, so that the entry returned is in use only if all are.
    """
    first = row * nic.config[0].ways
    best = first
    for entry in range(first + 1, first + nic.config[0].ways):
        best = entry if nic.ages[entry] < nic.ages[best] else best
    if nic.frames[best * nic.config[0].line] & IN_USE:
        best = _oldest_unused_way(nic, row, best)
    return best


@step
def _oldest_unused_way(nic, row, best):
    first = row * nic.config[0].ways
    best_age = np.int64(LAST_AGE) + 1
    for entry in range(first, first + nic.config[0].ways):
        unused = nic.frames[entry * nic.config[0].line] & IN_USE == 0
        if unused and np.int64(nic.ages[entry]) < best_age:
            best = entry
            best_age = np.int64(nic.ages[entry])
    return best


@step
def drop(nic, row, tag):
    """Remove ``tag`` from set ``row``; whether it was there.  No transfer may be using it."""
    if nic.config[0].ways > SEARCHED_WAYS:
        return linked_drop(nic, row, tag)
    entry = searched(nic, row, tag)
    if entry == MISS:
        return False
    nic.tags[entry] = EMPTY
    if nic.config[0].ways > 1:
        nic.ages[entry] = 0
    return True


@step
def hold(nic, entry):
    """Protect ``entry`` from eviction while a transfer uses it."""
    nic.frames[entry * nic.config[0].line] |= IN_USE


@step
def release(nic, entry):
    """The transfer that held ``entry`` has ended."""
    nic.frames[entry * nic.config[0].line] &= FRAME_BITS


@step
def frame_of(nic, entry, page):
    """Physical frame of the ``page``-th page of the line in ``entry``."""
    return np.int64(nic.frames[entry * nic.config[0].line + page] & FRAME_BITS)
