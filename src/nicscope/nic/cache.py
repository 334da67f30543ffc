"""The translation cache: one component, set up by each scheme in its own way.

``lookup`` asks, ``fill`` answers a miss, ``drop`` invalidates; nothing here waits.  A key is
(set, tag).  Sets of up to ``SEARCHED_WAYS`` ways are searched way by way (UTLB 6.3, miNI IV.B.2):
their tags are kept most recent first, each with the place where its frames are, so frames never
move; a NIC whose frames nobody reads has neither (None).  Larger sets have a hash index and links
in order of use.  Replacement in a set is LRU by lookup; an entry in use by a transfer is never
evicted (U-Net/MM 4.2).

A search begins with the most recent way.  What it takes grows with the *further ways* that it
checks: none if the first is it, all others if none is.  A hash index checks none.
"""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE, SEARCHED_WAYS
from nicscope.nic.linked import is_used, linked_drop, linked_fill, linked_find, linked_renew

MISS = -1
REFUSED = -1  # ``fill`` found every way of the set in use
FOUR = 4  # the widest sets that both UTLB and miNI found worth their search


@step
def lookup(nic, row, tag, counts):
    """Entry that holds ``tag`` in set ``row``, now the most recent of its set, or ``MISS``.

    The further ways that it checks are added to ``counts[0].further_ways``.
    """
    ways = nic.config[0].ways
    if ways == 1:
        return row if nic.tags[row] == tag else np.int64(MISS)
    if find(nic, row, tag) == MISS:
        counts[0].further_ways += ways - 1 if ways <= SEARCHED_WAYS else 0
        return np.int64(MISS)
    depth, _ = renew(nic, row, tag, ways)
    if ways > SEARCHED_WAYS:
        return linked_find(nic, tag)
    counts[0].further_ways += depth
    return _place_of(nic.places, row * ways, row * ways)


@step
def further_ways(nic, row, tag):
    """How many further ways a lookup of ``tag`` in set ``row`` would check; no use is noted."""
    ways = nic.config[0].ways
    if ways == 1 or ways > SEARCHED_WAYS:
        return np.int64(0)
    return min(_depth_of(nic, row, tag), ways - 1)


@step
def renew(nic, row, tag, ways):
    """``tag`` becomes the most recent of set ``row``, in place of the least recent if not there.

    A lookup, and on a miss its fill, for which the caller has seen to it that no transfer uses the
    least recent.  Returns how many tags were more recent than it, all ``ways`` of the set if it was
    not there (of a set with an index 0 or all), and which tag left or ``EMPTY``.  A loop over many
    lookups that writes ``ways`` down as a constant has no more than that in it.
    """
    if ways == 1:
        return _renewed(nic.tags, nic.places, row, 1, tag)
    if ways == FOUR:
        return _renewed(nic.tags, nic.places, row * FOUR, FOUR, tag)
    if ways <= SEARCHED_WAYS:
        return _renewed(nic.tags, nic.places, row * ways, ways, tag)
    missed, evicted = linked_renew(nic, row, tag)
    return missed * ways, evicted


@step
def _renewed(tags, places, first, ways, tag):
    """``renew`` for the set of ``ways`` tags from ``first`` on, which are searched.

    Tag by tag the same is done wherever it is, as where it is cannot be predicted.  Where ``ways``
    is written down, the loop becomes as many comparisons and selections.
    """
    depth = np.int64(0)
    is_deeper = True
    before = np.int64(tag)
    for place in range(first, first + ways):
        here = np.int64(tags[place])
        tags[place] = before if is_deeper else here
        is_deeper = is_deeper & (here != tag)
        depth += np.int64(is_deeper)
        before = here
    _bring_forward(places, first, min(depth, ways - 1))
    return depth, before if is_deeper else np.int64(EMPTY)


@step
def _bring_forward(places, first, depth):
    """Make the place at that ``depth`` the first of its set, and those before it one later."""
    if places is not None and places.size > 0:
        place = places[first + depth]
        for later in range(first + depth, first, -1):
            places[later] = places[later - 1]
        places[first] = place


@step
def _place_of(places, first, at):
    """The entry whose tag stands at ``at`` in the set of tags from ``first`` on.

    Where nobody reads frames there are no places, and any entry of the set will do.
    """
    if places is None:
        return np.int64(at)
    return first + np.int64(places[at])


@step
def find(nic, row, tag):
    """Entry that holds ``tag`` in set ``row`` or ``MISS``; no use is noted."""
    ways = nic.config[0].ways
    if ways == 1:
        return row if nic.tags[row] == tag else np.int64(MISS)
    if ways > SEARCHED_WAYS:
        return linked_find(nic, tag)
    depth = _depth_of(nic, row, tag)
    if depth == ways:
        return np.int64(MISS)
    return _place_of(nic.places, row * ways, row * ways + depth)


@step
def _depth_of(nic, row, tag):
    """How many entries of set ``row`` are more recent than the one with ``tag``; all if none is."""
    ways = nic.config[0].ways
    if ways == FOUR:
        return _counted_depth(nic.tags, row * FOUR, FOUR, tag)
    return _counted_depth(nic.tags, row * ways, ways, tag)


@step
def _counted_depth(tags, first, ways, tag):
    depth = np.int64(0)
    is_deeper = True
    for place in range(first, first + ways):
        is_deeper = is_deeper & (tags[place] != tag)
        depth += np.int64(is_deeper)
    return depth


@step
def fill(nic, row, tag):
    """Put ``tag`` in set ``row`` as its most recent; returns the entry, its frames to be written.

    The caller has seen a miss: ``tag`` is not there.  ``registers.evicted`` is the tag that had
    to leave, or ``EMPTY``.  Returns ``REFUSED`` if every way of the set is in use.
    """
    ways = nic.config[0].ways
    if ways > SEARCHED_WAYS:
        return linked_fill(nic, row, tag)
    depth = _last_unused(nic, nic.frames, nic.places, row)
    if depth == REFUSED:
        return depth
    nic.registers[0].evicted = nic.tags[row * ways + depth]
    nic.tags[row * ways + depth] = tag
    renew(nic, row, tag, ways)
    return row if ways == 1 else _place_of(nic.places, row * ways, row * ways)


@step
def _last_unused(nic, frames, places, row):
    """Depth of the least recent entry of set ``row`` that no transfer uses, or ``REFUSED``.

    Free entries stand last.
    """
    ways = nic.config[0].ways
    depth = ways - 1
    if frames is None:
        return depth
    while depth >= 0:
        entry = row if ways == 1 else _place_of(places, row * ways, row * ways + depth)
        if not is_used(nic, entry):
            return depth
        depth -= 1
    return np.int64(REFUSED)


@step
def drop(nic, row, tag):
    """Remove ``tag`` from set ``row``; whether it was there.  No transfer may be using it."""
    return drop_in(nic, row, tag, nic.config[0].ways)


@step
def drop_in(nic, row, tag, ways):
    """``drop`` where the caller says how many ``ways`` sets have; see ``renew``."""
    if ways > SEARCHED_WAYS:
        return linked_drop(nic, row, tag)
    if ways == 1:
        return _dropped(nic.tags, nic.places, row, 1, tag)
    if ways == FOUR:
        return _dropped(nic.tags, nic.places, row * FOUR, FOUR, tag)
    return _dropped(nic.tags, nic.places, row * ways, ways, tag)


@step
def _dropped(tags, places, first, ways, tag):
    """``drop`` for the set of ``ways`` tags from ``first`` on; as ``_renewed``, no branch."""
    last = first + ways - 1
    depth = np.int64(ways)
    is_there = False
    for place in range(first, last):
        is_there = is_there | (tags[place] == tag)
        tags[place] = tags[place + 1] if is_there else tags[place]
        depth -= np.int64(is_there)
    is_there = is_there | (tags[last] == tag)
    tags[last] = EMPTY if is_there else tags[last]
    depth -= np.int64(is_there)
    if is_there:
        _send_back(places, first + depth, last)
    return is_there


@step
def _send_back(places, at, last):
    """Make the place at ``at`` the last of its set, and those after it one earlier."""
    if places is not None and places.size > 0:
        place = places[at]
        for earlier in range(at, last):
            places[earlier] = places[earlier + 1]
        places[last] = place


@step
def hold(nic, entry):
    """Protect ``entry`` from eviction while a transfer uses it."""
    if nic.uses.size > 0:
        nic.uses[entry] = 1
    else:
        nic.frames[entry] |= IN_USE


@step
def release(nic, entry):
    """Release ``entry``, which a transfer held."""
    if nic.uses.size > 0:
        nic.uses[entry] = 0
    else:
        nic.frames[entry] &= FRAME_BITS


@step
def frame_of(nic, entry, page):
    """Physical frame of the ``page``-th page of the line in ``entry``."""
    if nic.uses.size > 0:
        return np.int64(nic.frames[entry * nic.config[0].line + page])
    return np.int64(nic.frames[entry] & FRAME_BITS)
