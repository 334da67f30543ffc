"""Datagrams: messages of a port that has no peer, each to a port that it names, and shows its key.

They go by *ways*, one for each two nodes: streams that promise nothing, as their ports are not
known to each other.  A message is told apart from others of its way by its number, and no other
begins on a way before all of one has left, so that a way has one place where a message arrives.
Of what it fills, the room for a header is left alone: who reads it writes there whence it came.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.layout import CONNECTED, NOBODY, ONE, OWN_PORT, RECEIVED, SEND
from nicscope.nic.ports.pools import BLANK
from nicscope.nic.ports.streams import open_stream, stream_to

HEADER_ROOM = 40  # bytes: a global routing header (IBA, 11.4.1.2)


@step
def room_of(head):
    """Bytes that the message of ``head`` leaves alone at the beginning of what it fills."""
    return HEADER_ROOM * head.datagram


# At the end that sends.


@step
def names_way(nics, n, port):
    """Whether the copied descriptor of ``port``, which sends datagrams, may go by what it names."""
    of = nics.ports.stream_of
    if port.operation != SEND or port.offset < of.shape[0] or port.offset >= of.shape[1]:
        return False
    if of[n, port.offset] == BLANK:
        return False
    return stream_to(nics.ports, n, port.offset).channel != 0


@step
def number_datagram(nics, n, port):
    """The number of the message that ``port`` begins, on its way."""
    stream = open_stream(nics, n, port.offset)
    stream.begun += 1
    return stream.begun


@step
def is_held_up(nics, n, p):
    """Whether port ``p`` may not begin a datagram yet, as another has begun one on that way."""
    port = nics.ports.table[n, p]
    if port.datagrams == 0:
        return False
    amid = stream_to(nics.ports, n, port.offset).amid
    return amid != OWN_PORT and amid != p


@step
def address_datagram(nics, n, p, head):
    """Fill in where the datagram under way at port ``p`` goes, by a way that it has now."""
    port = nics.ports.table[n, p]
    head.datagram = 1
    head.name = port.name
    open_stream(nics, n, port.offset).amid = p


@step
def leave_way(nics, n, p):
    """Nothing more of the datagram under way at port ``p`` will go: others may begin theirs."""
    port = nics.ports.table[n, p]
    if port.datagrams == 1 and port.busy == 1 and names_way(nics, n, port):
        stream = open_stream(nics, n, port.offset)
        if stream.amid == p:
            stream.amid = OWN_PORT
            nics.ports.nodes[n].attention = 1


# At the other end.


@step
def meet_datagram(nics, d, head):
    """Find which port the datagram of ``head`` is for: nobody, unless it shows that one's key."""
    table = nics.ports.table
    p = head.name
    head.name = stream_to(nics.ports, d, head.peer).channel
    head.remote = NOBODY
    if p >= table.shape[1] or head.name == 0 or not takes_datagrams(nics, d, p):
        return
    if table[d, p].qkey == head.swap:
        head.remote = p


@step
def takes_datagrams(nics, d, p):
    """Whether datagrams may come for port ``p``."""
    if p <= OWN_PORT:
        return False
    port = nics.ports.table[d, p]
    return port.open == 1 and port.takes == ONE and port.datagrams == 1 and port.state == CONNECTED


@step
def say_whence(nics, d, p, number, head):
    """Have the report of receive ``number`` say which node and port its datagram came from."""
    place = place_in(number, nics.ports.rules[0].ring)
    report = nics.ports.reports[d, p, RECEIVED, place]
    report.node = stream_to(nics.ports, d, head.peer).node
    report.offset = head.from_port
