"""Tables of what is registered: pages are pinned as they enter them, and unpinned as they leave.

A static table is on the NIC and full some time; an RDMA NIC's is in host memory.
"""

from __future__ import annotations

from nicscope.host.calls import apply_pin_actions
from nicscope.kernel.decorators import step
from nicscope.nic.translate.book import RNIC, unpin_page
from nicscope.nic.translate.rnic import deregister_rnic, register_rnic
from nicscope.nic.translate.state import levels_of, translation_of
from nicscope.nic.translate.static import free_entry, serve_freed_entry, serve_static


@step
def enter_table(machine, n, space, page, key):
    """Pin ``page`` and enter it in the table; false if the table is full.

    ``apply_pin_actions`` must follow.
    """
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    if ports.rules[0].scheme == RNIC:
        register_rnic(nic, host, book, space, page, key)
        return True
    if serve_freed_entry(nic, host, book, space, page, key):
        return True
    return serve_static(nic, host, book, space, page, key) >= 0


@step
def leave_table(machine, n, space, page, key):
    """Unpin a registered page that nothing needs; no cache has its translation any more."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    if ports.rules[0].scheme == RNIC:
        levels = levels_of(ports.translations, n)
        deregister_rnic(nic, levels, host, book, space, page, key)
        apply_pin_actions(machine, n, 0)
        return
    unpin_page(host, book, space, key)
    apply_pin_actions(machine, n, 0)
    free_entry(nic, host, key)
