"""Sets too wide to search: entries found through a hash index, links in order of use.

The firmware's answer to associativity beyond what a software search can pay for, up to a fully
associative cache.  Invariant: an entry is in exactly one chain of the index and in the order of
exactly one set, or on the free list.  Entry numbers are stored plus 1, so 0 means none.
"""

from __future__ import annotations

import numpy as np

from nicscope.hashing import place_of
from nicscope.jit import step
from nicscope.nic.layout import EMPTY, IN_USE

MISS = -1
REFUSED = -1


@step
def _chain_of(nic, tag):
    return np.int64(place_of(np.int64(tag), 0, nic.chains.size))


@step
def linked_find(nic, tag):
    """Entry that holds ``tag``, or ``MISS``."""
    entry = np.int64(nic.chains[_chain_of(nic, tag)]) - 1
    while entry >= 0 and nic.tags[entry] != tag:
        entry = np.int64(nic.links[entry].next) - 1
    return entry


@step
def _unlink(nic, row, entry):
    link = nic.links[entry]
    ends = nic.ends[row]
    if link.older:
        nic.links[np.int64(link.older) - 1].newer = link.newer
    else:
        ends.oldest = link.newer
    if link.newer:
        nic.links[np.int64(link.newer) - 1].older = link.older
    else:
        ends.newest = link.older


@step
def _append(nic, row, entry):
    ends = nic.ends[row]
    nic.links[entry].older = ends.newest
    nic.links[entry].newer = 0
    if ends.newest:
        nic.links[np.int64(ends.newest) - 1].newer = entry + 1
    else:
        ends.oldest = entry + 1
    ends.newest = entry + 1


@step
def linked_renew(nic, row, entry):
    """Make ``entry`` the most recent of set ``row``."""
    if np.int64(nic.ends[row].newest) != entry + 1:
        _unlink(nic, row, entry)
        _append(nic, row, entry)


@step
def _leave_chain(nic, entry):
    chain = _chain_of(nic, nic.tags[entry])
    if np.int64(nic.chains[chain]) == entry + 1:
        nic.chains[chain] = nic.links[entry].next
        return
    before = np.int64(nic.chains[chain]) - 1
    while np.int64(nic.links[before].next) != entry + 1:
        before = np.int64(nic.links[before].next) - 1
    nic.links[before].next = nic.links[entry].next


@step
def linked_fill(nic, row, tag):
    """Put ``tag`` in set ``row`` as its most recent; its entry, or ``REFUSED``; see ``fill``."""
    entry = _free_entry(nic, row)
    nic.registers[0].evicted = EMPTY
    if entry < 0:
        entry = np.int64(nic.ends[row].oldest) - 1
        while entry >= 0 and nic.frames[entry * nic.config[0].line] & IN_USE:
            entry = np.int64(nic.links[entry].newer) - 1
        if entry < 0:
            return np.int64(REFUSED)
        nic.registers[0].evicted = nic.tags[entry]
        _leave_chain(nic, entry)
        _unlink(nic, row, entry)
    chain = _chain_of(nic, tag)
    nic.tags[entry] = tag
    nic.links[entry].next = nic.chains[chain]
    nic.chains[chain] = entry + 1
    _append(nic, row, entry)
    return entry


@step
def _free_entry(nic, row):
    """An unused entry of set ``row``, or -1; ``ends`` of a set count what it handed out."""
    ends = nic.ends[row]
    if ends.free:
        entry = np.int64(ends.free) - 1
        ends.free = nic.links[entry].next
        return entry
    if ends.filled < nic.config[0].ways:
        ends.filled += 1
        return row * nic.config[0].ways + np.int64(ends.filled) - 1
    return np.int64(-1)


@step
def linked_drop(nic, row, tag):
    """Remove ``tag`` from set ``row``; whether it was there."""
    entry = linked_find(nic, tag)
    if entry == MISS:
        return False
    _leave_chain(nic, entry)
    _unlink(nic, row, entry)
    nic.tags[entry] = EMPTY
    nic.links[entry].next = nic.ends[row].free
    nic.ends[row].free = entry + 1
    return True
