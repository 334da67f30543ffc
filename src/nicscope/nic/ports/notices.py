"""Entries of completion queues: that work at a port has ended, or that something is wrong there."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.calls import tell

TROUBLE = 2  # in place of a side: an error that no descriptor tells of


@step
def enter(nics, n, p, side, q):
    """Enter into queue ``q`` that ``side`` of port ``p`` has something; false if it is full."""
    ports = nics.ports
    queue = ports.work.queues[n, q]
    if queue.written - queue.read == queue.entries:
        return False
    entry = ports.work.entries[n, q, queue.written % ports.work.entries.shape[2]]
    entry.port = p
    entry.side = side
    entry.number = ports.table[n, p].received - 1
    entry.urgent = 0
    queue.written += 1
    if ports.rules[0].tells == 1:
        tell(nics, n, ports.table.shape[1] + q, 0)
    else:
        queue.shown += 1
    return True


@step
def notify(nics, n, p, side, notices):
    """Have a process look at port ``p``, by the queue below ``notices`` if that is not 0."""
    if notices > 0:
        enter(nics, n, p, side, notices - 1)


@step
def urge(nics, n, q):
    """What was entered last into queue ``q`` is what a process waits for that hears of little."""
    if q >= 0:
        work = nics.ports.work
        work.entries[n, q, (work.queues[n, q].written - 1) % work.entries.shape[2]].urgent = 1
