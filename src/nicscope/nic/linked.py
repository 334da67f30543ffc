"""Sets too wide to search: entries found through a hash index, links in order of use.

The firmware's answer to associativity beyond what a software search can pay for, up to a fully
associative cache.  Invariant: an entry is in exactly one chain of the index and in the order of
exactly one set, or on the free list.  Entry numbers are stored plus 1, so 0 means none.
"""

from __future__ import annotations

import numpy as np

from nicscope.jit import kernel, wrapped_product
from nicscope.nic.layout import EMPTY, IN_USE

MISS = -1
REFUSED = -1


@kernel
def _chain_of(nic, tag):  # type: ignore[no-untyped-def]
    mixed = wrapped_product(np.uint64(tag), np.uint64(0x9E3779B97F4A7C15))
    return np.int64(mixed >> np.uint64(40)) & (nic.index.size - 1)


@kernel
def linked_find(nic, tag):  # type: ignore[no-untyped-def]
    """Entry that holds ``tag``, or ``MISS``."""
    entry = np.int64(nic.index[_chain_of(nic, tag)]) - 1
    while entry >= 0 and nic.tags[entry] != tag:
        entry = np.int64(nic.links[entry].next) - 1
    return entry


@kernel
def _unlink(nic, row, entry):  # type: ignore[no-untyped-def]
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


@kernel
def _append(nic, row, entry):  # type: ignore[no-untyped-def]
    ends = nic.ends[row]
    nic.links[entry].older = ends.newest
    nic.links[entry].newer = 0
    if ends.newest:
        nic.links[np.int64(ends.newest) - 1].newer = entry + 1
    else:
        ends.oldest = entry + 1
    ends.newest = entry + 1


@kernel
def linked_renew(nic, row, entry):  # type: ignore[no-untyped-def]
    """Make ``entry`` the most recent of set ``row``."""
    if np.int64(nic.ends[row].newest) != entry + 1:
        _unlink(nic, row, entry)
        _append(nic, row, entry)


@kernel
def _leave_chain(nic, entry):  # type: ignore[no-untyped-def]
    chain = _chain_of(nic, nic.tags[entry])
    if np.int64(nic.index[chain]) == entry + 1:
        nic.index[chain] = nic.links[entry].next
        return
    before = np.int64(nic.index[chain]) - 1
    while np.int64(nic.links[before].next) != entry + 1:
        before = np.int64(nic.links[before].next) - 1
    nic.links[before].next = nic.links[entry].next


@kernel
def linked_fill(nic, row, tag):  # type: ignore[no-untyped-def]
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
    nic.links[entry].next = nic.index[chain]
    nic.index[chain] = entry + 1
    _append(nic, row, entry)
    return entry


@kernel
def _free_entry(nic, row):  # type: ignore[no-untyped-def]
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


@kernel
def linked_drop(nic, row, tag):  # type: ignore[no-untyped-def]
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
