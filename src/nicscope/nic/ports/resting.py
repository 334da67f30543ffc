"""A peer that has no receive yet asks to be tried again: what was sent goes once more, then."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.calls import break_connection
from nicscope.nic.ports.layout import BROKEN, NO_RECEIVE
from nicscope.nic.ports.pools import NO_ENTRY
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.tallies import RESTS
from nicscope.nic.ports.verdicts import own_verdict
from nicscope.nic.ports.window import set_stream_deadline, stop_resending
from nicscope.nic.ports.work_queues import CONNECTION_LOST
from nicscope.nic.transport import is_outstanding


@step
def rest(nics, n, d, head, now):
    """Peer ``d`` has said by ``head`` how long it wants to be left alone; or that was too often."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    if stream.verdict != 0 or not is_outstanding(stream):
        return
    stream.retries = 0
    stream.rests += 1
    if 0 <= stream.most_rests < stream.rests:
        _give_up(nics, n, stream)
        return
    ports.tallies[n, RESTS] += 1
    stop_resending(nics, n, d)
    stream.resting = 1
    stream.resend_at = now + head.unready
    set_stream_deadline(nics, n, d, stream.resend_at)


@step
def _give_up(nics, n, stream):
    """The oldest descriptor that was not acknowledged has found no receive, and never will."""
    ports = nics.ports
    p = stream.port
    if stream.oldest_kept != NO_ENTRY:
        oldest = ports.pools.heads[stream.oldest_kept]
        pending = ports.pending[n, oldest.from_port, oldest.slot]
        if oldest.from_port == p and pending.busy == 1 and pending.number == oldest.cookie:
            pending.status = NO_RECEIVE
    break_connection(nics, n, p, BROKEN, CONNECTION_LOST, own_verdict(ports.table[n, p]))
