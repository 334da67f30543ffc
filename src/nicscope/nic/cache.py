"""The translation cache: one component, set up five ways by the published systems.

``lookup`` asks, ``fill`` answers a miss, ``drop`` invalidates; nothing here waits.  A key is
(set, tag).  Sets of up to ``SEARCHED_WAYS`` ways are searched way by way (UTLB 6.3, miNI IV.B.2):
their tags are kept most recent first, each with the place where its frames are, so frames never
move.  Larger sets have a hash index and links in order of use.  Replacement in a set is LRU by
lookup; an entry in use by a transfer is never evicted (U-Net/MM 4.2).

A search begins with the most recent way.  What it takes grows with the *further ways* that it
checks: none if the first is it, all others if none is.  A hash index checks none.
"""

from __future__ import annotations

import numpy as np

from nicscope.jit import step
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE, SEARCHED_WAYS
from nicscope.nic.linked import linked_drop, linked_fill, linked_find, linked_renew

MISS = -1
REFUSED = -1  # ``fill`` found every way of the set in use
FOUR = 4  # the widest sets that both UTLB and miNI found worth their search; unrolled by hand


@step
def lookup(nic, row, tag, counts):
    """Entry that holds ``tag`` in set ``row``, now the most recent of its set, or ``MISS``.

    The further ways that it checks are added to ``counts[0].further_ways``.
    """
    ways = nic.config[0].ways
    if ways == 1:
        return row if nic.tags[row] == tag else np.int64(MISS)
    if ways > SEARCHED_WAYS:
        entry = linked_find(nic, tag)
        if entry != MISS:
            linked_renew(nic, row, entry)
        return entry
    if nic.tags[row * ways] != tag:
        rank = _rank_of(nic, row, tag)
        if rank == MISS:
            counts[0].further_ways += ways - 1
            return rank
        counts[0].further_ways += rank
        _bring_forward(nic, row, rank)
    return row * ways + np.int64(nic.places[row * ways])


@step
def further_ways(nic, row, tag):
    """How many further ways a lookup of ``tag`` in set ``row`` would check; no use is noted."""
    ways = nic.config[0].ways
    if ways == 1 or ways > SEARCHED_WAYS or nic.tags[row * ways] == tag:
        return np.int64(0)
    rank = _rank_of(nic, row, tag)
    return rank if rank != MISS else ways - 1


@step
def exchange(nic, row, tag, frame, counts):
    """``lookup`` and, if that misses, ``fill`` in one, for sets that are searched: 1 if it missed.

    Without a branch, as which of the two it is cannot be predicted.  No entry may be in use, and
    lines hold one page.
    """
    ways = nic.config[0].ways
    if ways == 1:
        missed = np.int64(nic.tags[row] != tag)
        nic.tags[row] = tag
        nic.frames[row] = frame
        return missed
    if nic.tags[row * ways] == tag:
        return np.int64(0)
    rank = _rank_of(nic, row, tag)
    missed = np.int64(rank == MISS)
    rank += missed * ways  # the last of the set
    counts[0].further_ways += rank
    nic.tags[row * ways + rank] = tag
    _bring_forward(nic, row, rank)
    nic.frames[row * ways + np.int64(nic.places[row * ways])] = frame
    return missed


@step
def find(nic, row, tag):
    """Entry that holds ``tag`` in set ``row`` or ``MISS``; no use is noted."""
    ways = nic.config[0].ways
    if ways == 1:
        return row if nic.tags[row] == tag else np.int64(MISS)
    if ways > SEARCHED_WAYS:
        return linked_find(nic, tag)
    rank = _rank_of(nic, row, tag)
    return rank if rank == MISS else row * ways + np.int64(nic.places[row * ways + rank])


@step
def _rank_of(nic, row, tag):
    """How many entries of set ``row`` are more recent than the one with ``tag``, or ``MISS``.

    All ways are compared: where the tag is cannot be predicted, and a wrong guess costs more.
    """
    first = row * nic.config[0].ways
    found = np.int64(MISS)
    if nic.config[0].ways == FOUR:
        found += np.int64(nic.tags[first] == tag)
        found += np.int64(nic.tags[first + 1] == tag) * 2
        found += np.int64(nic.tags[first + 2] == tag) * 3
        return found + np.int64(nic.tags[first + 3] == tag) * 4
    for rank in range(nic.config[0].ways):
        found = np.int64(rank) if nic.tags[first + rank] == tag else found
    return found


@step
def _bring_forward(nic, row, rank):
    """Make the entry of that ``rank`` the first of its set, and those before it one later."""
    first = row * nic.config[0].ways
    tag = nic.tags[first + rank]
    place = nic.places[first + rank]
    if nic.config[0].ways == FOUR:
        _make_room_of_four(nic.tags, first, rank)
        _make_room_of_four(nic.places, first, rank)
        nic.tags[first] = tag
        nic.places[first] = place
        return
    for later in range(first + nic.config[0].ways - 1, first, -1):
        before = later - np.int64(later <= first + rank)
        nic.tags[later] = nic.tags[before]
        nic.places[later] = nic.places[before]
    nic.tags[first] = tag
    nic.places[first] = place


@step
def _make_room_of_four(column, first, rank):
    """Move what ranks before ``rank`` one place back, without a loop and without a branch."""
    zeroth = column[first]
    second = column[first + 1]
    third = column[first + 2]
    fourth = column[first + 3]
    column[first + 1] = zeroth if rank >= 1 else second
    column[first + 2] = second if rank >= 2 else third
    column[first + 3] = third if rank >= 3 else fourth


@step
def fill(nic, row, tag):
    """Put ``tag`` in set ``row`` as its most recent; returns the entry, its frames to be written.

    The caller has seen a miss: ``tag`` is not there.  ``registers.evicted`` is the tag that had
    to leave, or ``EMPTY``.  Returns ``REFUSED`` if every way of the set is in use.
    """
    ways = nic.config[0].ways
    if ways > SEARCHED_WAYS:
        return linked_fill(nic, row, tag)
    if ways == 1:
        if nic.frames[row * nic.config[0].line] & IN_USE:
            return np.int64(REFUSED)
        nic.registers[0].evicted = nic.tags[row]
        nic.tags[row] = tag
        return row
    rank = _last_unused(nic, row)
    if rank == REFUSED:
        return rank
    nic.registers[0].evicted = nic.tags[row * ways + rank]
    nic.tags[row * ways + rank] = tag
    _bring_forward(nic, row, rank)
    return row * ways + np.int64(nic.places[row * ways])


@step
def _last_unused(nic, row):
    """Rank of the least recent entry of set ``row`` that no transfer uses, or ``REFUSED``.

    Free entries rank last.
    """
    ways = nic.config[0].ways
    rank = ways - 1
    while rank >= 0:
        entry = row * ways + np.int64(nic.places[row * ways + rank])
        if nic.frames[entry * nic.config[0].line] & IN_USE == 0:
            return rank
        rank -= 1
    return np.int64(REFUSED)


@step
def drop(nic, row, tag):
    """Remove ``tag`` from set ``row``; whether it was there.  No transfer may be using it."""
    ways = nic.config[0].ways
    if ways > SEARCHED_WAYS:
        return linked_drop(nic, row, tag)
    if ways == 1:
        held = nic.tags[row] == tag
        nic.tags[row] = EMPTY if held else nic.tags[row]
        return held
    rank = _rank_of(nic, row, tag)
    if rank == MISS:
        return False
    last = (row + 1) * ways - 1
    place = nic.places[row * ways + rank]
    for earlier in range(row * ways + rank, last):
        nic.tags[earlier] = nic.tags[earlier + 1]
        nic.places[earlier] = nic.places[earlier + 1]
    nic.tags[last] = EMPTY
    nic.places[last] = place
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
