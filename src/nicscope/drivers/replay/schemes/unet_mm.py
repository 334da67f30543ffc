"""Replaying U-Net/MM: the primary does not depend on the victim cache, which comes after it."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel
from nicscope.memory.numbering import process_of
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import note_interrupts
from nicscope.nic.translate.deeds import pin_page
from nicscope.nic.translate.unet_mm import give_back
from nicscope.nic.victim import ABSENT, add_victim, append_victim, find_victim, remove_victim


@kernel
def ask_victims(case, _begin, _end, _count):
    """Ask the victim cache for what missed in the primary, and the host for what misses there."""
    nic, host, book = timeless(case)
    for at in range(case.found[0]):
        i = case.missed[at]
        key = np.int64(case.number[i])
        displaced = np.int64(case.evicted[at])
        place = find_victim(nic, key + 1)
        if place != ABSENT:
            case.outcome[i] = 0
            book.counts[0].victim_hits += 1
            remove_victim(nic, place)
            append_victim(nic, displaced, 0)
            continue
        note_interrupts(book, 1)
        if displaced != EMPTY:
            leaving = add_victim(nic, displaced, 0)
            if leaving != EMPTY:
                give_back(host, book, leaving - 1)
        pin_page(host, book, process_of(host.numbering, key), key, 1)
