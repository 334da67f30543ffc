"""Pages that may not be unpinned and entries that may not leave, while requests are outstanding.

Two levels.  From post to completion a request *keeps* its pages: the user library and the high
water look for other victims (UTLB 3.1).  While the NIC moves bytes it *holds* the page whose
frame it uses: besides, the entry may not leave the NIC (U-Net/MM 4.2).  Keeping does not protect
entries, for two pages of one request may need the same set one after the other.

Where the host pins and unpins as entries come and go (interrupt, U-Net/MM), what a request may
keep pinned is not its to say: there only holding counts.  A pinned area stays where it is anyhow.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.lines import await_unpinning
from nicscope.memory.numbering import unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import find as find_entry
from nicscope.nic.cache import hold, release
from nicscope.nic.layout import EMPTY, FRAME_BITS, IN_USE
from nicscope.nic.linked import is_used
from nicscope.nic.translate.codes import INTERRUPT, MISS, PINNED_AREA, UNET_MM
from nicscope.nic.translate.state import set_of
from nicscope.nic.victim import ABSENT, find_victim


@step
def has_room(nic, row):
    """Whether set ``row`` has an entry that no transfer uses."""
    ways = nic.config[0].ways
    used = 0
    for entry in range(row * ways, (row + 1) * ways):
        used += is_used(nic, entry)
    return used < ways


@step
def tag_of(nic, host, book, process, page, key):
    """The set and the tag under which the cache would have ``page`` (number ``key``) or its line.

    The set is ``MISS`` if the page has none: nobody has pinned it.
    """
    unit = page >> book.orders[0].line_bits
    known_as = key >> book.orders[0].line_bits
    if host.indices.tables.size > 0:
        if host.pinning.state[key] & PINNED == 0:
            return np.int64(MISS), np.int64(EMPTY)
        known_as = np.int64(host.indices.key_of[key])
        unit = unit_of(host.indices.keys, known_as)
    return set_of(nic, book, process, unit), known_as + 1


@step
def entry_of(nic, host, book, process, page, key):
    """The cache's entry for ``page`` (number ``key``) or for its line, or ``MISS``; not a use."""
    row, tag = tag_of(nic, host, book, process, page, key)
    if row == MISS:
        return np.int64(MISS)
    return find_entry(nic, row, tag)


@routine
def keep_page(host, book, key):
    """One more outstanding request needs ``page``, whose number is ``key``."""
    if _requests_keep(book):
        host.pinning.held[key] += 1


@routine
def leave_page(nic, host, book, process, page, key):
    """A request that kept ``page`` has ended."""
    if _requests_keep(book):
        _let_go(nic, host, book, process, page, key)


@step
def _requests_keep(book):
    """Whether a request says which pages stay pinned."""
    scheme = book.orders[0].scheme
    return scheme != INTERRUPT and scheme != UNET_MM and scheme != PINNED_AREA


@routine
def hold_key(nic, host, book, process, page, key):
    """One more transfer uses ``page``, whose number is ``key``: its entry stays, if it is there."""
    host.pinning.held[key] += 1
    unit = key >> book.orders[0].line_bits
    host.in_use[unit] += 1
    if host.in_use[unit] == 1 and book.orders[0].cached:
        entry = entry_of(nic, host, book, process, page, key)
        if entry != MISS:
            hold(nic, entry)
        else:
            place = find_victim(nic, key + 1)
            if place != ABSENT:
                nic.victims[place].frame |= IN_USE


@routine
def release_key(nic, host, book, process, page, key):
    """A transfer that held ``page`` has ended."""
    unit = key >> book.orders[0].line_bits
    host.in_use[unit] -= 1
    if host.in_use[unit] == 0 and book.orders[0].cached:
        entry = entry_of(nic, host, book, process, page, key)
        if entry != MISS:
            release(nic, entry)
        else:
            place = find_victim(nic, key + 1)
            if place != ABSENT:
                nic.victims[place].frame &= FRAME_BITS
    _let_go(nic, host, book, process, page, key)


@step
def _let_go(nic, host, book, process, page, key):
    """One need less; a line that the high water passed over for it waits again."""
    host.pinning.held[key] -= 1
    if host.pinning.held[key] == 0 and host.lines.filled.size > 0:
        line = key >> book.orders[0].line_bits
        if (
            host.pinning.state[key] & PINNED
            and host.lines.place[line] == 0
            and entry_of(nic, host, book, process, page, key) == MISS
        ):
            await_unpinning(host.lines, line)
