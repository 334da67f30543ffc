"""Registered memory that packets of queue pairs come from: each finds it as it is when it goes.

A request is checked as a whole when it is taken.  Its region may go while it is under way, or
before a packet of it goes again; what is there then is its owner's alone.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.calls import break_connection
from nicscope.nic.ports.layout import BROKEN, PROTECTION, REMOTE_PROTECTION, REPLY
from nicscope.nic.ports.regions import is_there
from nicscope.nic.ports.verdicts import own_verdict
from nicscope.nic.ports.work_queues import FETCH_REFUSED, POSTED_BADLY


@step
def note_source(nics, n, p, whose, head):
    """Note where the next packet of port ``p``, for the work of ``whose``, comes from."""
    port = nics.ports.table[n, p]
    if nics.ports.table[n, whose].by_verbs == 1:
        piece = nics.ports.current[n, p, port.segment]
        head.region = piece.key
        head.source = piece.address + port.segment_done


@step
def is_gone(nics, n, head, payload):
    """Whether the bytes of the packet of ``head`` are registered as they were no more.

    What an atomic operation has found goes with its answer, wherever that was.
    """
    if head.region <= 0 or payload == 0 or head.atomic != 0:
        return False
    return not is_there(nics, n, head.region, head.source, payload)


@step
def end_without_source(nics, n, p, head):
    """The packet of ``head`` cannot go: the connection of port ``p``, whose it is, ends.

    That is an error of who asked for the memory: here, or at the other end.
    """
    ports = nics.ports
    if head.kind == REPLY:
        break_connection(nics, n, p, BROKEN, FETCH_REFUSED, REMOTE_PROTECTION)
        return
    pending = ports.pending[n, p, head.slot]
    if pending.busy == 1 and pending.number == head.cookie:
        pending.status = PROTECTION
    break_connection(nics, n, p, BROKEN, POSTED_BADLY, own_verdict(ports.table[n, p]))
