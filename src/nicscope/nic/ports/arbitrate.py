"""What the firmware serves next: acknowledgements, packets that go again, then ports in turn."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.datagrams import is_held_up
from nicscope.nic.ports.layout import FENCED, FREE_TO_GO, NOBODY, ONE, OWN_PORT, SEND
from nicscope.nic.ports.streams import next_marked, peer_of, stream_to, unmark
from nicscope.nic.ports.window import may_send_to

# A source is a kind and an index; 0 is none.
PORT = 1  # a port's descriptor
AHEAD = 2  # a buffer of its free queue, to be translated ahead
RESEND = 3  # to a peer
ACK = 4
CUT_SHORT = 5  # a tag, of whose message a part will not come
DESCRIPTOR = 6  # a port's, to be fetched from the memory of the host
OVERRUN = 7  # a port, whose completions find no room
INDEX_BITS = 20
NO_SOURCE = 0


@step
def source_of(kind, index):
    """One number for both."""
    return (kind << INDEX_BITS) + index


@step
def kind_of(source):
    """What is served."""
    return source >> INDEX_BITS


@step
def index_of(source):
    """The port, or the peer."""
    return source & ((1 << INDEX_BITS) - 1)


@distant
def choose_source(nics, n):
    """What SERVE would be begun for at ``n`` now, or ``NO_SOURCE``."""
    ports = nics.ports
    serving = ports.nodes[n]
    if serving.acks > 0 or serving.resends > 0 or serving.cuts > 0:
        source = _choose_peer(nics, n)
        if source != NO_SOURCE:
            return source
    if serving.attention == 0 or ports.rules[0].serves == 0:
        return np.int64(NO_SOURCE)
    many = ports.table.shape[1]
    p = serving.turn
    for _ in range(many):
        p = p + 1 if p + 1 < many else 0
        source = ready_at_port(nics, n, p)
        if source != NO_SOURCE:
            return source
    serving.attention = 0
    return np.int64(NO_SOURCE)


@step
def _choose_peer(nics, n):
    ports = nics.ports
    many = ports.stream_of.shape[1]
    d = next_marked(ports.wishing, n, 0, many)
    while d < many:
        stream = stream_to(ports, n, d)
        if stream.urgent == 1:
            return source_of(ACK, d)
        if stream.resending == 1:
            return source_of(RESEND, d)
        unmark(ports.wishing, n, d)
        d = next_marked(ports.wishing, n, d + 1, many)
    if ports.nodes[n].cuts > 0:
        for p in range(ports.table.shape[1]):
            if ports.table[n, p].overrun == 1:
                return source_of(OVERRUN, p)
        for tag in range(ports.channels.shape[1]):
            channel = ports.channels[n, tag]
            if channel.cut != 0 and may_send_to(nics, n, peer_of(channel)):
                return source_of(CUT_SHORT, tag)
    return np.int64(NO_SOURCE)


@step
def ready_at_port(nics, n, p):
    """What could be served for port ``p`` now, or ``NO_SOURCE``."""
    ports = nics.ports
    port = ports.table[n, p]
    if port.open == 0 or port.blocked != FREE_TO_GO:
        return np.int64(NO_SOURCE)
    if (
        port.free_taken < port.free_posted
        and port.ahead_waits == FREE_TO_GO
        and _wants_ready(nics, n, p)
    ):
        return source_of(AHEAD, p)
    if port.busy == 0:
        if port.taken == port.posted:
            return np.int64(NO_SOURCE)
        return _next_work(ports, n, p) if port.takes == ONE else source_of(PORT, p)
    return source_of(PORT, p) if may_go(nics, n, p) else np.int64(NO_SOURCE)


@step
def may_go(nics, n, p):
    """Whether the descriptor under way at port ``p`` may have its next packet made now."""
    return may_send_to(nics, n, destination_of(nics, n, p)) and not is_held_up(nics, n, p)


@step
def _next_work(ports, n, p):
    """What could be done now for the next descriptor of port ``p``, which takes ONE."""
    if next_token(ports, n, p) != 0:
        bringing = ports.nodes[n].bringing != NOBODY
        return np.int64(NO_SOURCE) if bringing else source_of(DESCRIPTOR, p)
    port = ports.table[n, p]
    request = ports.requests[n, p, place_in(port.taken, ports.rules[0].ring)]
    if port.reading > 0 and request.options & FENCED:
        return np.int64(NO_SOURCE)
    return source_of(PORT, p)


@step
def next_token(ports, n, p):
    """What says where in the host's memory the next descriptor of port ``p`` is, or 0: it is here.

    The port takes ONE.
    """
    return ports.work.tokens[n, p, place_in(ports.table[n, p].taken, ports.rules[0].ring)]


@step
def _wants_ready(nics, n, p):
    """Whether one more buffer may be ready; those that fill may all become so again."""
    ports = nics.ports
    port = ports.table[n, p]
    waiting = port.ready_in - port.ready_out
    return waiting < ports.rules[0].ready and waiting + port.filling < ports.ready.shape[2]


@step
def destination_of(nics, n, p):
    """The peer to which the descriptor under way at port ``p`` goes."""
    ports = nics.ports
    port = ports.table[n, p]
    if port.takes == ONE:
        return port.offset if port.datagrams == 1 else peer_of(ports.channels[n, port.channel])
    if port.operation == SEND:
        return peer_of(ports.channels[n, port.name])
    if port.reply_port >= 0:
        return port.name
    return peer_of(ports.shared.imports[n, port.name])


@step
def whose_work(nics, n, p):
    """The connected port whose message port ``p`` sends, or for which it answers; or OWN_PORT."""
    ports = nics.ports
    whose = stream_to(ports, n, ports.table[n, p].name).port if p == OWN_PORT else np.int64(p)
    return whose if ports.table[n, whose].takes == ONE else np.int64(OWN_PORT)
