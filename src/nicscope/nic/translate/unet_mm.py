"""U-Net/MM: a direct-mapped table backed by a victim cache; pinned is what they hold (4.2, 5.1)."""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.numbering import process_of
from nicscope.nic import victim
from nicscope.nic.cache import drop, fill, lookup
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE
from nicscope.nic.translate.book import (
    DROP,
    MISS,
    REFUSED,
    fill_frame,
    note_fill,
    note_hit,
    note_interrupts,
    note_invalidation,
    note_miss,
    pin_page,
    protect_if_used,
    record_pin_action,
    unpin_page,
)


@step
def ask_unet_mm(nic, book, page, key, receive):
    """Frame of ``page``, or ``MISS``."""
    slot = page & (nic.config[0].sets - 1)
    if lookup(nic, slot, key + 1, book.counts) != MISS:
        note_hit(book, key)
        return np.int64(nic.frames[slot] & FRAME_BITS)
    return ask_victim_cache(nic, book, slot, key, receive)


@step
def ask_victim_cache(nic, book, slot, key, receive):
    """Look a primary miss up in the victim cache, which returns it to the primary."""
    place = victim.find_victim(nic, key + 1)
    if place == victim.ABSENT:
        note_miss(book, key, receive)
        return np.int64(MISS)
    note_hit(book, key)
    book.counts[0].victim_hits += 1
    frame = nic.victims[place].frame
    if nic.frames[slot] & IN_USE == 0:  # else it serves from where it is
        victim.remove_victim(nic, place)
        _exchange(nic, slot, key)
        nic.frames[slot] = frame
    return np.int64(frame & FRAME_BITS)


@step
def serve_unet_mm(nic, host, book, process, page, key):
    """The host is interrupted, unless it translates itself, pins the page and gives its frame."""
    slot = page & (nic.config[0].sets - 1)
    if nic.frames[slot] & IN_USE and not _has_room_for_used(nic):
        return np.int64(REFUSED)
    if not evict_above_cap(nic, host, book, slot):
        return np.int64(REFUSED)
    note_interrupts(book, 1)
    displace(nic, host, book, slot, key)
    pin_page(host, book, process, key, 1)
    note_fill(book, key)
    fill_frame(nic, host, slot, key)
    protect_if_used(nic, host.in_use, slot, key)
    return np.int64(key)


@step
def _exchange(nic, slot, key):
    """Put the tag, which was a victim, in its primary slot; what was there takes its place."""
    frame = nic.frames[slot]
    nic.frames[slot] = frame & FRAME_BITS  # a page in use moves: it stays translated
    fill(nic, slot, key + 1)
    displaced = nic.registers[0].evicted
    if displaced != EMPTY:
        victim.append_victim(nic, displaced, frame)


@step
def displace(nic, host, book, slot, key):
    """Put the tag in its primary slot; what was there becomes a victim, and some may leave."""
    displaced_frame = nic.frames[slot]
    nic.frames[slot] = displaced_frame & FRAME_BITS  # a page in use moves: it stays translated
    fill(nic, slot, key + 1)
    displaced = nic.registers[0].evicted
    if displaced == EMPTY:
        return
    if host.in_use is not None:
        victim.append_victim(nic, displaced, displaced_frame)
        _evict_surplus_victims(nic, host, book)
        return
    leaving = victim.add_victim(nic, displaced, displaced_frame)
    if leaving != EMPTY:
        unpin_evicted(host, book, leaving - 1)


@step
def evict_above_cap(nic, host, book, slot):
    """Evict an entry if the kernel's cap on valid ones is reached (4.2); False if none can go.

    The first victim leaves, or where there is none the next entry of the table behind ``slot``, but
    for those that transfers use.
    """
    if not is_at_cap(book):
        return True
    place = victim.first_unused(nic)
    if place != victim.ABSENT:
        tag = victim.remove_victim(nic, place)
    else:
        place = _next_unused(nic, nic.frames, slot)
        if place == victim.ABSENT:
            return False
        tag = np.int64(nic.tags[place])
        drop(nic, place, tag)
    note_invalidation(book, tag - 1)
    unpin_evicted(host, book, tag - 1)
    return True


@step
def is_at_cap(book):
    """Whether as many entries are valid as the kernel lets be; all that are valid are pinned."""
    most = book.orders[0].most_valid
    return most > 0 and book.counts[0].pinned_pages >= most


@step
def _next_unused(nic, frames, slot):
    """The next slot behind ``slot``, itself last, whose entry no transfer uses, or ``ABSENT``."""
    last = nic.config[0].sets - 1
    for distance in range(1, last + 2):
        place = (slot + distance) & last
        if nic.tags[place] != EMPTY and not _is_used(frames, place):
            return np.int64(place)
    return np.int64(victim.ABSENT)


@step
def _is_used(frames, place):
    if frames is None:  # of a replay, where one request ends before the next begins
        return False
    return frames[place] & IN_USE != 0


@step
def unpin_evicted(host, book, page):
    """Unpin a page that was evicted from the NIC."""
    record_pin_action(host, DROP, page, -1)
    unpin_page(host, book, process_of(host.numbering, page), page)


@step
def _evict_surplus_victims(nic, host, book):
    """Evict victims, oldest first, but none that a transfer uses, down to their number.

    A list that could grow meanwhile gives back several at once (5.2.1).
    """
    while nic.registers[0].victim_count > nic.config[0].victim_entries:
        place = victim.first_unused(nic)
        if place == victim.ABSENT:
            return
        unpin_evicted(host, book, victim.remove_victim(nic, place) - 1)


@step
def _has_room_for_used(nic):
    """Whether one more page that a transfer uses finds its place among the victims."""
    if victim.may_grow(nic):
        return True
    return nic.config[0].victim_entries > 0 and victim.first_unused(nic) != victim.ABSENT


@step
def evict_unet_mm(nic, host, book, process, page, key):
    """Evict and unpin a page of an endpoint that closes (4.2)."""
    found = drop(nic, page & (nic.config[0].sets - 1), key + 1)
    if not found:
        place = victim.find_victim(nic, key + 1)
        if place != victim.ABSENT:
            victim.remove_victim(nic, place)
            found = True
    if found:
        note_invalidation(book, key)
        record_pin_action(host, DROP, key, -1)
        unpin_page(host, book, process, key)
