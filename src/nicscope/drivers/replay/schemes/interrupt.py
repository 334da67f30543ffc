"""The interrupt-based baseline: the host pins on a miss and unpins on an eviction (UTLB 6.2)."""

from __future__ import annotations

from nicscope.drivers.replay.book import (
    note_eviction,
    note_hit,
    note_invalidation,
    note_miss,
    note_pins,
    note_unpin,
)
from nicscope.drivers.replay.state import request_of, set_of
from nicscope.jit import kernel, step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import pin, unpin, use, victim_of
from nicscope.nic.cache import MISS, drop, fill, lookup
from nicscope.nic.layout import EMPTY

NO_UNIT = -1


@kernel
def replay_interrupt(nic, host, book, requests):
    """Replay ``requests``, each page on its own."""
    at = 0
    ordered = host.pinning.rules[0].ordered
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            line = set_of(nic, book, request.process, request.first + place)
            if lookup(nic, line, key + 1) == MISS:
                note_miss(book, key, request.receive)
                interrupt_host(nic, host, book, request.process, line, key)
            else:
                note_hit(book, key)
                if ordered:
                    use(host.pinning, request.process, key)


@step
def interrupt_host(nic, host, book, process, line, key):
    """The host makes room under the limit, installs the entry and pins the page."""
    book.counts[0].interrupts += 1
    if host.pinning.rules[0].ordered:
        while host.pinning.processes[process].pinned >= host.pinning.rules[0].limit:
            page = victim_of(host.pinning, host.numbering, process, NO_UNIT, NO_UNIT)
            unpin(host.pinning, process, page)
            note_unpin(book)
            drop(nic, set_of(nic, book, process, unit_of(host.numbering, page)), page + 1)
            note_invalidation(book, page)
    entry = fill(nic, line, key + 1)
    nic.frames[entry] = key
    if nic.registers[0].evicted != EMPTY:
        page = nic.registers[0].evicted - 1
        unpin(host.pinning, process_of(host.numbering, page), page)
        note_unpin(book)
        note_eviction(book, page)
    pin(host.pinning, process, key, 1)
    note_pins(book, 1)
