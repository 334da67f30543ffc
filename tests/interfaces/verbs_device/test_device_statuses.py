"""Every row of the table of statuses: what the requester and the responder are told."""

import device_world as world
import pytest
from msgspec.structs import replace

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Flush, QpState, Refused

OK, FLUSHED = calls.SUCCESS, calls.WR_FLUSH_ERR
ASKER_LOST = [calls.ERR, calls.RTS]


def test_a_send_arrives_with_its_bytes_and_its_word():
    two = world.World().connect()
    two.device.write(two.at[0], b"hello")
    two.receive(1, 7)
    two.send(0, 5, 5, calls.WR_SEND_IMM, imm=0xDEADBEEF)
    assert two.statuses(0) == [(5, OK)]
    (came,) = two.ended(1)
    assert (came.opcode, came.byte_len, came.imm_data) == (calls.WC_RECV, 5, 0xDEADBEEF)
    assert came.wc_flags == calls.WITH_IMM
    assert (came.qp_num, came.src_qp) == (two.pairs[1], two.pairs[0])
    assert two.device.read(two.at[1], 6) == b"hello\0"


@pytest.mark.parametrize(
    "opcode", [calls.WR_SEND, calls.WR_WRITE, calls.WR_READ, calls.WR_FETCH_ADD]
)
@pytest.mark.parametrize("loss", [0, 0.2])
def test_what_was_asked_before_a_bad_request_ends_as_it_would_have(opcode, loss):
    two = world.World(faults=Faults(seed=3, loss=loss)).connect(timeout=8, retry=7)
    two.device.write(two.at[opcode in (calls.WR_READ, calls.WR_FETCH_ADD)], b"before")
    two.receive(0, 70)
    two.receive(1, 7)
    bad = two.piece(0, 16)
    two.to_other(1, opcode, 8)
    two.send(0, 2, pieces=(replace(bad, lkey=bad.lkey + 1),))
    two.send(0, 3)
    ends = [(1, OK), (2, calls.LOC_PROT_ERR), (3, FLUSHED), (70, FLUSHED)]
    assert two.statuses(0, 4) == ends
    assert {two.device.read(at, 6) for at in two.at} >= {b"before"}
    if opcode != calls.WR_FETCH_ADD:
        assert [two.device.read(at, 6) for at in two.at] == [b"before"] * 2
    assert two.states() == ASKER_LOST


@pytest.mark.parametrize("wrong", ["key", "range", "domain", "permission"])
def test_a_word_of_remote_memory_that_may_not_be_used(wrong):
    two = world.World().connect()
    pd = two.device.open_pd() if wrong == "domain" else None
    access = calls.LOCAL_WRITE if wrong == "permission" else world.ALL
    address, region = two.memory(access, pd=pd)
    place = address + world.ROOM * (wrong == "range")
    key = region.rkey + (wrong == "key")
    two.to_other(1, calls.WR_FETCH_ADD, 8, remote_address=place, rkey=key)
    assert two.statuses(0) == [(1, calls.REM_ACCESS_ERR)]
    assert two.states() == [calls.ERR, calls.ERR]
    assert two.event() == (calls.EVENT_QP_ACCESS_ERR, two.pairs[1])


@pytest.mark.parametrize("opcode", [calls.WR_WRITE, calls.WR_READ, calls.WR_CMP_SWP])
def test_what_a_pair_permits_nobody(opcode):
    two = world.World().connect(access=calls.LOCAL_WRITE)
    two.to_other(1, opcode, 8)
    assert two.statuses(0) == [(1, calls.REM_INV_REQ_ERR)]
    assert two.event() == (calls.EVENT_QP_REQ_ERR, two.pairs[1])


def test_no_receive_for_longer_than_is_waited():
    two = world.World().connect(rnr_retry=2, min_rnr_timer=14)
    before = two.device.now_ns
    two.send(0, 1)
    two.send(0, 2)
    assert two.statuses(0, 2) == [(1, calls.RNR_RETRY_EXC_ERR), (2, FLUSHED)]
    assert two.device.now_ns - before >= 2 * 1_280_000
    assert two.states() == ASKER_LOST


@pytest.mark.parametrize("off", [1, -1, 1000])
def test_packets_of_other_numbers_than_are_expected_do_not_arrive(off):
    two = world.World().connect(off=off, timeout=8, retry=2)
    two.receive(1, 7)
    before = two.device.now_ns
    two.send(0, 1)
    assert two.statuses(0) == [(1, calls.RETRY_EXC_ERR)]
    assert two.device.now_ns - before >= 3 * 4_096 * 2**8
    assert two.device.poll(two.cqs[1], 1) == []


LITTLE = world.ALL & ~calls.FLUSH_PERSISTENT


@pytest.mark.parametrize(
    ("flush", "access", "status"),
    [
        (Flush(1, 0, 100), LITTLE, OK),
        (Flush(3, 0, world.ROOM), world.ALL, OK),
        (Flush(3, 1, 0), world.ALL, OK),
        (Flush(1, 0, world.ROOM + 1), world.ALL, calls.REM_ACCESS_ERR),
        (Flush(3, 0, 8), LITTLE, calls.REM_ACCESS_ERR),
    ],
)
def test_flushes_are_of_what_the_region_grants(flush, access, status):
    two = world.World(access=access).connect()
    two.to_other(1, calls.WR_FLUSH, pieces=(), flush=flush)
    assert two.statuses(0) == [(1, status)]


def test_unsignalled_work_gives_its_places_back_with_what_is_signalled_behind():
    two = world.World(depth=3)
    two.pairs[0] = two.pair(0, world.Caps(3, 3, 1, 1, 0), signals=False)
    two.connect()
    for number in range(2):
        two.to_other(number, calls.WR_WRITE, flags=0)
    two.to_other(2, calls.WR_WRITE)
    with pytest.raises(Refused, match="ENOMEM"):
        two.to_other(3, calls.WR_WRITE)
    assert two.statuses(0) == [(2, OK)]
    for number in range(3):
        two.to_other(number, calls.WR_WRITE, flags=0 if number < 2 else calls.SIGNALED)
    assert two.statuses(0) == [(2, OK)]


def test_a_full_completion_queue_is_dead():
    two = world.World().connect()
    two.cqs[0] = small = two.device.make_cq(1).handle
    two.pairs[0] = pair = two.pair(0, world.Caps(8, 8, 1, 1, 0))
    two.connect()
    for number in range(3):
        two.to_other(number, calls.WR_WRITE)
    assert two.device.next_async_event([], [small], []) == (calls.EVENT_CQ_ERR, small)
    assert two.device.qp_state(pair) == calls.ERR


def test_what_is_given_by_value_stays_as_it_was_given_until_it_has_gone():
    two = world.World(depth=2).connect()
    for number in range(2):
        two.receive(1, number, offset=64 * number)
    texts = [b"first of the two", b"second of the 2!"]
    # Between the two, numbers go to what is posted beside.
    two.send(0, 0, pieces=(), inline=texts[0], flags=calls.SIGNALED | calls.INLINE)
    for number in range(2):
        two.receive(0, number)
    two.send(0, 1, pieces=(), inline=texts[1], flags=calls.SIGNALED | calls.INLINE)
    assert two.statuses(1, 2) == [(0, calls.SUCCESS), (1, calls.SUCCESS)]
    got = [bytes(two.device.read(two.at[1] + 64 * number, 16)) for number in range(2)]
    assert got == texts


# --- a pair that is its own peer ------------------------------------------------------------------


@pytest.fixture
def alone():
    """A world whose first pair is connected with itself."""
    one = world.World()
    number = one.pairs[0]
    for state in (calls.INIT, calls.RTR, calls.RTS):
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
        (calls.WR_WRITE, 0, 1, calls.REM_ACCESS_ERR, calls.EVENT_QP_ACCESS_ERR),
        (calls.WR_READ, world.ROOM, 0, calls.REM_ACCESS_ERR, calls.EVENT_QP_ACCESS_ERR),
        (calls.WR_FETCH_ADD, 4, 0, calls.REM_INV_REQ_ERR, calls.EVENT_QP_REQ_ERR),
    ],
)
def test_what_it_refuses_itself_has_the_status_of_a_refusal(alone, opcode, off, key, status, event):
    for number in range(3):
        to_itself(alone, number, calls.WR_WRITE)
    to_itself(alone, 3, opcode, off=off, key=key)
    to_itself(alone, 4, calls.WR_WRITE)
    assert alone.statuses(0, 5) == [(0, OK), (1, OK), (2, OK), (3, status), (4, FLUSHED)]
    assert alone.states()[0] == calls.ERR
    assert alone.event() == (event, alone.pairs[0])


def test_a_message_to_itself_that_is_longer_than_its_receive(alone):
    alone.receive(0, 70, 4)
    alone.receive(0, 71, 4)
    alone.send(0, 1, 8)
    found = alone.statuses(0, 3)
    assert [each for each in found if each[0] == 1] == [(1, calls.REM_INV_REQ_ERR)]
    assert [each for each in found if each[0] != 1] == [(70, calls.LOC_LEN_ERR), (71, FLUSHED)]
