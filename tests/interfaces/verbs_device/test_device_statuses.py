"""Every row of the table of statuses: what the requester and the responder are told."""

from __future__ import annotations

import device_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.calls import Bind, Flush, Piece, QpState, Refused

OK, FLUSHED = codes.SUCCESS, codes.WR_FLUSH_ERR
BOTH_LIVE, ASKER_LOST, BOTH_LOST = [3, 3], [6, 3], [6, 6]


def test_a_send_arrives_with_its_bytes_and_its_word():
    two = world.World().connect()
    two.device.write(two.at[0], b"hello")
    two.receive(1, 7)
    two.send(0, 5, 5, codes.WR_SEND_IMM, imm=0xDEADBEEF)
    assert two.statuses(0) == [(5, OK)]
    (came,) = two.ended(1)
    assert (came.opcode, came.byte_len, came.imm) == (codes.WC_RECV, 5, 0xDEADBEEF)
    assert came.wc_flags == codes.WITH_IMM
    assert (came.qp_num, came.src_qp) == (two.pairs[1], two.pairs[0])
    assert two.device.read(two.at[1], 6) == b"hello\0"


@pytest.mark.parametrize("wrong", ["key", "range", "domain", "read only"])
def test_memory_of_its_own_that_a_send_may_not_use(wrong):
    two = world.World().connect()
    piece = two.piece(0, 16)
    if wrong == "key":
        piece = piece._replace(lkey=piece.lkey + 1)
    elif wrong == "range":
        piece = piece._replace(length=world.ROOM + 1)
    elif wrong == "domain":
        address, region = two.memory(pd=two.device.open_pd())
        piece = Piece(address, 16, region.lkey)
    opcode = codes.WR_SEND
    if wrong == "read only":  # it is where an answer would go
        address, region = two.memory(access=0)
        piece, opcode = Piece(address, 16, region.lkey), codes.WR_READ
    two.receive(0, 70)
    two.to_other(1, opcode, pieces=(piece,))
    two.send(0, 2)
    assert two.statuses(0, 3) == [(1, codes.LOC_PROT_ERR), (2, FLUSHED), (70, FLUSHED)]
    assert two.states() == ASKER_LOST


@pytest.mark.parametrize(
    "opcode", [codes.WR_SEND, codes.WR_WRITE, codes.WR_READ, codes.WR_FETCH_ADD]
)
@pytest.mark.parametrize("loss", [0, 0.2])
def test_what_was_asked_before_a_bad_request_ends_as_it_would_have(opcode, loss):
    two = world.World(faults=Faults(seed=3, loss=loss)).connect(timeout=8, retry=7)
    two.device.write(two.at[opcode in (codes.WR_READ, codes.WR_FETCH_ADD)], b"before")
    two.receive(0, 70)
    two.receive(1, 7)
    bad = two.piece(0, 16)
    two.to_other(1, opcode, 8)
    two.send(0, 2, pieces=(bad._replace(lkey=bad.lkey + 1),))
    two.send(0, 3)
    ends = [(1, OK), (2, codes.LOC_PROT_ERR), (3, FLUSHED), (70, FLUSHED)]
    assert two.statuses(0, 4) == ends
    assert {two.device.read(at, 6) for at in two.at} >= {b"before"}
    if opcode != codes.WR_FETCH_ADD:
        assert [two.device.read(at, 6) for at in two.at] == [b"before"] * 2
    assert two.states() == ASKER_LOST


def test_a_message_longer_than_its_receive():
    two = world.World().connect()
    two.receive(1, 7, 5)
    two.receive(1, 8)
    two.send(0, 1, 10)
    assert two.statuses(0) == [(1, codes.REM_INV_REQ_ERR)]
    assert two.statuses(1, 2) == [(7, codes.LOC_LEN_ERR), (8, FLUSHED)]
    assert two.states() == BOTH_LOST


def test_a_receive_that_may_not_be_used_any_more():
    two = world.World().connect()
    two.receive(1, 7)
    two.device.reregister(two.regions[1].handle, pd=two.device.open_pd())
    two.send(0, 1)
    assert two.statuses(0) == [(1, codes.REM_OP_ERR)]
    assert two.statuses(1) == [(7, codes.LOC_PROT_ERR)]
    assert two.states() == BOTH_LOST


@pytest.mark.parametrize("opcode", [codes.WR_WRITE, codes.WR_READ, codes.WR_FETCH_ADD])
@pytest.mark.parametrize("wrong", ["key", "range", "domain", "permission"])
def test_remote_memory_that_may_not_be_used(opcode, wrong):
    two = world.World().connect()
    names = {}
    if wrong == "key":
        names["rkey"] = two.regions[1].rkey + 1
    elif wrong == "range":
        names["remote_address"] = two.at[1] + world.ROOM
    elif wrong == "domain":
        address, region = two.memory(pd=two.device.open_pd())
        names = {"remote_address": address, "rkey": region.rkey}
    else:
        address, region = two.memory(access=codes.LOCAL_WRITE)
        names = {"remote_address": address, "rkey": region.rkey}
    two.to_other(1, opcode, 8, **names)
    assert two.statuses(0) == [(1, codes.REM_ACCESS_ERR)]
    assert two.states() == BOTH_LOST
    assert two.event() == (codes.EVENT_QP_ACCESS_ERR, two.pairs[1])


@pytest.mark.parametrize("opcode", [codes.WR_WRITE, codes.WR_READ, codes.WR_CMP_SWP])
def test_what_a_pair_permits_nobody(opcode):
    two = world.World().connect(access=codes.LOCAL_WRITE)
    two.to_other(1, opcode, 8)
    assert two.statuses(0) == [(1, codes.REM_INV_REQ_ERR)]
    assert two.event() == (codes.EVENT_QP_REQ_ERR, two.pairs[1])


def test_an_atomic_operation_on_what_is_no_word():
    two = world.World().connect()
    two.to_other(1, codes.WR_FETCH_ADD, 8, 4)
    assert two.statuses(0) == [(1, codes.REM_INV_REQ_ERR)]
    assert two.event() == (codes.EVENT_QP_REQ_ERR, two.pairs[1])


def test_an_atomic_operation_without_room_for_a_word():
    two = world.World().connect()
    two.to_other(1, codes.WR_FETCH_ADD, 7)
    assert two.statuses(0) == [(1, codes.LOC_LEN_ERR)]
    assert two.states() == ASKER_LOST


def test_no_receive_for_longer_than_is_waited():
    two = world.World().connect(rnr_retry=2, min_rnr_timer=14)
    before = two.device.now_ns
    two.send(0, 1)
    two.send(0, 2)
    assert two.statuses(0, 2) == [(1, codes.RNR_RETRY_EXC_ERR), (2, FLUSHED)]
    assert two.device.now_ns - before >= 2 * 1_280_000
    assert two.states() == ASKER_LOST


def test_a_receive_that_comes_late_is_waited_for():
    two = world.World().connect(rnr_retry=7, min_rnr_timer=14)
    two.send(0, 1)
    for _ in range(20):
        assert two.device.poll(two.cqs[0], 1) == []
    two.receive(1, 7)
    assert two.statuses(0) == [(1, OK)]
    assert two.statuses(1) == [(7, OK)]
    assert two.states() == BOTH_LIVE


@pytest.mark.parametrize("off", [1, -1, 1000])
def test_packets_of_other_numbers_than_are_expected_do_not_arrive(off):
    two = world.World().connect(off=off, timeout=8, retry=2)
    two.receive(1, 7)
    before = two.device.now_ns
    two.send(0, 1)
    assert two.statuses(0) == [(1, codes.RETRY_EXC_ERR)]
    assert two.device.now_ns - before >= 3 * 4_096 * 2**8
    assert two.device.poll(two.cqs[1], 1) == []


def test_nobody_answers():
    two = world.World()
    two.device.modify_qp(two.pairs[0], QpState(codes.INIT))
    for state in (codes.RTR, codes.RTS):
        asked = QpState(state, dest_qpn=0x9999, timeout=8, retry=1)
        two.device.modify_qp(two.pairs[0], asked)
    two.send(0, 1)
    assert two.statuses(0) == [(1, codes.RETRY_EXC_ERR)]
    assert two.device.qp_state(two.pairs[0]) == codes.ERR


@pytest.mark.parametrize("wrong", ["not bindable", "range", "domain"])
def test_a_window_that_cannot_be_bound(wrong):
    two = world.World(access=world.ALL | codes.MW_BIND).connect()
    region, address, length = two.regions[0], two.at[0], 100
    window = two.device.alloc_mw(two.pd, 2)
    if wrong == "not bindable":
        address, region = two.memory()
    elif wrong == "range":
        length = world.ROOM + 1
    else:
        window = two.device.alloc_mw(two.device.open_pd(), 2)
    bind = Bind(window.handle, region.handle, address, length, 6, window.rkey + 1)
    two.send(0, 1, opcode=codes.WR_BIND, pieces=(), bind=bind)
    assert two.statuses(0) == [(1, codes.MW_BIND_ERR)]


@pytest.mark.parametrize(
    ("flush", "status"),
    [
        (Flush(1, 0, 100), OK),
        (Flush(3, 0, world.ROOM), OK),
        (Flush(3, 1, 0), OK),
        (Flush(1, 0, world.ROOM + 1), codes.REM_ACCESS_ERR),
    ],
)
def test_flushes(flush, status):
    two = world.World().connect()
    two.to_other(1, codes.WR_FLUSH, pieces=(), flush=flush)
    assert two.statuses(0) == [(1, status)]


def test_a_flush_that_the_region_does_not_grant():
    two = world.World(access=world.ALL & ~codes.FLUSH_PERSISTENT).connect()
    two.to_other(1, codes.WR_FLUSH, pieces=(), flush=Flush(3, 0, 8))
    assert two.statuses(0) == [(1, codes.REM_ACCESS_ERR)]


def test_what_is_posted_in_error_is_flushed_in_its_order():
    two = world.World().connect()
    two.device.modify_qp(two.pairs[0], QpState(codes.ERR))
    for number in range(3):
        two.receive(0, 70 + number)
        two.send(0, number)
    found = two.statuses(0, 6)
    assert {status for _, status in found} == {FLUSHED}
    assert [number for number, _ in found if number < 70] == [0, 1, 2]
    assert [number for number, _ in found if number >= 70] == [70, 71, 72]


def test_reset_forgets_work_and_completions():
    two = world.World().connect()
    two.receive(1, 7)
    two.send(0, 1)
    assert two.statuses(0) == [(1, OK)]
    for pair in two.pairs:
        two.device.modify_qp(pair, QpState(codes.RESET))
    assert two.device.poll(two.cqs[1], 8) == []
    two.connect(psns=(5, 6))
    two.receive(1, 8)
    two.send(0, 2)
    assert two.statuses(0) == [(2, OK)]
    assert two.statuses(1) == [(8, OK)]


def test_posts_that_are_refused():
    two = world.World(depth=2)
    for call in (two.send, two.receive):
        with pytest.raises(Refused, match="EINVAL"):
            call(0, 1)
    two.connect()
    two.send(0, 1, opcode=codes.WR_WRITE, pieces=())
    two.send(0, 2, opcode=codes.WR_WRITE, pieces=())
    with pytest.raises(Refused, match="ENOMEM"):
        two.send(0, 3)
    assert two.statuses(0, 2) == [(1, OK), (2, OK)]
    two.send(0, 3, opcode=codes.WR_WRITE, pieces=())
    with pytest.raises(Refused, match="EINVAL"):
        two.send(0, 4, pieces=(two.piece(0, 1),) * 5)
    with pytest.raises(Refused, match="EINVAL"):
        two.send(0, 4, pieces=(), inline=bytes(65))


def test_unsignalled_work_gives_its_places_back_with_what_is_signalled_behind():
    two = world.World(depth=3)
    quiet = two.device.make_qp(
        two.pd, codes.RC, two.cqs[0], two.cqs[0], 0, world.Caps(3, 3, 1, 1, 0), False
    )
    two.pairs[0] = quiet.number
    two.connect()
    for number in range(2):
        two.to_other(number, codes.WR_WRITE, flags=0)
    two.to_other(2, codes.WR_WRITE)
    with pytest.raises(Refused, match="ENOMEM"):
        two.to_other(3, codes.WR_WRITE)
    assert two.statuses(0) == [(2, OK)]
    for number in range(3):
        two.to_other(number, codes.WR_WRITE, flags=0 if number < 2 else codes.SIGNALED)
    assert two.statuses(0) == [(2, OK)]


def test_a_full_completion_queue_is_dead():
    two = world.World().connect()
    small = two.device.make_cq(1).handle
    pair = two.device.make_qp(
        two.pd, codes.RC, small, small, 0, world.Caps(8, 8, 1, 1, 0), True
    ).number
    two.pairs[0] = pair
    two.connect()
    for number in range(3):
        two.to_other(number, codes.WR_WRITE)
    two.cqs[0] = small
    assert two.device.next_async_event([], [small], []) == (codes.EVENT_CQ_ERR, small)
    assert two.device.qp_state(pair) == codes.ERR


def test_what_is_given_by_value_stays_as_it_was_given_until_it_has_gone():
    two = world.World(depth=2).connect()
    for number in range(2):
        two.receive(1, number, offset=64 * number)
    texts = [b"first of the two", b"second of the 2!"]
    # Between the two, numbers go to what is posted beside.
    two.send(0, 0, pieces=(), inline=texts[0], flags=codes.SIGNALED | codes.INLINE)
    for number in range(2):
        two.receive(0, number)
    two.send(0, 1, pieces=(), inline=texts[1], flags=codes.SIGNALED | codes.INLINE)
    assert two.statuses(1, 2) == [(0, codes.SUCCESS), (1, codes.SUCCESS)]
    got = [bytes(two.device.read(two.at[1] + 64 * number, 16)) for number in range(2)]
    assert got == texts
