"""The two designs without a translation cache: a copied buffer area, and static registration."""

from __future__ import annotations

from nicscope.drivers.replay.book import note_pins
from nicscope.drivers.replay.state import request_of
from nicscope.jit import kernel, step
from nicscope.memory.pinning import PINNED, pin


@kernel
def replay_pinned(host, book, requests):
    """Copy every request through its process's pinned area (U-Net; U-Net/MM 4)."""
    for row in range(requests.first.size):
        owner = host.pinning.processes[requests.process[row]]
        if owner.pinned == 0:
            owner.pinned = book.orders[0].area_pages
            book.counts[0].pin_calls += 1
            note_pins(book, book.orders[0].area_pages)
        if requests.length[row] > book.orders[0].area_bytes:
            book.counts[0].rejected += 1
        else:
            book.counts[0].bytes_copied += requests.length[row]


@kernel
def replay_static(nic, host, book, requests):
    """Register every page at first use, for ever, while the NIC's table has room (VMMC, VIA)."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        before_is_new = False
        for place in range(request.at, at):
            page = requests.numbers[place]
            is_new = host.pinning.state[page] & PINNED == 0
            if is_new:
                is_new = register(nic, host, book, request.process, page)
                if is_new and not before_is_new:
                    book.counts[0].pin_calls += 1
            before_is_new = is_new


@step
def register(nic, host, book, process, page):
    """Pin ``page`` and give it the table's next entry; False if there is none left."""
    registers = nic.registers[0]
    if registers.filled == nic.config[0].entries:
        book.counts[0].rejected += 1
        return False
    nic.frames[registers.filled] = page
    registers.filled += 1
    pin(host.pinning, process, page, 1)
    note_pins(book, 1)
    return True
