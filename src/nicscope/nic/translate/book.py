"""The book that a driver keeps beside the firmware: counts, and why a lookup missed.

None of this is in the NIC or its host; it is the observer's.  Keys are the dense numbers under
which the scheme's cache knows its entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.nic.recency import (
    Recency,
    grown_recency,
    keep_uses,
    new_recency,
    renew_held,
    uses_of,
)
from nicscope.nic.translate.counts import COUNTS
from nicscope.room import outgrown

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEN = 1  # the key was looked up before
INVALIDATED = 2  # its entry is not on the NIC, which it left because its page was unpinned
# How a lookup ended: ``MISSED`` if so, and then ``INVALIDATED`` if that was so; or it was not done.
MISSED = 1
NOT_DONE = 4

# The observer's orders, and the settings of the design that no NIC or pin list needs to know.
ORDERS = np.dtype(
    [
        ("kinds", "b1"),  # tell capacity from conflict misses
        ("kinds_known", "b1"),  # that was asked for, or there is no cache to tell it of
        ("offset_step", "i8"),  # index offset between processes; 0: none
        ("prefetch", "i8"),  # entries fetched per miss
        ("prepin", "i8"),  # pages pinned per run, at least
        ("last_page", "i8"),  # of the address space
        ("area_pages", "i8"),
        ("area_bytes", "i8"),
        ("most_valid", "i8"),  # entries of the cache, by order of the kernel; 0: all
        ("high_water", "i8"),  # pinned pages per node; -1: none
        ("scanned", "i8"),  # 1: the driver looks for surplus pins by itself, from time to time
        ("line_bits", "i8"),
        ("cached", "b1"),  # there is a cache on the NIC
        ("scheme", "i8"),  # its code
        ("processes", "i8"),  # of the node
        ("in_kernel", "b1"),  # the host's kernel keeps the translations: a miss interrupts nobody
    ],
    align=True,
)


class Book(NamedTuple):
    """One node's account of one design."""

    orders: NDArray[Any]  # ORDERS, shape (1,)
    counts: NDArray[Any]  # COUNTS, shape (1,)
    past: NDArray[np.uint8]  # shape (keys,): SEEN, INVALIDATED
    shadow: Recency  # a fully associative LRU cache of the same size


def new_book(kinds: bool, shadow_capacity: int) -> Book:
    """An empty book; its caller fills in the rest of the orders."""
    orders = records(1, ORDERS)
    orders[0]["kinds"] = kinds
    shadow = new_recency(shadow_capacity)
    return Book(orders, records(1, COUNTS), np.zeros(0, np.uint8), shadow)


def grown_book(book: Book, keys: int) -> Book:
    """The same book with room for ``keys`` keys; nobody may use ``book`` any more."""
    if len(book.past) >= keys:
        return book
    past = outgrown(book.past, keys)
    if not book.orders[0]["kinds"]:
        return book._replace(past=past)
    return book._replace(past=past, shadow=grown_recency(book.shadow, keys))


@step
def shadow_lookup(book, key):
    """1 if a fully associative LRU cache of the same size has ``key``; notes the lookup."""
    shadow = book.shadow
    now, oldest, word, left = uses_of(shadow)
    present, _, now, oldest, word, left = renew_held(shadow, key, now, oldest, word, left)
    keep_uses(shadow, now, oldest, left)
    return present


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
    book.past[key] |= SEEN
    if book.orders[0].kinds:
        shadow_lookup(book, key)


@step
def note_miss(book, key, receive):
    """Count a lookup that did not find its entry, by path and by kind."""
    past = np.int64(book.past[key])
    book.past[key] = past | SEEN
    first = np.int64(past & SEEN == 0)
    invalidated = np.int64(past & INVALIDATED != 0) & (1 - first)
    conflict = np.int64(0)
    if book.orders[0].kinds:
        conflict = shadow_lookup(book, key) & (1 - invalidated)
    add_misses(book, 1, receive, first, first * receive, invalidated, conflict)


@step
def add_misses(book, misses, received, compulsory, compulsory_received, invalidated, conflict):
    """Count so many misses; those that are of no other kind are for want of capacity."""
    counts = book.counts[0]
    counts.ni_misses += misses
    counts.ni_misses_receive += received
    counts.ni_misses_compulsory += compulsory
    counts.ni_misses_receive_compulsory += compulsory_received
    counts.ni_misses_invalidated += invalidated
    counts.ni_misses_conflict += conflict
    counts.ni_misses_capacity += misses - compulsory - invalidated - conflict


@step
def note_fill(book, key):
    """The entry of ``key`` came to the NIC: it is for want of room that it leaves, or noted."""
    book.past[key] &= 0xFF ^ INVALIDATED


@step
def note_invalidation(book, key):
    """The entry of ``key`` left the NIC because its page is unpinned."""
    book.past[key] |= INVALIDATED


@step
def note_interrupts(book, misses):
    """Count the interrupts of so many misses: none where the kernel itself translates."""
    if not book.orders[0].in_kernel:
        book.counts[0].interrupts += misses


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
