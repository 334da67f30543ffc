"""The book that a driver keeps beside the firmware: counts, and why a lookup missed.

None of this is in the NIC or its host; it is the observer's.  Keys are the dense numbers under
which the scheme's cache knows its entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.translation.counts import COUNTS
from nicscope.jit import records, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEN = 1  # the key was looked up before
INVALIDATED = 2  # its entry last left the NIC because its page was unpinned
SHADOWED = 4  # it is in the shadow cache

# The observer's orders, and the settings of the design that no NIC or pin list needs to know.
ORDERS = np.dtype(
    [
        ("kinds", "b1"),  # tell capacity from conflict misses
        ("kinds_known", "b1"),  # that was asked for, or there is no cache to tell it of
        ("shadow_capacity", "i8"),  # keys
        ("shadow_count", "i8"),
        ("offset_step", "i8"),  # index offset between processes; 0: none
        ("prefetch", "i8"),  # entries fetched per miss
        ("prepin", "i8"),  # pages pinned per run, at least
        ("last_page", "i8"),  # of the address space
        ("area_pages", "i8"),
        ("area_bytes", "i8"),
        ("high_water", "i8"),  # pinned pages per node; -1: none
        ("scanned", "i8"),  # 1: the driver looks for surplus pins by itself, from time to time
        ("line_bits", "i8"),
        ("cached", "b1"),  # there is a cache on the NIC
        ("scheme", "i8"),  # its code
        ("processes", "i8"),  # of the node
    ],
    align=True,
)
SHADOW = np.dtype([("older", "i4"), ("newer", "i4")], align=True)


class Book(NamedTuple):
    """One node's account of one design."""

    orders: NDArray[Any]  # ORDERS, shape (1,)
    counts: NDArray[Any]  # COUNTS, shape (1,)
    past: NDArray[np.uint8]  # shape (keys,): SEEN, INVALIDATED, SHADOWED
    shadow: NDArray[Any]  # SHADOW, shape (keys + 1,): key k is at k + 1, 0 joins both ends


def new_book(kinds: bool, shadow_capacity: int) -> Book:
    """An empty book; its caller fills in the rest of the orders."""
    orders = records(1, ORDERS)
    orders[0]["kinds"] = kinds
    orders[0]["shadow_capacity"] = shadow_capacity
    return Book(orders, records(1, COUNTS), np.zeros(0, np.uint8), records(1, SHADOW))


def grown_book(book: Book, keys: int) -> Book:
    """The same book with room for ``keys`` keys."""
    if len(book.past) >= keys:
        return book
    past = np.zeros(keys, np.uint8)
    past[: len(book.past)] = book.past
    if not book.orders[0]["kinds"]:
        return book._replace(past=past)
    shadow = records(keys + 1, SHADOW)
    shadow[: len(book.shadow)] = book.shadow
    return book._replace(past=past, shadow=shadow)


@step
def shadow_lookup(book, key):
    """Whether a fully associative LRU cache of the same size has ``key``; notes the lookup."""
    shadow = book.shadow
    here = key + 1
    ends = shadow[0]
    if ends.older == here:
        return True
    present = book.past[key] & SHADOWED != 0
    if present:
        _bridge(shadow, here)
    elif book.orders[0].shadow_count < book.orders[0].shadow_capacity:
        book.orders[0].shadow_count += 1
        book.past[key] |= SHADOWED
    else:
        oldest = np.int64(ends.newer)
        book.past[oldest - 1] &= 0xFF ^ SHADOWED
        book.past[key] |= SHADOWED
        _bridge(shadow, oldest)
    newest = np.int64(ends.older)
    shadow[newest].newer = here
    shadow[here].older = newest
    shadow[here].newer = 0
    ends.older = here
    return present


@step
def _bridge(shadow, place):
    older = np.int64(shadow[place].older)
    newer = np.int64(shadow[place].newer)
    shadow[older].newer = newer
    shadow[newer].older = older


@step
def note_request(book, pages, receive):
    """Count a request for ``pages`` pages; ``receive`` is 1 on the receive path, else 0."""
    counts = book.counts[0]
    counts.requests += 1
    counts.lookups += pages
    counts.lookups_receive += pages * receive
    counts.lookups_send += pages * (1 - receive)


@step
def note_lookup(book, receive):
    """Count one page that a NIC looks up; ``receive`` as above."""
    counts = book.counts[0]
    counts.lookups += 1
    counts.lookups_receive += receive
    counts.lookups_send += 1 - receive


@step
def note_hit(book, key):
    """Note a lookup that found its entry."""
    if book.orders[0].kinds:
        shadow_lookup(book, key)
    if book.orders[0].prefetch > 1:  # otherwise an entry is there only if it was looked up before
        book.past[key] |= SEEN


@step
def note_miss(book, key, receive):
    """Count a lookup that did not find its entry, by path and by kind."""
    counts = book.counts[0]
    counts.ni_misses += 1
    counts.ni_misses_receive += receive
    shadowed = book.orders[0].kinds and shadow_lookup(book, key)
    past = book.past[key]
    if past & SEEN == 0:
        counts.ni_misses_compulsory += 1
        counts.ni_misses_receive_compulsory += receive
        book.past[key] |= SEEN
    elif past & INVALIDATED:
        counts.ni_misses_invalidated += 1
    elif shadowed:
        counts.ni_misses_conflict += 1
    else:
        counts.ni_misses_capacity += 1


@step
def note_outcome(book, key, receive, missed):
    """As ``note_hit`` or, if ``missed`` is 1, ``note_miss``, without branching on which.

    For schemes under which nothing is ever invalidated or prefetched.
    """
    counts = book.counts[0]
    past = book.past[key]
    book.past[key] = past | SEEN
    compulsory = missed & ~np.int64(past) & SEEN
    counts.ni_misses += missed
    counts.ni_misses_receive += missed & receive
    counts.ni_misses_compulsory += compulsory
    counts.ni_misses_receive_compulsory += compulsory & receive
    if book.orders[0].kinds:
        shadowed = np.int64(shadow_lookup(book, key))
        counts.ni_misses_conflict += missed & shadowed
        counts.ni_misses_capacity += missed & (1 - shadowed) & (1 - compulsory)


@step
def note_eviction(book, key):
    """The entry of ``key`` left the NIC for want of room."""
    book.past[key] &= 0xFF ^ INVALIDATED


@step
def note_invalidation(book, key):
    """The entry of ``key`` left the NIC because its page is unpinned."""
    book.past[key] |= INVALIDATED


@step
def note_pins(book, pages):
    """Count ``pages`` pages pinned."""
    counts = book.counts[0]
    counts.pins += pages
    counts.pinned_pages += pages
    counts.peak_pinned_pages = max(counts.peak_pinned_pages, counts.pinned_pages)


@step
def note_unpin(book):
    """Count a page unpinned."""
    book.counts[0].unpins += 1
    book.counts[0].pinned_pages -= 1
