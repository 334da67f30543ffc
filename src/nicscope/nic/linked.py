"""Sets too wide to search: entries found through a hash index, links in order of use.

The firmware's answer to associativity beyond what a software search can pay for, up to a fully
associative cache.  Invariant: an entry is in at most one chain of the index, and in the ring of its
set or in one of its own.  Entry numbers in chains are stored plus 1, so 0 means none.
"""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.layout import EMPTY, IN_USE

MISS = -1
REFUSED = -1


@step
def _chain_of(nic, tag):
    """Tags are dense, so their low bits spread them evenly."""
    return np.int64(tag) & (nic.chains.size - 1)


@step
def linked_find(nic, tag):
    """Entry that holds ``tag``, or ``MISS``."""
    entry = np.int64(nic.chains[_chain_of(nic, tag)]) - 1
    while entry >= 0 and nic.tags[entry] != tag:
        entry = np.int64(nic.nexts[entry]) - 1
    return entry


@step
def linked_renew(nic, row, tag):
    """``tag`` becomes the most recent of set ``row``, in place of the least recent if not there.

    No transfer may be using an entry.  Returns 1 if it was not there, and which tag left for it or
    ``EMPTY``.
    """
    entry = linked_find(nic, tag)
    missed = np.int64(0)
    evicted = np.int64(EMPTY)
    if entry == np.int64(nic.links[_ring_of(nic, row)].older):
        return missed, evicted
    if entry == MISS:
        missed = np.int64(1)
        if _has_free(nic, row):
            entry = _take_free(nic, row)
        else:
            entry = np.int64(nic.links[_ring_of(nic, row)].newer)
            evicted = np.int64(nic.tags[entry])
        _retag(nic, entry, tag)
    _append(nic, row, entry)
    return missed, evicted


@step
def linked_fill(nic, row, tag):
    """Put ``tag`` in set ``row`` as its most recent; its entry, or ``REFUSED``; see ``fill``."""
    nic.registers[0].evicted = EMPTY
    if _has_free(nic, row):
        entry = _take_free(nic, row)
    else:
        ring = _ring_of(nic, row)
        entry = np.int64(nic.links[ring].newer)
        while entry != ring and _is_in_use(nic, nic.frames, entry):
            entry = np.int64(nic.links[entry].newer)
        if entry == ring:
            return np.int64(REFUSED)
        nic.registers[0].evicted = nic.tags[entry]
    _retag(nic, entry, tag)
    _append(nic, row, entry)
    return entry


@step
def linked_drop(nic, row, tag):
    """Remove ``tag`` from set ``row``; whether it was there."""
    entry = linked_find(nic, tag)
    if entry == MISS:
        return False
    _leave_chain(nic, entry)
    _leave_ring(nic, entry)
    nic.links[entry].older = entry
    nic.links[entry].newer = entry
    nic.tags[entry] = EMPTY
    nic.nexts[entry] = nic.left[row].dropped
    nic.left[row].dropped = entry + 1
    return True


@step
def _is_in_use(nic, frames, entry):
    if frames is None:
        return False
    return is_used(nic, entry)


@step
def is_used(nic, entry):
    """Whether a transfer uses ``entry``, which must stay."""
    if nic.uses.size > 0:
        return nic.uses[entry] != 0
    return nic.frames[entry] & IN_USE != 0


@step
def _ring_of(nic, row):
    """The link at which the ring of set ``row`` begins and ends."""
    return nic.config[0].sets * nic.config[0].ways + row


@step
def _has_free(nic, row):
    left = nic.left[row]
    return (left.dropped != 0) | (left.filled < nic.config[0].ways)


@step
def _take_free(nic, row):
    """An unused entry of set ``row``: one that was dropped, or the next that was never used."""
    left = nic.left[row]
    if left.dropped:
        entry = np.int64(left.dropped) - 1
        left.dropped = nic.nexts[entry]
        return entry
    left.filled += 1
    return row * nic.config[0].ways + np.int64(left.filled) - 1


@step
def _retag(nic, entry, tag):
    """Give ``entry`` to ``tag``: out of the chain that it is in, if any, and first in another."""
    if nic.tags[entry] != EMPTY:
        _leave_chain(nic, entry)
    chain = _chain_of(nic, tag)
    nic.tags[entry] = tag
    nic.nexts[entry] = nic.chains[chain]
    nic.chains[chain] = entry + 1


@step
def _leave_chain(nic, entry):
    chain = _chain_of(nic, nic.tags[entry])
    if np.int64(nic.chains[chain]) == entry + 1:
        nic.chains[chain] = nic.nexts[entry]
        return
    before = np.int64(nic.chains[chain]) - 1
    while np.int64(nic.nexts[before]) != entry + 1:
        before = np.int64(nic.nexts[before]) - 1
    nic.nexts[before] = nic.nexts[entry]


@step
def _leave_ring(nic, entry):
    older = np.int64(nic.links[entry].older)
    newer = np.int64(nic.links[entry].newer)
    nic.links[older].newer = newer
    nic.links[newer].older = older


@step
def _append(nic, row, entry):
    """Make ``entry`` the most recent of set ``row``, wherever it was."""
    _leave_ring(nic, entry)
    ring = _ring_of(nic, row)
    newest = np.int64(nic.links[ring].older)
    nic.links[newest].newer = entry
    nic.links[entry].older = newest
    nic.links[entry].newer = ring
    nic.links[ring].older = entry
