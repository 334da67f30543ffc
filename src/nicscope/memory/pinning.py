"""Which pages each process has pinned, and which of them it would give up first.

Pages are the dense numbers of ``memory.numbering``.  Without a limit only the fact is kept.  With
one, a process's pages lie in a ring in order of use, the least recent first.  LFU and MFU have a
ring for each count of uses, in buckets that are ordered by it.  RANDOM keeps a plain list instead.
Every operation takes constant time, but for stepping over the pages of the request.

Invariant: a page is in a ring, or in the list, exactly while it is pinned; a bucket is never empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import longer, records
from nicscope.memory.numbering import unit_of
from nicscope.memory.replacement import Replacement
from nicscope.memory_limit import outgrown

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
# Neighbours in a ring: after its newest page and before its oldest comes the ring's own link, which
# follow those of all pages.
LINK = np.dtype([("bucket", "i4"), ("older", "i4"), ("newer", "i4")], align=True)
BUCKET = np.dtype([("uses", "i8"), ("fewer", "i4"), ("more", "i4")], align=True)


class Pinning(NamedTuple):
    """The pinned pages of one node.  Arrays that a policy does not use have length 0."""

    rules: NDArray[Any]  # RULES, shape (1,)
    state: NDArray[np.uint8]  # shape (pages,): PINNED, EVER_PINNED
    processes: NDArray[Any]  # PROCESS, shape (processes,)
    links: NDArray[Any]  # LINK, shape (pages + rings,), one ring a process or a bucket
    buckets: NDArray[Any]  # BUCKET, shape (rings,), of LFU and MFU
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
        records(0, LINK),
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
    # A page changes buckets by way of a new one, so there may be one more than pages.
    rings = (pages + 1 if by_use else processes) if linked else 0
    grown = pinning._replace(
        state=outgrown(pinning.state, pages),
        processes=longer(pinning.processes, processes),
        buckets=longer(pinning.buckets, rings if by_use else 0),
        places=longer(pinning.places, pages if drawn else 0),
    )
    if linked:
        most = max(rings, len(pinning.links) - len(pinning.state))
        grown = grown._replace(links=_grown_links(pinning, len(grown.state), most))
    if drawn:
        width = min(int(rules["limit"]), pages)
        members = np.zeros((len(grown.processes), max(width, pinning.members.shape[1])), np.int32)
        members[:known, : pinning.members.shape[1]] = pinning.members
        grown = grown._replace(members=members)
    grown.processes["fewest"][known:] = NOBODY
    grown.processes["most"][known:] = NOBODY
    return grown


def _grown_links(pinning: Pinning, pages: int, rings: int) -> NDArray[Any]:
    """The same rings, and further ones of no page, behind the links of ``pages`` pages."""
    known, further = len(pinning.state), pages - len(pinning.state)
    links = records(pages + rings, LINK)
    moved = pinning.links.copy()
    for name in ("older", "newer"):
        moved[name][moved[name] >= known] += further
        links[name][pages:] = np.arange(pages, pages + rings)
    links[:known] = moved[:known]
    links[pages : pages + len(moved) - known] = moved[known:]
    return links


@step
def pin(pinning, process, page, uses):
    """Pin ``page``, which is not pinned, as the most recent; it counts as used ``uses`` times."""
    pinning.state[page] |= PINNED | EVER_PINNED
    rules = pinning.rules[0]
    if rules.ordered:
        if rules.policy == Replacement.RANDOM:
            pinning.members[process, pinning.processes[process].pinned] = page
            pinning.places[page] = pinning.processes[process].pinned
        elif rules.policy >= Replacement.LFU:
            _enter(pinning, _bucket_for(pinning, process, uses), page)
        else:
            _append(pinning.links, _ring_of(pinning, process), page)
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
    elif rules.policy >= Replacement.LFU:
        _leave(pinning, process, page)
    else:
        _unlink(pinning.links, page)


@step
def use(pinning, process, page):
    """Note a use of ``page``, which is pinned: it becomes the most recent."""
    policy = pinning.rules[0].policy
    if policy == Replacement.RANDOM:
        return
    if policy >= Replacement.LFU:
        target = _bucket_after(pinning, process, np.int64(pinning.links[page].bucket))
        _leave(pinning, process, page)
        _enter(pinning, target, page)
    else:
        _unlink(pinning.links, page)
        _append(pinning.links, _ring_of(pinning, process), page)


@step
def use_or_exchange(pinning, process, page, policy):
    """Use ``page``, or pin it, used once, in place of the one that ``policy`` has to go first.

    For a process that has pinned as many as it may, and a request for ``page`` alone; no transfer
    holds any.  Returns the page that went plus 1, or 0: ``page`` was pinned.  A loop over many
    requests that writes ``policy`` down as a constant has no more than that in it.
    """
    state = pinning.state
    is_pinned = state[page] & PINNED != 0
    if policy == Replacement.LFU or policy == Replacement.MFU:
        if is_pinned:
            use(pinning, process, page)
            return np.int64(0)
        owner = pinning.processes[process]
        bucket = np.int64(owner.most if policy == Replacement.MFU else owner.fewest)
        goes = np.int64(pinning.links[_ring_of(pinning, bucket)].newer)
        _leave(pinning, process, goes)
        _enter(pinning, _bucket_for(pinning, process, 1), page)
    elif policy == Replacement.RANDOM:
        if is_pinned:
            return np.int64(0)
        last = pinning.processes[process].pinned - 1
        drawn = _draw(pinning, last + 1)
        members, places = pinning.members, pinning.places
        goes = np.int64(members[process, drawn])
        members[process, drawn] = members[process, last]
        places[members[process, last]] = drawn
        members[process, last] = page
        places[page] = last
    else:
        # Which it is cannot be foreseen: what is done is the same.
        ring = _ring_of(pinning, process)
        link = pinning.links[ring]
        goes = np.int64(link.older if policy == Replacement.MRU else link.newer)
        goes = np.int64(page) if is_pinned else goes
        _unlink(pinning.links, goes)
        _append(pinning.links, ring, page)
    state[goes] &= 0xFF ^ PINNED
    state[page] |= PINNED | EVER_PINNED
    return (goes + 1) * np.int64(not is_pinned)


@step
def victim_of(pinning, numbering, process, first, last):
    """The page of ``process`` to unpin next, outside the request for units ``first..last``.

    Never one that is held.  The caller knows that there is one: else ``NOBODY``, and RANDOM would
    draw for ever.
    """
    policy = pinning.rules[0].policy
    if policy == Replacement.RANDOM:
        return _drawn_victim(pinning, numbering, process, first, last)
    if policy < Replacement.LFU:
        ring = _ring_of(pinning, process)
        return _first_to_go(pinning, numbering, ring, first, last)
    owner = pinning.processes[process]
    bucket = np.int64(owner.most if policy == Replacement.MFU else owner.fewest)
    while bucket != NOBODY:
        page = _first_to_go(pinning, numbering, _ring_of(pinning, bucket), first, last)
        if page != NOBODY:
            return page
        record = pinning.buckets[bucket]
        bucket = np.int64(record.fewer if policy == Replacement.MFU else record.more)
    return np.int64(NOBODY)


@step
def _first_to_go(pinning, numbering, ring, first, last):
    """The first page of ``ring`` that may go, from its newest on for MRU; or ``NOBODY``."""
    newest_first = pinning.rules[0].policy == Replacement.MRU
    page = ring
    while True:
        link = pinning.links[page]
        page = np.int64(link.older if newest_first else link.newer)
        if page == ring:
            return np.int64(NOBODY)
        if _may_go(pinning, numbering, page, first, last):
            return page


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
    if pinning.rules[0].policy < Replacement.LFU:
        ring = _ring_of(pinning, process)
        return _count_to_go(pinning, numbering, ring, first, last, wanted) >= wanted
    bucket = np.int64(owner.fewest)
    while bucket != NOBODY and found < wanted:
        ring = _ring_of(pinning, bucket)
        found += _count_to_go(pinning, numbering, ring, first, last, wanted - found)
        bucket = np.int64(pinning.buckets[bucket].more)
    return found >= wanted


@step
def _count_to_go(pinning, numbering, ring, first, last, wanted):
    """How many pages of ``ring`` may go; counted up to ``wanted``."""
    found = 0
    page = np.int64(pinning.links[ring].newer)
    while page != ring and found < wanted:
        found += _may_go(pinning, numbering, page, first, last)
        page = np.int64(pinning.links[page].newer)
    return found


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
def _ring_of(pinning, ring):
    """The link at which the ring of a process, or of a bucket, begins and ends."""
    return pinning.state.size + ring


@step
def _append(links, ring, page):
    """Make ``page`` the most recent of ``ring``."""
    newest = np.int64(links[ring].older)
    links[newest].newer = page
    links[page].older = newest
    links[page].newer = ring
    links[ring].older = page


@step
def _unlink(links, page):
    """Take ``page`` out of its ring."""
    older, newer = np.int64(links[page].older), np.int64(links[page].newer)
    links[older].newer = newer
    links[newer].older = older


@step
def _enter(pinning, bucket, page):
    """Append ``page`` to ``bucket`` as its most recent."""
    pinning.links[page].bucket = bucket
    _append(pinning.links, _ring_of(pinning, bucket), page)


@step
def _leave(pinning, process, page):
    """Take ``page`` out of its bucket, and the bucket away if that empties it."""
    bucket = np.int64(pinning.links[page].bucket)
    _unlink(pinning.links, page)
    ring = _ring_of(pinning, bucket)
    if pinning.links[ring].older == ring:
        _remove_bucket(pinning, process, bucket)


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
