"""What waits for an acknowledgement gives its entry up to what arrives, and keeps its page pinned.

Where an entry is a pin, two nodes whose packets wait for each other's acknowledgement would keep
the entries that these packets need at the other end, until both run out of patience.
"""

from __future__ import annotations

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports.arbitrate import destination_of
from nicscope.nic.ports.calls import release
from nicscope.nic.ports.holding import NO_KEY, hold_for, holds_entries, share_set
from nicscope.nic.ports.pools import NO_ENTRY
from nicscope.nic.ports.streams import is_reliable, stream_to
from nicscope.nic.ports.transmit import leave_page
from nicscope.nic.translate.asking import page_of_key
from nicscope.nic.translate.nodes import translation_of


@routine
def yield_entries(nics, n, space, page):
    """Whether packets and ports that only wait have let go of an entry that ``page`` could have.

    A packet that goes again finds its page where it was: its frame has a pin for that packet.  A
    port looks the page that it sends from up again.
    """
    ports = nics.ports
    if not holds_entries(nics) or ports.rules[0].by_request == 1:
        return False
    given = False
    for d in range(ports.stream_of.shape[1]):
        entry = stream_to(ports, n, d).oldest_kept
        while entry != NO_ENTRY:
            head = ports.pools.heads[entry]
            entry = ports.pools.behind[entry]
            if _is_in_way(nics, n, head.key, space, page):
                key = head.key
                head.space, _ = _page_of(nics, n, key)
                head.key = NO_KEY
                head.lone = 1
                hold_for(nics, n, head)
                release(nics, n, key)
                given = True
    for p in range(ports.table.shape[1]):
        key = ports.table[n, p].key
        if _is_in_way(nics, n, key, space, page) and _waits_for_peer(nics, n, p):
            leave_page(nics, n, p)
            given = True
    return given


@step
def _waits_for_peer(nics, n, p):
    """Whether what port ``p`` sends, from a page that it holds, may have to wait for its peer."""
    ports = nics.ports
    return is_reliable(ports, stream_to(ports, n, destination_of(nics, n, p)))


@step
def _page_of(nics, n, key):
    _, host, book = translation_of(nics.ports.translations, n)
    return page_of_key(host, book, key)


@step
def _is_in_way(nics, n, key, space, page):
    if key < 0:
        return False
    owner, other = _page_of(nics, n, key)
    return share_set(nics, n, owner, other, space, page)
