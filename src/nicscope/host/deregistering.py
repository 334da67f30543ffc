"""Registration taken back: pages of a static table are unpinned, and their entries free."""

from __future__ import annotations

from nicscope.host.calls import carry_out
from nicscope.kernel.decorators import distant
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.codes import STATIC
from nicscope.nic.translate.deeds import unpin_page
from nicscope.nic.translate.nodes import translation_of
from nicscope.nic.translate.static import give_entry_back


@distant
def deregister_pages(machine, n, p, address, length):
    """Unpin what a static table has pinned there, unless something needs it: posted, or registered.

    Other schemes' libraries unpin by rules of their own.
    """
    ports = machine.ports
    if ports.rules[0].scheme != STATIC:
        return
    nic, host, book = translation_of(ports.translations, n)
    bits = ports.rules[0].page_bits
    space = ports.table[n, p].space
    for page in range(address >> bits, ((address + length - 1) >> bits) + 1):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0 or host.pinning.held[key] != 0:
            continue
        unpin_page(host, book, space, key)
        carry_out(machine, n, 0)
        give_entry_back(nic, host, key)
