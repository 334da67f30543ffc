"""Counts of translation, causes of misses, what each step answers, and pages pinned or unpinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.memory.pinning import pin, unpin
from nicscope.memory_limit import outgrown
from nicscope.nic import recency
from nicscope.nic.cache import MISS, hold
from nicscope.nic.layout import IN_USE

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = [
    "ADMITTED",
    "HANDLE",
    "INTERRUPT",
    "MISS",
    "PINNED_AREA",
    "REFUSED",
    "REJECTED",
    "RNIC",
    "STATIC",
    "UNET_MM",
    "UNKNOWN",
    "UTLB",
    "UTLB_PROCESS",
    "UTLB_SHARED",
]

# In place of a frame, which is never negative; ``MISS`` is -1.
REFUSED = -2  # not now: transfers use what would have to go; nothing has changed
REJECTED = -3  # never as things stand: no room in the table, or nobody pinned the page
UNKNOWN = -4  # the page has no number: it is in no address space
ADMITTED = 0

PINNED_AREA = 0
STATIC = 1
INTERRUPT = 2
UNET_MM = 3
HANDLE = 4
RNIC = 5
# The three with a user library come last.
UTLB = 6
UTLB_SHARED = 7
UTLB_PROCESS = 8


# In the order in which people read them; ``docs/counts.md`` says what each one means.
COUNT_NAMES = (
    "requests",
    "lookups",
    "lookups_send",
    "lookups_receive",
    "ni_misses",
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_compulsory",
    "ni_misses_send_compulsory",
    "ni_misses_receive_compulsory",
    "ni_misses_noncompulsory",
    "ni_misses_invalidated",
    "ni_misses_capacity",
    "ni_misses_conflict",
    "check_misses",
    "pins",
    "unpins",
    "pin_calls",
    "unpin_calls",
    "interrupts",
    "entries_fetched",
    "victim_hits",
    "further_ways",
    "dropped",
    "rejected",
    "rejected_unregistered",
    "rejected_rights",
    "rejected_deregistered",
    "bytes_copied",
    "peak_pinned_pages",
    "mtt_l0_hits",
    "mtt_l0_misses",
    "mtt_l1_hits",
    "mtt_l1_misses",
    "mpt_lookups",
    "mpt_l0_hits",
    "mpt_l0_misses",
    "mpt_l1_hits",
    "mpt_l1_misses",
    "indirect_lookups",
    "icm_fetches",
    "regions",
    "mtt_entries",
    "icm_bytes",
    "entries_invalidated",
)
# What ``--no-kinds`` leaves unknown.
KIND_NAMES = ("ni_misses_invalidated", "ni_misses_capacity", "ni_misses_conflict")

# ``pinned_pages`` is what is pinned now; its peak is counted.
COUNTS = np.dtype([(name, "i8") for name in (*COUNT_NAMES, "pinned_pages")], align=True)


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
    shadow: recency.Recency  # a fully associative LRU cache of the same size


def new_book(kinds: bool, shadow_capacity: int) -> Book:
    """An empty book; its caller fills in the remaining orders."""
    orders = records(1, ORDERS)
    orders[0]["kinds"] = kinds
    shadow = recency.new_recency(shadow_capacity)
    return Book(orders, records(1, COUNTS), np.zeros(0, np.uint8), shadow)


def grown_book(book: Book, keys: int) -> Book:
    """The same book with room for ``keys`` keys; nobody may use ``book`` any more."""
    if len(book.past) >= keys:
        return book
    past = outgrown(book.past, keys)
    if not book.orders[0]["kinds"]:
        return book._replace(past=past)
    return book._replace(past=past, shadow=recency.grown_recency(book.shadow, keys))


@step
def shadow_lookup(book, key):
    """1 if a fully associative LRU cache of the same size has ``key``; notes the lookup."""
    shadow = book.shadow
    now, oldest, word, left = recency.uses_of(shadow)
    present, _, now, oldest, word, left = recency.renew_held(shadow, key, now, oldest, word, left)
    recency.keep_uses(shadow, now, oldest, left)
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
    """Note the fill of ``key``: unless an invalidation is noted, it will leave by eviction."""
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
def note_changes(book, pins, unpins, most):
    """Count so many pages pinned and unpinned, at most ``most`` more of them at once."""
    counts = book.counts[0]
    counts.peak_pinned_pages = max(counts.peak_pinned_pages, counts.pinned_pages + most)
    counts.pins += pins
    counts.unpins += unpins
    counts.pinned_pages += pins - unpins


@step
def note_unpin(book):
    """Count a page unpinned."""
    book.counts[0].unpins += 1
    book.counts[0].pinned_pages -= 1


# ``key`` is a page's number: its unit's number, and within a line the place of the page.
PIN = 1
UNPIN = 2
FILL = 3  # ``place`` is the index into ``nic.frames``
DROP = 4  # an entry left the NIC; of a line, ``key`` is the first page


@step
def record_pin_action(host, what, key, place):
    """Record one pin action, if they are recorded at all."""
    _write_record(host.pin_actions, host.pin_action_count, what, key, place)


@step
def _write_record(pin_actions, count, what, key, place):
    if pin_actions is not None and pin_actions.size != 0:
        deed = pin_actions[count[0]]
        deed.what = what
        deed.key = key
        deed.place = place
        count[0] += 1


@step
def clear_pin_actions(host):
    """Clear the recorded pin actions: all have been carried out."""
    host.pin_action_count[0] = 0


@step
def has_room_for_pin_action(pin_actions, count):
    """Whether one more pin action can be recorded, or none need be."""
    if pin_actions is None:
        return True
    return pin_actions.size == 0 or count[0] < pin_actions.size


@step
def pin_page(host, book, process, page, uses):
    """Pin and count one page, used ``uses`` times so far."""
    pin(host.pinning, process, page, uses)
    note_pins(book, 1)
    record_pin_action(host, PIN, page, -1)


@step
def unpin_page(host, book, process, page):
    """Unpin and count one page."""
    unpin(host.pinning, process, page)
    note_unpin(book)
    record_pin_action(host, UNPIN, page, -1)


@step
def fill_frame(nic, host, place, page):
    """Put ``page`` at ``place`` as a stand-in for its frame, until ``write_frame`` replaces it."""
    _write_page(nic.frames, place, page)
    record_pin_action(host, FILL, page, place)


@step
def _write_page(frames, place, page):
    if frames is not None:
        frames[place] = page


@step
def protect_if_used(nic, in_use, entry, unit):
    """Protect a newly filled ``entry`` if a transfer uses the unit already."""
    if in_use is not None and in_use[unit] != 0:
        hold(nic, entry)


@step
def write_frame(nic, place, frame):
    """Carry out a FILL: write the physical ``frame``, keeping the entry's in-use bit."""
    if nic.uses.size > 0:
        nic.frames[place] = frame
    else:
        nic.frames[place] = (nic.frames[place] & IN_USE) | frame
