"""miNI's dynamic handle lookup: a set-associative cache of lines over host tables (IV.A, IV.B).

On a miss the NIC interrupts the host and drops the request, which the transport brings back once
the host has pinned the line's pages and written the line to the NIC.
"""

from __future__ import annotations

from nicscope.drivers.replay.book import note_eviction, note_hit, note_miss, note_pins, note_unpin
from nicscope.drivers.replay.state import request_of
from nicscope.jit import kernel, step
from nicscope.memory.lines import await_unpinning, fill_line, remove_line
from nicscope.memory.numbering import process_of
from nicscope.memory.pinning import PINNED, pin, unpin
from nicscope.nic.cache import MISS, fill, lookup
from nicscope.nic.layout import EMPTY


@kernel
def replay_handle(nic, host, book, requests):
    """Replay ``requests``; numbers name lines, so one serves all pages of a request in a line."""
    at = 0
    line_bits = book.orders[0].line_bits
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        first = request.first >> line_bits
        last = (request.first + request.pages - 1) >> line_bits
        for line in range(first, last + 1):
            key = requests.numbers[at]
            at += 1
            slot = line & (nic.config[0].sets - 1)
            # The line's further pages in this request hit whatever its first one does, and
            # leave everything as it is.
            if lookup(nic, slot, key + 1) != MISS:
                note_hit(book, key)
            else:
                note_miss(book, key, request.receive)
                wake_host(nic, host, book, request.process, slot, key)


@step
def wake_host(nic, host, book, process, slot, key):
    """Interrupt and drop; the kernel thread pins the line, fills it, and heeds the high water."""
    counts = book.counts[0]
    counts.interrupts += 1
    counts.dropped += 1
    pin_line(host, book, process, key)
    entry = fill(nic, slot, key + 1)
    evicted = nic.registers[0].evicted
    if evicted != EMPTY:
        note_eviction(book, evicted - 1)
    line = nic.config[0].line
    for page in range(line):
        nic.frames[entry * line + page] = key * line + page
    if book.orders[0].high_water >= 0:
        fill_line(host.lines, key)
        if evicted != EMPTY:
            await_unpinning(host.lines, evicted - 1)
        unpin_surplus(host, book)


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
            pin(host.pinning, process, page, 1)
            note_pins(book, 1)
        before_is_pinned = is_pinned


@step
def unpin_surplus(host, book):
    """Unpin pages of lines that left the NIC until no more than ``high_water`` are pinned."""
    while book.counts[0].pinned_pages > book.orders[0].high_water and host.lines.counts[1] > 0:
        line = host.lines.heap[0]
        first = line << book.orders[0].line_bits
        end = first + (1 << book.orders[0].line_bits)
        for page in range(first, end):
            if host.pinning.state[page] & PINNED:
                unpin(host.pinning, process_of(host.numbering, line), page)
                book.counts[0].unpin_calls += 1
                note_unpin(book)
                if book.counts[0].pinned_pages == book.orders[0].high_water:
                    if page + 1 == end:
                        remove_line(host.lines, line)
                    return
        remove_line(host.lines, line)
