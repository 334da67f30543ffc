"""The firmware of connected ports alone: gathers to receives, without an agenda."""

import pytest
from bare_driver import PAGE, Bare

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.nic.ports.layout import (
    AS_ALL,
    CONNECTED,
    DONE,
    NO_RECEIVE,
    RECEIVED,
    RECEPTION,
    SENT,
    TOO_LONG,
)

DESIGNS = ("vmmc-static", "vmmc-interrupt", "unet-mm-pca200")
KEY = 5
TEXT = bytes(range(1, 251)) * 100
SIZE = PortSize(connections=2, segments=4, receives=4, regions=2)
INTO = [(2 * PAGE - 5, 10), (100, 3000), (5 * PAGE + 1, 2 * PAGE)]


def ready(design, level=AS_ALL, **how):
    bare = Bare(design, size=SIZE, **how)
    bare.map(0, 5, TEXT[: 5 * PAGE])
    bare.map(1, 8)
    bare.have_queues(KEY)
    bare.connect(level, 1000)
    return bare


def pieces(stretches):
    return [(address, length, KEY) for address, length in stretches if length]


def told(bare, node, ring, number=0):
    report = bare.ports.reports[node, 1, ring, number]
    return int(report["cookie"]), int(report["status"]), int(report["length"])


def settle(bare):
    """Until acknowledgements that could go with other packets have gone by themselves."""
    for _ in range(4):
        bare.run()
        bare.wait_long(1)
        bare.wait_long(0)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_gather_reaches_the_pieces_of_its_receive(design):
    bare = ready(design)
    bare.post_receive(1, pieces(INTO))
    bare.post_gather(0, pieces([(7, 4000), (2 * PAGE, 5000)]))

    settle(bare)

    found = b"".join(bare.read(1, address, length) for address, length in INTO)
    assert found[:9000] == TEXT[7:4007] + TEXT[2 * PAGE : 2 * PAGE + 5000]
    assert told(bare, 1, RECEIVED) == (0, DONE, 9000)
    assert told(bare, 0, SENT) == (0, DONE, 9000)


@pytest.mark.parametrize("frame", range(6))
def test_a_lost_frame_gives_no_receive_to_another_message(frame):
    bare = ready("vmmc-static", loses=lambda number: number == frame)
    for place in range(3):
        bare.post_receive(1, pieces([(place * 2 * PAGE, 2 * PAGE)]))
    for place in range(3):
        bare.post_gather(0, pieces([(place * 300, 1001 * place)]))

    settle(bare)

    assert [told(bare, 1, RECEIVED, place) for place in range(3)] == [
        (place, DONE, 1001 * place) for place in range(3)
    ]
    for place in range(3):
        at = place * 2 * PAGE
        assert bare.read(1, at, 1001 * place) == TEXT[300 * place : 1301 * place]
    assert bare.ports.table[1, 1]["state"] == CONNECTED


@pytest.mark.parametrize(("room", "status"), [(None, NO_RECEIVE), (999, TOO_LONG)])
def test_what_finds_no_fitting_receive_ends_the_connection_in_its_turn(room, status):
    bare = ready("vmmc-static", RECEPTION)
    bare.post_receive(1, pieces([(0, 2000)]))
    if room is not None:
        bare.post_receive(1, pieces([(PAGE, room)]))
    bare.post_gather(0, pieces([(0, 2000)]))
    bare.post_gather(0, pieces([(0, 1000)]))

    settle(bare)

    assert told(bare, 1, RECEIVED) == (0, DONE, 2000)
    assert told(bare, 0, SENT) == (0, DONE, 2000)
    assert bare.ports.table[1, 1]["state"] != CONNECTED
    assert bare.ports.table[0, 1]["state"] != CONNECTED
    if room is not None:
        assert told(bare, 1, RECEIVED, 1) == (1, status, 0)
