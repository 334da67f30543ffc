"""miNI's dynamic handle lookup: a set-associative cache of lines over host tables (IV.A, IV.B).

On a miss the NIC interrupts the host and drops the request, which the transport brings back once
the host has pinned the line's pages and written the line to the NIC.
"""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.lines import await_unpinning, fill_line, remove_line
from nicscope.memory.numbering import process_of
from nicscope.memory.pinning import PINNED, is_held
from nicscope.nic.cache import REFUSED as NO_WAY_FREE
from nicscope.nic.cache import fill, lookup
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import (
    DROP,
    MISS,
    REFUSED,
    fill_frame,
    has_room_for_pin_action,
    note_hit,
    note_miss,
    pin_page,
    protect_if_used,
    record_pin_action,
    unpin_page,
)


@step
def ask_handle(nic, book, line, key, receive):
    """Entry of ``line``, whose number is ``key``, or ``MISS``."""
    entry = lookup(nic, line & (nic.config[0].sets - 1), key + 1, book.counts)
    if entry == MISS:
        note_miss(book, key, receive)
    else:
        note_hit(book, key)
    return entry


@step
def serve_handle(nic, host, book, process, line, key):
    """Interrupt and drop; the kernel thread pins the line, fills it, and heeds the high water.

    The entry of ``line``, or ``REFUSED``.
    """
    entry = fill(nic, line & (nic.config[0].sets - 1), key + 1)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    evicted = np.int64(nic.registers[0].evicted)
    bring_line(host, book, process, key, evicted)
    pages = nic.config[0].line
    for page in range(pages):
        fill_frame(nic, host, entry * pages + page, key * pages + page)
    protect_if_used(nic, host.in_use, entry, key)
    if book.orders[0].high_water >= 0 and book.orders[0].scanned == 0:
        unpin_surplus(host, book)
    return entry


@step
def bring_line(host, book, process, key, evicted):
    """What the host does for a line that takes the place of ``evicted`` (a tag, or ``EMPTY``)."""
    counts = book.counts[0]
    counts.interrupts += 1
    counts.dropped += 1
    if evicted != EMPTY:
        record_pin_action(host, DROP, (evicted - 1) << book.orders[0].line_bits, -1)
    pin_line(host, book, process, key)
    if book.orders[0].high_water >= 0:
        fill_line(host.lines, key)
        if evicted != EMPTY:
            await_unpinning(host.lines, evicted - 1)


@step
def pin_line(host, book, process, key):
    """Pin what is not pinned of the line, one call per run."""
    first = key << book.orders[0].line_bits
    before_is_pinned = True
    for page in range(first, first + (1 << book.orders[0].line_bits)):
        is_pinned = host.pinning.state[page] & PINNED != 0
        if not is_pinned:
            if before_is_pinned:
                book.counts[0].pin_calls += 1
            pin_page(host, book, process, page, 1)
        before_is_pinned = is_pinned


@step
def unpin_surplus(host, book):
    """Unpin pages of lines that left the NIC until no more than ``high_water`` are pinned.

    A driver in which time passes may do so from time to time (``orders.scanned``), not at once.
    Held pages stay, and their line waits no more until it is released.
    """
    while book.counts[0].pinned_pages > book.orders[0].high_water and host.lines.counts[1] > 0:
        line = host.lines.heap[0]
        first = line << book.orders[0].line_bits
        for page in range(first, first + (1 << book.orders[0].line_bits)):
            if book.counts[0].pinned_pages == book.orders[0].high_water:
                return
            if not has_room_for_pin_action(host.pin_actions, host.pin_action_count):
                return
            if host.pinning.state[page] & PINNED and not is_held(host.pinning.held, page):
                unpin_page(host, book, process_of(host.numbering, line), page)
                book.counts[0].unpin_calls += 1
        remove_line(host.lines, line)
