"""Replaying U-Net/MM: the primary does not depend on the victim cache, which comes after it.

Under a cap on valid entries it does, and a lookup is done with before the next begins.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel
from nicscope.memory.numbering import process_of
from nicscope.nic.cache import fill, lookup
from nicscope.nic.layout import EMPTY
from nicscope.nic.recency import append_held, drop_held, keep_uses, uses_of
from nicscope.nic.translate.book import (
    INVALIDATED,
    MISS,
    MISSED,
    note_fill,
    note_interrupts,
    pin_page,
)
from nicscope.nic.translate.unet_mm import evict_above_cap, unpin_evicted
from nicscope.nic.victim import ABSENT, add_victim, append_victim, find_victim, remove_victim


@kernel
def look_up_victims(case, _begin, _end, _count):
    """Looks up primary misses in the victim cache; what misses there too stays listed.

    What the primary evicted joins the victims, of which the first in leaves if they are too many.
    That is kept as an order of use, in which a victim that is called back is dropped.
    """
    victims = case.held
    now, oldest, word, left = uses_of(victims)
    missed = np.int64(0)
    for at in range(case.found[0]):
        i = case.missed[at]
        displaced = np.int64(case.evicted[at])
        here, word, left = drop_held(victims, case.number[i], oldest, word, left)
        gone = np.int64(EMPTY)
        if displaced != EMPTY:
            gone, now, oldest, word, left = append_held(
                victims, displaced - 1, now, oldest, word, left
            )
        case.missed[missed] = i
        case.evicted[missed] = gone
        missed += 1 - here
    keep_uses(victims, now, oldest, left)
    case.book.counts[0].victim_hits += case.found[0] - missed
    case.found[0] = missed


@kernel
def replay_unet_mm(case, _begin, _end, count):
    """Replay ``count`` lookups, each page on its own, under the kernel's cap on valid entries."""
    nic, host, book = timeless(case)
    last_slot = nic.config[0].sets - 1
    for i in range(count):
        key = np.int64(case.number[i])
        slot = np.int64(case.set_index[i]) & last_slot
        case.outcome[i] = 0
        if lookup(nic, slot, key + 1, book.counts) != MISS:
            continue
        place = find_victim(nic, key + 1)
        if place != ABSENT:
            book.counts[0].victim_hits += 1
            remove_victim(nic, place)
            fill(nic, slot, key + 1)
            if nic.registers[0].evicted != EMPTY:
                append_victim(nic, nic.registers[0].evicted, 0)
            continue
        case.outcome[i] = MISSED | (np.int64(book.past[key]) & INVALIDATED)
        evict_above_cap(nic, host, book, slot)
        fill(nic, slot, key + 1)
        if nic.registers[0].evicted != EMPTY:
            leaving = add_victim(nic, nic.registers[0].evicted, 0)
            if leaving != EMPTY:
                unpin_evicted(host, book, leaving - 1)
        note_interrupts(book, 1)
        pin_page(host, book, process_of(host.numbering, key), key, 1)
        note_fill(book, key)
