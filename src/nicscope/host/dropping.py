"""Pages of which a process wants no more: they leave the NIC, unless something needs them."""

from __future__ import annotations

import numpy as np

from nicscope.host.calls import carry_out
from nicscope.host.second_level import let_tables_go, take_tables
from nicscope.host.tables import leave_table
from nicscope.kernel.decorators import distant
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.codes import INTERRUPT, RNIC, STATIC, UNET_MM, UTLB
from nicscope.nic.translate.deeds import unpin_page
from nicscope.nic.translate.interrupt import forget_interrupt
from nicscope.nic.translate.nodes import translation_of
from nicscope.nic.translate.unet_mm import forget_unet_mm
from nicscope.nic.translate.user_library import forget


@distant
def drop_page(machine, n, space, page):
    """Have no NIC know a page of ``space`` any more: 1, or 0 while a transfer or a region needs it.

    Where a cache of lines keeps pins until its high water, those stay.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    nic, host, book = translation_of(ports.translations, n)
    key = key_of(machine, n, space, page)
    if key < 0 or host.pinning.state[key] & PINNED == 0:
        return np.int64(1)
    if host.in_use[key >> book.orders[0].line_bits] != 0 or host.pinning.held[key] != 0:
        return np.int64(0)
    if scheme == UNET_MM:
        forget_unet_mm(nic, host, book, space, page, key)
        carry_out(machine, n, 0)
    elif scheme == INTERRUPT:
        forget_interrupt(nic, host, book, space, page, key)
        carry_out(machine, n, 0)
    elif scheme in (STATIC, RNIC):
        leave_table(machine, n, space, page, key)
    elif scheme >= UTLB:
        if take_tables(machine, n, space, page, page) < 0:
            return np.int64(0)
        forget(nic, host, book, space, key)
        unpin_page(host, book, space, key)
        carry_out(machine, n, 0)
        let_tables_go(machine, n, space)
    return np.int64(host.pinning.state[key] & PINNED == 0)
