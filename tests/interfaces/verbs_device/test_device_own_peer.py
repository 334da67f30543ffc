"""A queue pair that is its own peer: what it is refused has the status that any other would see."""

from __future__ import annotations

import device_world as world
import pytest

from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.calls import QpState

OK, FLUSHED = codes.SUCCESS, codes.WR_FLUSH_ERR


@pytest.fixture
def alone():
    """A world whose first pair is connected with itself."""
    one = world.World()
    number = one.pairs[0]
    for state in (codes.INIT, codes.RTR, codes.RTS):
        one.device.modify_qp(
            number,
            QpState(state, world.ALL, dest_qpn=number, rq_psn=5, sq_psn=5, **world.MODEST),
        )
    return one


def to_itself(one, wr_id, opcode, length=8, off=0, key=0):
    names = {"remote_address": one.at[0] + off, "rkey": one.regions[0].rkey + key}
    one.send(0, wr_id, length, opcode, **names)


@pytest.mark.parametrize(
    ("opcode", "off", "key", "status", "event"),
    [
        (codes.WR_WRITE, 0, 1, codes.REM_ACCESS_ERR, codes.EVENT_QP_ACCESS_ERR),
        (codes.WR_READ, world.ROOM, 0, codes.REM_ACCESS_ERR, codes.EVENT_QP_ACCESS_ERR),
        (codes.WR_FETCH_ADD, 4, 0, codes.REM_INV_REQ_ERR, codes.EVENT_QP_REQ_ERR),
    ],
)
def test_what_it_refuses_itself_has_the_status_of_a_refusal(alone, opcode, off, key, status, event):
    for number in range(3):
        to_itself(alone, number, codes.WR_WRITE)
    to_itself(alone, 3, opcode, off=off, key=key)
    to_itself(alone, 4, codes.WR_WRITE)
    assert alone.statuses(0, 5) == [(0, OK), (1, OK), (2, OK), (3, status), (4, FLUSHED)]
    assert alone.states()[0] == codes.ERR
    assert alone.event() == (event, alone.pairs[0])


def test_a_message_to_itself_that_is_longer_than_its_receive(alone):
    alone.receive(0, 70, 4)
    alone.receive(0, 71, 4)
    alone.send(0, 1, 8)
    found = alone.statuses(0, 3)
    assert [each for each in found if each[0] == 1] == [(1, codes.REM_INV_REQ_ERR)]
    assert [each for each in found if each[0] != 1] == [(70, codes.LOC_LEN_ERR), (71, FLUSHED)]
