"""Pages that transfers use: no translation of theirs may go meanwhile (U-Net/MM 4.2)."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import calls
from nicscope.nic.ports.layout import AWAITS_USE, FREE_TO_GO
from nicscope.nic.translate.asking import page_of_key
from nicscope.nic.translate.codes import INTERRUPT, PINNED_AREA, UNET_MM
from nicscope.nic.translate.holding import hold_key, keep_page, leave_page, release_key
from nicscope.nic.translate.nodes import translation_of
from nicscope.nic.translate.state import set_of
from nicscope.nic.translate.unet_mm import is_at_cap

NO_KEY = -1


@step
def holds_entries(nics):
    """Whether a page is unpinned when its entry leaves the NIC: then what uses it holds the entry.

    Elsewhere a pin is enough.  Two nodes whose packets wait for each other's acknowledgement must
    not keep the entries that these packets need at the other end.
    """
    scheme = nics.ports.rules[0].scheme
    return scheme in (INTERRUPT, UNET_MM)


@step
def share_set(nics, n, owner, other, space, page):
    """Whether page ``other`` of space ``owner`` has its entry where one of ``page`` could be.

    That is its set; and any set, where no more entries may be valid.
    """
    nic, _, book = translation_of(nics.ports.translations, n)
    if nics.ports.rules[0].scheme == UNET_MM:
        return is_at_cap(book) or (other ^ page) & (nic.config[0].sets - 1) == 0
    return set_of(nic, book, owner, other) == set_of(nic, book, space, page)


@distant
def hold(nics, n, key):
    """Count one more user of the page of ``key``."""
    if key >= 0 and nics.ports.rules[0].scheme != PINNED_AREA:
        nic, host, book = translation_of(nics.ports.translations, n)
        if not holds_entries(nics):
            keep_page(host, book, key)
            return
        space, page = page_of_key(host, book, key)
        hold_key(nic, host, book, space, page, key)


@distant
def release(nics, n, key):
    """One user of the page of ``key`` less; ports that wait for such an end look again."""
    if key < 0 or nics.ports.rules[0].scheme == PINNED_AREA:
        return
    nic, host, book = translation_of(nics.ports.translations, n)
    space, page = page_of_key(host, book, key)
    if holds_entries(nics):
        release_key(nic, host, book, space, page, key)
    else:
        leave_page(nic, host, book, space, page, key)
    if nics.ports.nodes[n].use_blocked > 0:
        unblock(nics, n)


@step
def unblock(nics, n):
    """Ports that wait for the end of a use look again."""
    ports = nics.ports
    for p in range(ports.table.shape[1]):
        if ports.table[n, p].blocked == AWAITS_USE:
            ports.table[n, p].blocked = FREE_TO_GO
        if ports.table[n, p].ahead_waits == AWAITS_USE:
            ports.table[n, p].ahead_waits = FREE_TO_GO
    ports.nodes[n].use_blocked = 0
    ports.nodes[n].attention = 1


@step
def hold_for(nics, n, head):
    """One more packet of ``head`` uses its page."""
    if head.lone == 1:
        calls.keep_frame(nics, n, head.frame)
    else:
        calls.hold(nics, n, head.key)


@step
def let_go(nics, n, head):
    """The packet of ``head`` does not need its page any more."""
    if head.lone == 1:
        calls.leave_frame(nics, n, np.int64(head.space), np.int64(head.frame))
        head.lone = 0
    calls.release(nics, n, head.key)
    head.key = NO_KEY
