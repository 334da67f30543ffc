"""Store-and-forward by message: a message goes on when its last packet is on the NIC.

``nic.delivery`` decides packet by packet; what it may not pass on yet is said here, before it
looks.  No message waits for what cannot come: not for packets that find no buffer, no entry of a
ring and no place in the window, and at the receiver not once a packet of another message is behind
it.
Source: EDT, 3: the NIC has moved the whole message in when it goes out.
"""

from __future__ import annotations

from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import has_ring_entry, place_in
from nicscope.nic.ports.arrivals import TAKEN
from nicscope.nic.ports.layout import BARRED, REPLY, SEND, WRITE


@distant
def hold_messages(nics, n, fetching):
    """Say whether the oldest packets of ``n`` wait for the rest of their messages.

    ``fetching``: the packet that hostTx is moving, or -1.
    """
    endpoint = nics.endpoints[n]
    endpoint.holds_sent = 1 if _gathers(nics, n, fetching) else 0
    endpoint.holds_drained = 1 if _collects(nics, n) else 0


@step
def _gathers(nics, n, fetching):
    """Whether the oldest packet not sent is to leave when more of its message is on the NIC."""
    endpoint = nics.endpoints[n]
    if endpoint.sent == endpoint.taken or endpoint.control_sent == 1:
        return False
    heads, sends = nics.ports.send_heads, nics.sends
    first = place_in(endpoint.sent, endpoint.send_ring)
    oldest, destination = heads[n, first], sends[n, first].destination
    if oldest.kind not in (SEND, WRITE, REPLY):
        return False
    is_full = endpoint.send_used == endpoint.send_buffers
    for i in range(endpoint.sent, endpoint.written):
        place = place_in(i, endpoint.send_ring)
        head = heads[n, place]
        goes_there = sends[n, place].destination == destination
        if head.last == 1 and goes_there and _is_of_one(head, oldest):
            return i == fetching or (i >= endpoint.taken and not is_full)
    return endpoint.to_serve != 0 and not is_full


@step
def _collects(nics, n):
    """Whether the oldest packet not drained is to go in when more of its message has come."""
    endpoint = nics.endpoints[n]
    if endpoint.drained == endpoint.accepted or endpoint.drain_sunk > 0:
        return False
    slot = place_in(endpoint.drained, endpoint.receive_ring)
    oldest, sender = nics.ports.arrival_heads[n, slot], nics.arrivals[n, slot].sender
    if oldest.kind not in (SEND, WRITE, REPLY) or oldest.status != TAKEN:
        return False
    for i in range(endpoint.drained, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = nics.ports.arrival_heads[n, slot]
        if nics.arrivals[n, slot].sender != sender or not _is_of_one(head, oldest):
            return False
        if head.last == 1:
            return i == endpoint.accepted - 1 and endpoint.open == 1
    if endpoint.accepted - endpoint.drained >= nics.ports.rules[0].window:
        return False
    return endpoint.receive_used < endpoint.receive_buffers and has_ring_entry(endpoint)


@step
def _is_of_one(head, other):
    """Whether a packet, lost or not, is of the same message as ``other``, which was not lost.

    Both go between the same two nodes.  An answer that is refused half-way ends with a descriptor
    of its own: it is known by what it answers.
    """
    if head.from_port != other.from_port or head.kind & ~BARRED != other.kind:
        return False
    if other.kind == REPLY:
        return head.name == other.name and head.slot == other.slot
    return head.cookie == other.cookie
