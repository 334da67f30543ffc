"""U-Net/MM: a direct-mapped table backed by a victim cache; pinned is what they hold (4.2, 5.1)."""

from __future__ import annotations

from nicscope.drivers.replay.book import note_eviction, note_hit, note_miss, note_pins, note_unpin
from nicscope.drivers.replay.state import request_of
from nicscope.jit import kernel, step
from nicscope.memory.numbering import process_of
from nicscope.memory.pinning import pin, unpin
from nicscope.nic.cache import MISS, fill, lookup
from nicscope.nic.layout import EMPTY
from nicscope.nic.victim import ABSENT, add_victim, find_victim, remove_victim


@kernel
def replay_unet_mm(nic, host, book, requests):
    """Replay ``requests``, each page on its own."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            slot = (request.first + place) & (nic.config[0].sets - 1)
            if lookup(nic, slot, key + 1) != MISS:
                note_hit(book, key)
            else:
                look_beyond(nic, host, book, request, slot, key)


@step
def look_beyond(nic, host, book, request, slot, key):
    """The primary does not have it: the victim cache may, else the host is interrupted."""
    place = find_victim(nic, key + 1)
    if place != ABSENT:
        note_hit(book, key)
        book.counts[0].victim_hits += 1
        remove_victim(nic, place)
        displace(nic, host, book, slot, key)
        return
    note_miss(book, key, request.receive)
    book.counts[0].interrupts += 1
    displace(nic, host, book, slot, key)
    pin(host.pinning, request.process, key, 1)
    note_pins(book, 1)


@step
def displace(nic, host, book, slot, key):
    """Put the entry in its primary slot; what was there becomes a victim, and one may leave."""
    displaced_frame = nic.frames[slot]
    fill(nic, slot, key + 1)
    nic.frames[slot] = key
    displaced = nic.registers[0].evicted
    if displaced != EMPTY:
        leaving = add_victim(nic, displaced, displaced_frame)
        if leaving != EMPTY:
            page = leaving - 1
            unpin(host.pinning, process_of(host.numbering, page), page)
            note_unpin(book)
            note_eviction(book, page)
