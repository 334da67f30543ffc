"""Which packets are of one message, and wait for its last: packets that look alike are not."""

from types import SimpleNamespace

import pytest

from nicscope.drivers.simulate.ports import network
from nicscope.kernel.records import records
from nicscope.nic.delivery import ENDPOINT, PACKET
from nicscope.nic.ports.arrivals import TAKEN, update_store_and_forward
from nicscope.nic.ports.layout import HEAD, REPLY, SEND, VOIDED


def staged(side, *packets):
    """A node's NIC with ``packets`` on one side: kind, number, whether it is the last, and peer.

    The number is an answer's of the question, and another message's its own.
    """
    nics = SimpleNamespace(
        endpoints=records(1, ENDPOINT),
        arrivals=records((1, 4), PACKET),
        sends=records((1, 4), PACKET),
        ports=SimpleNamespace(
            arrival_heads=records((1, 4), HEAD),
            send_heads=records((1, 4), HEAD),
            rules=[SimpleNamespace(window=8)],
        ),
    )
    endpoint = nics.endpoints[0]
    for name in ("send_ring", "receive_ring", "send_buffers", "receive_buffers"):
        setattr(endpoint, name, 4)
    for place, (kind, number, last, peer) in enumerate(packets):
        head = getattr(nics.ports, f"{side}_heads")[0, place]
        head.kind, head.last, head.status = kind, last, TAKEN
        if kind | VOIDED == REPLY | VOIDED:
            head.slot, head.cookie = number, place
        else:
            head.cookie = number
        packet = (nics.sends if side == "send" else nics.arrivals)[0, place]
        packet.sender, packet.destination = (0, peer) if side == "send" else (peer, 0)
    if side == "send":
        endpoint.taken = 1
        endpoint.written = len(packets)
    else:
        endpoint.accepted = len(packets)
    update_store_and_forward(nics, 0, -1)
    return endpoint


@pytest.mark.parametrize(
    ("second", "waits"),
    [
        ((REPLY, 5, 0, 1), 1),  # the last is still to come
        ((REPLY | VOIDED, 5, 0, 1), 1),  # lost, and so is its place here
        ((SEND, 5, 0, 1), 0),  # of the same port and cookie, and a message of its own
        ((REPLY, 5, 0, 2), 0),
        ((REPLY, 6, 0, 1), 0),
    ],
)
def test_a_packet_goes_in_once_something_else_has_come_behind_it(second, waits):
    endpoint = staged("arrival", (REPLY, 5, 0, 1), second)

    assert endpoint.holds_drained == waits


@pytest.mark.parametrize(
    ("second", "waits"),
    [((REPLY, 5, 1, 1), 1), ((SEND, 5, 1, 1), 0), ((REPLY, 5, 1, 2), 0), ((REPLY, 6, 1, 1), 0)],
)
def test_a_packet_waits_to_leave_for_the_last_of_its_own_message(second, waits):
    endpoint = staged("send", (REPLY, 5, 0, 1), second)

    assert endpoint.holds_sent == waits


@pytest.mark.parametrize(("number", "later"), [(7, True), (3, False)])
def test_a_request_ends_later_for_copies_of_its_own_packets_alone(number, later):
    """And not for those of an older one, whose place in the ring it has."""
    machine = SimpleNamespace(
        endpoints=records(1, ENDPOINT),
        ports=SimpleNamespace(send_heads=records((1, 4), HEAD), rules=[SimpleNamespace(faults=1)]),
    )
    machine.endpoints[0].send_ring = 4
    machine.endpoints[0].written = 2
    last, copy = machine.ports.send_heads[0, 0], machine.ports.send_heads[0, 1]
    last.cookie, copy.cookie, copy.copied = 7, number, 1

    assert network._has_copies_pending(machine, 0, last) == later
    assert copy.tells == later
