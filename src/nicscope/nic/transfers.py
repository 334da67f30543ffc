"""What the tasks of delivery do to rings, buffers and counters; ``delivery`` says which is next.

Bytes are moved by engines, which are the driver's: each effect says how many there are to move.
"""

from nicscope.kernel.decorators import step
from nicscope.nic.delivery import bytes_to_move, place_in


@step
def take_message(endpoint, sends):
    """Take the next message of the send ring, with a buffer for its payload: HOST_TX.

    Bytes that are to come from the host's memory.
    """
    packet = sends[place_in(endpoint.taken, endpoint.send_ring)]
    if packet.payload > 0:
        packet.buffer = endpoint.send_buffer
        endpoint.send_buffer = (endpoint.send_buffer + 1) % endpoint.send_buffers
        endpoint.send_used += 1
    endpoint.taken += 1
    return packet.payload


@step
def send_bytes(endpoint, deposited):
    """Payload bytes that the link takes of the oldest packet not sent, of ``deposited``: NET_TX."""
    count = bytes_to_move(endpoint, endpoint.minpulse_send, deposited, endpoint.sunk)
    endpoint.sunk += count
    return count


@step
def end_transmission(endpoint):
    """Count the oldest unsent packet as sent."""
    endpoint.sent += 1
    endpoint.sunk = 0
    endpoint.control_sent = 0


@step
def finish_message(endpoint, sends):
    """Free the buffer of the oldest sent packet: FINISH."""
    if sends[place_in(endpoint.finished, endpoint.send_ring)].payload > 0:
        endpoint.send_used -= 1
    endpoint.finished += 1


@step
def accept_header(endpoint, arrivals, packet):
    """Give an arrived header an entry of the receive ring; its slot."""
    slot = place_in(endpoint.accepted, endpoint.receive_ring)
    arrival = arrivals[slot]
    arrival.sender = packet.sender
    arrival.number = packet.number
    arrival.destination = packet.destination
    arrival.payload = packet.payload
    arrival.posted_at = packet.posted_at
    arrival.tag = packet.tag
    arrival.buffer = -1
    arrival.own = 0
    arrival.address = -1
    arrival.broken = 0
    arrival.fate = 0
    endpoint.mapped = 0
    endpoint.accepted += 1
    endpoint.arrived = 0
    endpoint.awaited = 1 if packet.payload > 0 else 0
    endpoint.open = endpoint.awaited
    return slot


@step
def take_receive_buffer(endpoint, packet):
    """Give the payload of the packet accepted last a buffer: POST_PAYLOAD."""
    endpoint.receive_used += 1
    packet.buffer = endpoint.receive_buffer
    endpoint.receive_buffer = (endpoint.receive_buffer + 1) % endpoint.receive_buffers


@step
def drain_bytes(endpoint, deposited):
    """Payload bytes that go to the host of the oldest packet not drained: HOST_RCV."""
    count = bytes_to_move(endpoint, endpoint.minpulse_receive, deposited, endpoint.drain_sunk)
    endpoint.drain_sunk += count
    return count


@step
def complete_packet(endpoint, arrivals):
    """Free the buffer of the oldest drained packet: COMPLETE."""
    if arrivals[place_in(endpoint.completed, endpoint.receive_ring)].buffer != -1:
        endpoint.receive_used -= 1
    endpoint.completed += 1
