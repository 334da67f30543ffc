"""Connections without an agenda: what each level confirms when, and how connections end."""

from __future__ import annotations

import pytest
from bare_driver import PAGE, Bare

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.nic.ports.layout import DELIVERY, DONE, RECEPTION, REJECTED, SENT, UNRELIABLE

TEXT = bytes(range(1, 251)) * 60
SIZE = PortSize(connections=8)


def connected(level, **how):
    bare = Bare("vmmc-static", size=SIZE, **how)
    bare.map(0, 8, TEXT[: 4 * PAGE])
    bare.map(1, 8)
    bare.connect(level)
    return bare


def stream_at(bare, node):
    """What the node keeps about its connection."""
    peer = bare.ports.channels[node, 1]["stream"]
    return bare.ports.pools.streams[bare.ports.stream_of[node, peer]]


def confirmed_while_draining(level):
    """Whether a packet was confirmed before it was completed."""
    bare = connected(level)
    bare.provide(1, 0)
    bare.post(0, 1, 0, PAGE)
    seen = []
    deliver = bare._deliver

    def watch(node):
        deliver(node)
        seen.append(int(stream_at(bare, node)["confirmed"]))

    bare._deliver = watch
    bare.run()
    assert int(stream_at(bare, 1)["confirmed"]) == 1
    return seen == [1]


def test_delivery_confirms_what_is_on_the_nic_and_reception_what_is_in_memory():
    assert confirmed_while_draining(DELIVERY)
    assert not confirmed_while_draining(RECEPTION)


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
@pytest.mark.parametrize("frame", range(3))
def test_a_reliable_connection_sends_again_what_is_lost(level, frame):
    bare = connected(level, loses=lambda number: number == frame)
    for page in range(3):
        bare.provide(1, page * PAGE)
    bare.post(0, 1, 0, 3 * PAGE)
    bare.run()
    for _ in range(2):
        bare.wait_long(0)
        bare.run()
        bare.wait_long(1)
        bare.run()
    assert bare.ports.table[1, 1]["received"] == 1
    assert bare.read(1, 0, 3 * PAGE) == TEXT[: 3 * PAGE]
    assert bare.ports.table[0, 1]["reported"] == 1


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_what_was_rejected_stays_known_when_later_packets_are_confirmed(level):
    bare = connected(level)
    bare.ports.channels[0, 2] = bare.ports.channels[0, 1]
    bare.ports.channels[0, 2]["tag"] = 7  # that nobody has registered there
    for page in range(5):
        bare.provide(1, page * PAGE)
    for tag in (1, 1, 2, 1, 1, 1):
        bare.post(0, tag, 0, 1024)
    bare.run()
    bare.wait_long(1)
    bare.run()
    told = list(bare.ports.reports[0, 1, SENT]["status"][:6])
    assert told == [DONE, DONE, REJECTED, DONE, DONE, DONE]


def test_an_unreliable_send_is_done_when_it_has_left_and_a_lost_one_is_lost():
    bare = connected(UNRELIABLE, loses=lambda number: number == 0)
    bare.provide(1, 0)
    for place in range(2):
        bare.post(0, 1, place * 100, 100)
    bare.run()
    reports = bare.ports.reports[0, 1, SENT]
    assert bare.ports.table[0, 1]["reported"] == 2
    assert list(reports["status"][:2]) == [DONE, DONE]
    assert bare.ports.table[1, 1]["received"] == 1
    assert bare.read(1, 0, 100) == TEXT[100:200]
    assert int(bare.ports.pool[0]["kept"]) == 0
