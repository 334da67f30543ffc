"""What an action of the firmware leaves to its driver: a miss that somebody serves, a fetch."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.layout import DESCRIPTOR_AWAY, HANDLE_MISS, PAGE_MISS
from nicscope.nic.ports.regions import may_be_read


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

    Unless what was posted has ended since this task began.  One that is not in registered memory is
    not read: it is refused when it is taken.
    """
    ports = nics.ports
    port = ports.table[n, p]
    slot = place_in(port.taken, ports.rules[0].ring)
    if port.open == 0 or port.busy == 1 or port.taken == port.posted:
        return
    if may_be_read(nics, n, p, slot):
        nics.ports.nodes[n].outcome = DESCRIPTOR_AWAY
        nics.ports.nodes[n].bringing = p
        nics.ports.nodes[n].wanted = port.taken
    else:
        ports.work.tokens[n, p, slot] = 0


@step
def ask_for_handle(nics, n, who, kind, number):
    """The host is to bring a record of a buffer or process; nothing on the NIC waits for it."""
    ask_for_page(nics, n, who, kind, number, 0, 0)
    nics.ports.nodes[n].outcome = HANDLE_MISS
