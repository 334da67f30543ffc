"""U-Net/MM: a direct-mapped table backed by a victim cache; pinned is what they hold (4.2, 5.1)."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.translation.book import (
    note_eviction,
    note_hit,
    note_invalidation,
    note_miss,
)
from nicscope.drivers.translation.codes import MISS, REFUSED
from nicscope.drivers.translation.deeds import (
    DROP,
    fill_frame,
    note_deed,
    pin_page,
    protect_if_used,
    unpin_page,
)
from nicscope.jit import step
from nicscope.memory.numbering import process_of
from nicscope.nic.cache import drop, fill, lookup
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE
from nicscope.nic.victim import ABSENT, add_victim, find_victim, remove_victim


@step
def ask_unet_mm(nic, host, book, page, key, receive):
    """Frame of ``page``, or ``MISS``."""
    slot = page & (nic.config[0].sets - 1)
    if lookup(nic, slot, key + 1) != MISS:
        note_hit(book, key)
        return np.int64(nic.frames[slot] & FRAME_BITS)
    return ask_beyond(nic, host, book, slot, key, receive)


@step
def ask_beyond(nic, host, book, slot, key, receive):
    """The primary does not have it: the victim cache may, and gives it back to the primary."""
    place = find_victim(nic, key + 1)
    if place == ABSENT:
        note_miss(book, key, receive)
        return np.int64(MISS)
    note_hit(book, key)
    book.counts[0].victim_hits += 1
    frame = nic.victims[place].frame
    if nic.frames[slot] & IN_USE == 0:  # else it serves from where it is
        remove_victim(nic, place)
        displace(nic, host, book, slot, key)
        nic.frames[slot] = frame
    return np.int64(frame & FRAME_BITS)


@step
def serve_unet_mm(nic, host, book, process, page, key):
    """The host is interrupted, pins the page and gives the NIC its frame."""
    slot = page & (nic.config[0].sets - 1)
    if nic.frames[slot] & IN_USE and not _has_room_for_used(nic):
        return np.int64(REFUSED)
    book.counts[0].interrupts += 1
    displace(nic, host, book, slot, key)
    pin_page(host, book, process, key, 1)
    fill_frame(nic, host, slot, key)
    protect_if_used(nic, host.in_use, slot, key)
    return np.int64(key)


@step
def displace(nic, host, book, slot, key):
    """Put the tag in its primary slot; what was there becomes a victim, and one may leave."""
    displaced_frame = nic.frames[slot]
    nic.frames[slot] = displaced_frame & FRAME_BITS  # a page in use moves: it stays translated
    fill(nic, slot, key + 1)
    displaced = nic.registers[0].evicted
    if displaced != EMPTY:
        leaving = become_victim(nic, host.in_use, displaced, displaced_frame)
        if leaving != EMPTY:
            page = leaving - 1
            note_eviction(book, page)
            note_deed(host, DROP, page, -1)
            unpin_page(host, book, process_of(host.numbering, page), page)


@step
def _has_room_for_used(nic):
    """Whether one more page that a transfer uses finds its place among the victims."""
    if nic.config[0].victim_entries == 0:
        return False
    count = nic.registers[0].victim_count
    if count < nic.config[0].victim_entries:
        return True
    used = np.int64(0)
    for place in range(count):
        used += nic.victims[place].frame & IN_USE != 0
    return used < count


@step
def become_victim(nic, in_use, tag, frame):
    """Let ``tag`` join the victims; the tag that leaves, or ``EMPTY``.

    That is the first in, but for those that a transfer uses.
    """
    if in_use is None:
        return add_victim(nic, tag, frame)
    count = nic.registers[0].victim_count
    if count < nic.config[0].victim_entries:
        return add_victim(nic, tag, frame)
    for place in range(count):
        if nic.victims[place].frame & IN_USE == 0:
            leaving = remove_victim(nic, place)
            add_victim(nic, tag, frame)
            return leaving
    return np.int64(tag)


@step
def forget_unet_mm(nic, host, book, process, page, key):
    """An endpoint closes: its page leaves the NIC, if it is there, and is unpinned (4.2)."""
    found = drop(nic, page & (nic.config[0].sets - 1), key + 1)
    if not found:
        place = find_victim(nic, key + 1)
        if place != ABSENT:
            remove_victim(nic, place)
            found = True
    if found:
        note_invalidation(book, key)
        note_deed(host, DROP, key, -1)
        unpin_page(host, book, process, key)
