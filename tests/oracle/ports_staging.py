"""Messages that go on when their last packet is on the NIC, as one would first write it.

Both say whether the oldest packet waits for the rest of its message: to leave, to go in.
"""

from oracle.ports_receiving import WANTED
from oracle.ports_records import CUT, REPLY, SEND, WRITE

WHOLE = (SEND, WRITE, REPLY)  # what has messages of several packets


def waits_to_leave(twin, node):
    """No packet leaves while its message's last can still come onto the NIC and is not there."""
    half = twin.to_send(node)
    if half is None or half.control_taken or half.message.operation not in WHOLE:
        return False
    taken = [other for other in node.outgoing if not other.done]
    for other in taken:
        if is_last_of(other.message, half.message):
            return node.pci is not None and node.pci.half is other
    has_buffer = node.send_buffers() < twin.delivery.send_buffers
    if any(is_last_of(packet, half.message) for packet in node.ring):
        return has_buffer
    has_entry = node.send_ring() < twin.delivery.send_ring
    return has_entry and twin.choose(node) is not None and has_buffer


def waits_to_go_in(twin, node):
    """No packet goes in while the rest of its message, and nothing else, can come behind it."""
    half = twin.to_drain(node)
    if half is None or half.sunk or half.message.operation not in WHOLE or half.verdict != WANTED:
        return False
    behind = node.incoming[node.incoming.index(half) :]
    for other in behind:
        if other.message.operation == CUT or not is_of_one(other.message, half.message):
            return False
        if other.message.last:
            flows = node.rx is not None and node.rx.half is other
            begun = other.receive_posted or other.done
            return other.message.payload > 0 and (flows or not begun)
    has_buffer = node.receive_buffers() < twin.delivery.receive_buffers
    has_entry = node.accepted < twin.delivery.receive_ring
    return has_buffer and has_entry and len(behind) < twin.world.window


def is_last_of(packet, other):
    return packet.last and is_of_one(packet, other)


def is_of_one(packet, other):
    return packet.sender == other.sender and packet.descriptor is other.descriptor
