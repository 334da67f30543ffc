"""Which pages each process has pinned, and which of them it would give up first.

Pages are the dense numbers of ``memory.numbering``.  Without a limit only the fact is kept.  With
one, a process's pages lie in buckets of equal use count, ordered by use count; within a bucket
the least recently used comes first.  LRU and MRU keep a single bucket.  RANDOM keeps a plain list
instead.  Every operation takes constant time, but for stepping over the pages of the request.

Invariant: a bucket holds at least one page; a page is in a bucket exactly while it is pinned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import longer, records
from nicscope.memory.numbering import unit_of
from nicscope.memory.replacement import Replacement
from nicscope.room import outgrown

if TYPE_CHECKING:
    from numpy.typing import NDArray

PINNED = 1
EVER_PINNED = 2  # kept when the page is unpinned
NOBODY = -1

RULES = np.dtype(
    [
        ("limit", "i8"),  # pages per process; 0: none
        ("policy", "i8"),  # Replacement
        ("ordered", "b1"),  # a limit is set: order of use is kept
        ("free_bucket", "i8"),  # the first of a chain of given-back buckets, or NOBODY
        ("buckets", "i8"),  # buckets taken so far
        ("random", "u8"),  # state of the generator
    ],
    align=True,
)
PROCESS = np.dtype([("pinned", "i8"), ("fewest", "i4"), ("most", "i4")], align=True)
PAGE_LINK = np.dtype([("bucket", "i4"), ("older", "i4"), ("newer", "i4")], align=True)
BUCKET = np.dtype(
    [("uses", "i8"), ("fewer", "i4"), ("more", "i4"), ("oldest", "i4"), ("newest", "i4")],
    align=True,
)


class Pinning(NamedTuple):
    """The pinned pages of one node.  Arrays that a policy does not use have length 0."""

    rules: NDArray[Any]  # RULES, shape (1,)
    state: NDArray[np.uint8]  # shape (pages,): PINNED, EVER_PINNED
    processes: NDArray[Any]  # PROCESS, shape (processes,)
    links: NDArray[Any]  # PAGE_LINK, shape (pages,)
    buckets: NDArray[Any]  # BUCKET
    members: NDArray[np.int32]  # shape (processes, pages of a process): RANDOM's lists
    places: NDArray[np.int32]  # shape (pages,): where a page is in its list
    # shape (pages,): how many outstanding transfers need the page, which is not to be unpinned
    # then (UTLB 3.1).  None where one request ends before the next: by its type, kernels are
    # compiled without asking.
    held: NDArray[np.int32] | None


def new_pinning(limit: int | None, policy: Replacement, seed: int) -> Pinning:
    """Nothing pinned, no page or process known yet; see ``grown_pinning``."""
    rules = records(1, RULES)
    rules[0]["limit"] = limit or 0
    rules[0]["policy"] = int(policy)
    rules[0]["ordered"] = limit is not None
    rules[0]["free_bucket"] = NOBODY
    rules[0]["random"] = _first_state(seed)
    return Pinning(
        rules,
        np.zeros(0, np.uint8),
        records(0, PROCESS),
        records(0, PAGE_LINK),
        records(0, BUCKET),
        np.zeros((0, 0), np.int32),
        np.zeros(0, np.int32),
        None,
    )


def _first_state(seed: int) -> int:
    """A generator state with all bits mixed, never 0 (SplitMix64's first output).

    Started from a small number itself, the generator's first draws would all be alike.
    """
    every = 2**64 - 1
    mixed = (seed + 0x9E3779B97F4A7C15) & every
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & every
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & every
    return (mixed ^ (mixed >> 31)) or 1  # xorshift never leaves 0


def grown_pinning(pinning: Pinning, pages: int, processes: int) -> Pinning:
    """The same pins with room for ``pages`` page numbers and ``processes`` processes."""
    rules = pinning.rules[0]
    drawn = bool(rules["ordered"]) and rules["policy"] == Replacement.RANDOM
    linked = bool(rules["ordered"]) and not drawn
    by_use = rules["policy"] in (Replacement.LFU, Replacement.MFU)
    known = len(pinning.processes)
    grown = pinning._replace(
        state=outgrown(pinning.state, pages),
        processes=longer(pinning.processes, processes),
        links=longer(pinning.links, pages if linked else 0),
        # A page changes buckets by way of a new one, so there may be one more than pages.
        buckets=longer(pinning.buckets, (pages if by_use else processes) + 1 if linked else 0),
        places=longer(pinning.places, pages if drawn else 0),
    )
    if drawn:
        width = min(int(rules["limit"]), pages)
        members = np.zeros((len(grown.processes), max(width, pinning.members.shape[1])), np.int32)
        members[:known, : pinning.members.shape[1]] = pinning.members
        grown = grown._replace(members=members)
    grown.processes["fewest"][known:] = NOBODY
    grown.processes["most"][known:] = NOBODY
    return grown


@step
def pin(pinning, process, page, uses):
    """Pin ``page``, which is not pinned, as the most recent; it counts as used ``uses`` times."""
    pinning.state[page] |= PINNED | EVER_PINNED
    rules = pinning.rules[0]
    if rules.ordered:
        if rules.policy == Replacement.RANDOM:
            pinning.members[process, pinning.processes[process].pinned] = page
            pinning.places[page] = pinning.processes[process].pinned
        else:
            counted = uses if rules.policy >= Replacement.LFU else 0
            _enter(pinning, _bucket_for(pinning, process, counted), page)
    pinning.processes[process].pinned += 1


@step
def unpin(pinning, process, page):
    """Unpin ``page``, which is pinned."""
    pinning.state[page] &= 0xFF ^ PINNED
    pinning.processes[process].pinned -= 1
    rules = pinning.rules[0]
    if not rules.ordered:
        return
    if rules.policy == Replacement.RANDOM:
        last = pinning.members[process, pinning.processes[process].pinned]
        pinning.members[process, pinning.places[page]] = last
        pinning.places[last] = pinning.places[page]
    else:
        _leave(pinning, process, page)


@step
def use(pinning, process, page):
    """Note a use of ``page``, which is pinned: it becomes the most recent."""
    policy = pinning.rules[0].policy
    if policy == Replacement.RANDOM:
        return
    bucket = np.int64(pinning.links[page].bucket)
    if policy >= Replacement.LFU:
        target = _bucket_after(pinning, process, bucket)
        _leave(pinning, process, page)
        _enter(pinning, target, page)
    elif pinning.buckets[bucket].newest != page:
        _leave(pinning, process, page)
        _enter(pinning, bucket, page)


@step
def victim_of(pinning, numbering, process, first, last):
    """The page of ``process`` to unpin next, outside the request for units ``first..last``.

    Never one that is held.  The caller knows that there is one: else ``NOBODY``, and RANDOM would
    draw for ever.
    """
    policy = pinning.rules[0].policy
    if policy == Replacement.RANDOM:
        return _drawn_victim(pinning, numbering, process, first, last)
    owner = pinning.processes[process]
    bucket = np.int64(owner.most if policy == Replacement.MFU else owner.fewest)
    while bucket != NOBODY:
        newest_first = policy == Replacement.MRU
        page = pinning.buckets[bucket].newest if newest_first else pinning.buckets[bucket].oldest
        while page != NOBODY:
            if _may_go(pinning, numbering, page, first, last):
                return np.int64(page)
            page = pinning.links[page].older if newest_first else pinning.links[page].newer
        record = pinning.buckets[bucket]
        bucket = np.int64(record.fewer if policy == Replacement.MFU else record.more)
    return np.int64(NOBODY)


@step
def _drawn_victim(pinning, numbering, process, first, last):
    while True:
        drawn = _draw(pinning, pinning.processes[process].pinned)
        page = np.int64(pinning.members[process, drawn])
        if _may_go(pinning, numbering, page, first, last):
            return page


@step
def _may_go(pinning, numbering, page, first, last):
    unit = unit_of(numbering, page)
    return (unit < first or unit > last) and not is_held(pinning.held, page)


@step
def is_held(held, page):
    """Whether an outstanding transfer needs ``page``."""
    if held is None:
        return False
    return held[page] != 0


@step
def can_give_up(pinning, numbering, process, first, last, wanted):
    """Whether ``wanted`` pages of ``process`` may be unpinned, outside units ``first..last``."""
    owner = pinning.processes[process]
    found = 0
    if pinning.rules[0].policy == Replacement.RANDOM:
        for place in range(owner.pinned):
            page = np.int64(pinning.members[process, place])
            found += _may_go(pinning, numbering, page, first, last)
        return found >= wanted
    bucket = np.int64(owner.fewest)
    while bucket != NOBODY and found < wanted:
        page = np.int64(pinning.buckets[bucket].oldest)
        while page != NOBODY and found < wanted:
            found += _may_go(pinning, numbering, page, first, last)
            page = np.int64(pinning.links[page].newer)
        bucket = np.int64(pinning.buckets[bucket].more)
    return found >= wanted


@step
def _draw(pinning, choices):
    """A number below ``choices`` (Marsaglia's xorshift, 64 bits, shifts 13, 7 and 17)."""
    rules = pinning.rules[0]
    state = rules.random
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    rules.random = state
    return np.int64((state >> np.uint64(33)) % np.uint64(choices))


@step
def _enter(pinning, bucket, page):
    """Append ``page`` to ``bucket`` as its most recent."""
    record = pinning.buckets[bucket]
    link = pinning.links[page]
    link.bucket = bucket
    link.newer = NOBODY
    link.older = record.newest
    if record.newest == NOBODY:
        record.oldest = page
    else:
        pinning.links[record.newest].newer = page
    record.newest = page


@step
def _leave(pinning, process, page):
    """Take ``page`` out of its bucket, and the bucket away if that empties it."""
    link = pinning.links[page]
    bucket = pinning.buckets[link.bucket]
    if link.older == NOBODY:
        bucket.oldest = link.newer
    else:
        pinning.links[link.older].newer = link.newer
    if link.newer == NOBODY:
        bucket.newest = link.older
    else:
        pinning.links[link.newer].older = link.older
    if bucket.newest == NOBODY:
        _remove_bucket(pinning, process, np.int64(link.bucket))


@step
def _bucket_for(pinning, process, uses):
    """The bucket of ``process`` for pages used ``uses`` times, made if there is none."""
    before = np.int64(NOBODY)
    bucket = np.int64(pinning.processes[process].fewest)
    while bucket != NOBODY and pinning.buckets[bucket].uses < uses:
        before = bucket
        bucket = np.int64(pinning.buckets[bucket].more)
    if bucket != NOBODY and pinning.buckets[bucket].uses == uses:
        return bucket
    return _insert_bucket(pinning, process, before, uses)


@step
def _bucket_after(pinning, process, bucket):
    """The bucket for one use more than ``bucket``, made if there is none."""
    uses = pinning.buckets[bucket].uses + 1
    after = np.int64(pinning.buckets[bucket].more)
    if after != NOBODY and pinning.buckets[after].uses == uses:
        return after
    return _insert_bucket(pinning, process, bucket, uses)


@step
def _insert_bucket(pinning, process, before, uses):
    """A new, empty bucket right after ``before``, or as the first if that is NOBODY."""
    rules = pinning.rules[0]
    owner = pinning.processes[process]
    bucket = rules.free_bucket
    if bucket == NOBODY:
        bucket = rules.buckets
        rules.buckets += 1
    else:
        rules.free_bucket = pinning.buckets[bucket].more
    record = pinning.buckets[bucket]
    record.uses = uses
    record.oldest = NOBODY
    record.newest = NOBODY
    record.fewer = before
    record.more = owner.fewest if before == NOBODY else pinning.buckets[before].more
    if before == NOBODY:
        owner.fewest = bucket
    else:
        pinning.buckets[before].more = bucket
    if record.more == NOBODY:
        owner.most = bucket
    else:
        pinning.buckets[record.more].fewer = bucket
    return bucket


@step
def _remove_bucket(pinning, process, bucket):
    record = pinning.buckets[bucket]
    owner = pinning.processes[process]
    if record.fewer == NOBODY:
        owner.fewest = record.more
    else:
        pinning.buckets[record.fewer].more = record.more
    if record.more == NOBODY:
        owner.most = record.fewer
    else:
        pinning.buckets[record.more].fewer = record.fewer
    record.more = pinning.rules[0].free_bucket
    pinning.rules[0].free_bucket = bucket
