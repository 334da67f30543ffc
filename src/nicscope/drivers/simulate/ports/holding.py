"""Pages that transfers use: no translation of theirs may go meanwhile (U-Net/MM 4.2)."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.bus.calls import deregister_frame
from nicscope.drivers.simulate.bus.state import registers_frames
from nicscope.drivers.simulate.ports import calls
from nicscope.drivers.translation.asking import page_of_key
from nicscope.drivers.translation.cluster import translation_of
from nicscope.drivers.translation.codes import INTERRUPT, PINNED_AREA, UNET_MM
from nicscope.drivers.translation.holding import hold_key, keep_page, leave_page, release_key
from nicscope.drivers.translation.state import set_of
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.pins import unpin_frame
from nicscope.nic.ports import AWAITS_USE, FREE_TO_GO

NO_KEY = -1


@step
def holds_entries(machine):
    """Whether a page is unpinned when its entry leaves the NIC: then what uses it holds the entry.

    Elsewhere a pin is enough.  Two nodes whose packets wait for each other's acknowledgement must
    not keep the entries that these packets need at the other end.
    """
    scheme = machine.ports.rules[0].scheme
    return scheme in (INTERRUPT, UNET_MM)


@step
def share_set(machine, n, owner, other, space, page):
    """Whether page ``other`` of space ``owner`` has its entry in the same set as ``page``."""
    nic, _, book = translation_of(machine.ports.translations, n)
    if machine.ports.rules[0].scheme == UNET_MM:
        return (other ^ page) & (nic.config[0].sets - 1) == 0
    return set_of(nic, book, owner, other) == set_of(nic, book, space, page)


@distant
def hold(machine, n, key):
    """Count one more user of the page of ``key``."""
    if key >= 0 and machine.ports.rules[0].scheme != PINNED_AREA:
        nic, host, book = translation_of(machine.ports.translations, n)
        if not holds_entries(machine):
            keep_page(host, book, key)
            return
        space, page = page_of_key(host, book, key)
        hold_key(nic, host, book, space, page, key)


@distant
def release(machine, n, key):
    """One user of the page of ``key`` less; ports that wait for such an end look again."""
    if key < 0 or machine.ports.rules[0].scheme == PINNED_AREA:
        return
    nic, host, book = translation_of(machine.ports.translations, n)
    space, page = page_of_key(host, book, key)
    if holds_entries(machine):
        release_key(nic, host, book, space, page, key)
    else:
        leave_page(nic, host, book, space, page, key)
    if machine.ports.nodes[n].use_blocked > 0:
        unblock(machine, n)


@step
def unblock(machine, n):
    """Ports that wait for the end of a use look again."""
    ports = machine.ports
    for p in range(ports.table.shape[1]):
        if ports.table[n, p].blocked == AWAITS_USE:
            ports.table[n, p].blocked = FREE_TO_GO
        if ports.table[n, p].ahead_waits == AWAITS_USE:
            ports.table[n, p].ahead_waits = FREE_TO_GO
    ports.nodes[n].use_blocked = 0
    ports.nodes[n].attention = 1


@step
def hold_for(machine, n, head):
    """One more packet of ``head`` uses its page."""
    if head.lone == 1:
        machine.ports.memory.frames[n, head.frame].pins += 1
    else:
        calls.hold(machine, n, head.key)


@step
def let_go(machine, n, head):
    """The packet of ``head`` does not need its page any more."""
    if head.lone == 1:
        frame = np.int64(head.frame)
        left = unpin_frame(machine.ports.memory, n, np.int64(head.space), frame)
        if left == 0 and registers_frames(machine, n):
            deregister_frame(machine, n, frame)
        head.lone = 0
    calls.release(machine, n, head.key)
    head.key = NO_KEY
