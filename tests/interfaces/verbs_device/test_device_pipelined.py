"""Requests behind each other of which one fails: those before it end well, and before it."""

import device_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Flush

OK, FLUSHED = calls.SUCCESS, calls.WR_FLUSH_ERR


@pytest.mark.parametrize("design", ["vmmc-interrupt", "utlb"])
@pytest.mark.parametrize(
    "faults", [Faults(), *(Faults(seed=seed, loss=0.1, duplication=0.1) for seed in range(2))]
)
@pytest.mark.parametrize("wrong", ["key", "place", "read"])
def test_what_was_answered_for_ends_well_before_what_is_refused(design, faults, wrong):
    two = world.World(design, faults=faults).connect(path_mtu_bytes=1024, timeout=5, retry=7)
    device, word = two.device, (41).to_bytes(8, "little")
    device.write(two.at[1], word + b"r" * 4000)
    places = [(two.piece(0, 8, 64),), (two.piece(0, 3000, 128),)]
    two.to_other(1, calls.WR_FETCH_ADD, pieces=places[0], compare_add=1)
    two.to_other(2, calls.WR_READ, pieces=places[1])
    two.to_other(3, calls.WR_FLUSH, pieces=(), flush=Flush(1, 0, 8))
    if wrong == "key":
        two.to_other(4, calls.WR_WRITE, 8, 4096, rkey=two.regions[1].rkey + 1)
    elif wrong == "place":
        two.to_other(4, calls.WR_FETCH_ADD, 8, 4)
    else:
        two.to_other(4, calls.WR_READ, 8, world.ROOM)
    two.to_other(5, calls.WR_WRITE, 8, 4096)
    two.to_other(6, calls.WR_READ, 8)
    status = calls.REM_INV_REQ_ERR if wrong == "place" else calls.REM_ACCESS_ERR
    ended = [(1, OK), (2, OK), (3, OK), (4, status), (5, FLUSHED), (6, FLUSHED)]
    assert two.statuses(0, 6) == ended
    assert two.states() == [calls.ERR, calls.ERR]
    assert device.read(two.at[0] + 64, 8) == word
    assert device.read(two.at[0] + 128, 3000) == (42).to_bytes(8, "little") + b"r" * 2992
    assert device.read(two.at[1] + 4096, 8) == bytes(8)
    event = calls.EVENT_QP_REQ_ERR if wrong == "place" else calls.EVENT_QP_ACCESS_ERR
    assert two.event() == (event, two.pairs[1])


def test_a_pair_that_leaves_before_its_sentence_is_as_new():
    two = world.World().connect()
    two.to_other(1, calls.WR_READ, 4000)
    two.to_other(2, calls.WR_WRITE, 8, rkey=1)
    for pair in two.pairs:
        two.device.modify_qp(pair, world.QpState(calls.RESET))
    two.connect(psns=(7, 8))
    two.to_other(3, calls.WR_READ, 4000)
    assert two.statuses(0) == [(3, OK)]
    assert two.states() == [calls.RTS, calls.RTS]
