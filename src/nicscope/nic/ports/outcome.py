"""What an action of the firmware leaves to its driver: a miss that somebody serves, a fetch."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import DESCRIPTOR_AWAY, HANDLE_MISS, PAGE_MISS


@step
def ask_for_page(nics, n, who, space, page, receive, ahead):
    """The action ends with a miss of ``page``: the processor waits for it, or ``who`` does."""
    serving = nics.ports.nodes[n]
    serving.outcome = PAGE_MISS
    serving.miss_for = who
    serving.miss_space = space
    serving.miss_page = page
    serving.miss_receive = receive
    serving.miss_ahead = ahead


@step
def ask_for_descriptor(nics, n, p):
    """The next descriptor of port ``p`` is to be fetched; the firmware does other things meanwhile.

    Unless what was posted has ended since this task began.
    """
    port = nics.ports.table[n, p]
    if port.open == 1 and port.busy == 0 and port.taken != port.posted:
        nics.ports.nodes[n].outcome = DESCRIPTOR_AWAY
        nics.ports.nodes[n].bringing = p
        nics.ports.nodes[n].wanted = port.taken


@step
def ask_for_handle(nics, n, who, kind, number):
    """The host is to bring a record of a buffer or process; nothing on the NIC waits for it."""
    ask_for_page(nics, n, who, kind, number, 0, 0)
    nics.ports.nodes[n].outcome = HANDLE_MISS
