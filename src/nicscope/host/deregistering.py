"""Registration taken back: pages of a table are unpinned, and their entries free."""

from __future__ import annotations

from nicscope.host.tables import leave_table
from nicscope.kernel.decorators import distant
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.codes import RNIC, STATIC
from nicscope.nic.translate.nodes import translation_of


@distant
def deregister_pages(machine, n, p, address, length):
    """Unpin what is registered there, unless something needs it: posted, or registered again.

    Other schemes' libraries unpin by rules of their own.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    if scheme not in (STATIC, RNIC):
        return
    _, host, _ = translation_of(ports.translations, n)
    bits = ports.rules[0].page_bits
    space = ports.table[n, p].space
    for page in range(address >> bits, ((address + length - 1) >> bits) + 1):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0 or host.pinning.held[key] != 0:
            continue
        leave_table(machine, n, space, page, key)
