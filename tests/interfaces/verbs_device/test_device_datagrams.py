"""Datagrams, shared queues of receives, and extended connections that name them."""

import device_world as world
import pytest

from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Caps, Piece, QpState, Receive, Refused, UdTarget
from nicscope.interfaces.verbs_device.fabric import HEADER

OK = calls.SUCCESS
KEY = 0x11111111
GID = bytes.fromhex("fe800000000000000000000000000001")
OF_V4 = bytes(10) + b"\xff\xff" + bytes((10, 0, 0, 1))
CAPS = Caps(8, 8, 4, 4, 0)


def datagrams(**more):
    """Two pairs that send datagrams."""
    two = world.World(kind=calls.UD, **more)
    for pair in two.pairs:
        for state in (calls.INIT, calls.RTR, calls.RTS):
            two.device.modify_qp(pair, QpState(state, qkey=KEY))
    return two


def to(two, key=KEY, gid=GID):
    """Where pair 1 is."""
    return UdTarget(0, gid, two.pairs[1], key)


def test_a_datagram_comes_behind_a_header_that_says_whence():
    two = datagrams()
    two.device.write(two.at[0], b"datagram")
    two.receive(1, 7, 100)
    two.send(0, 1, 8, calls.WR_SEND_IMM, imm=5, ud=to(two))
    assert two.statuses(0) == [(1, OK)]
    (came,) = two.ended(1)
    assert (came.status, came.byte_len, came.src_qp) == (OK, 8 + HEADER, two.pairs[0])
    assert (came.wc_flags, came.imm_data) == (calls.WITH_GRH | calls.WITH_IMM, 5)
    found = two.device.read(two.at[1], 48)
    assert found == bytes((0x60, 0, 0, 0, 0, 8, 0x1B, 64)) + GID + GID + b"datagram"


def test_a_header_of_version_4_is_the_latter_half_and_sums_up():
    two = datagrams()
    pieces = (two.piece(1, 30), two.piece(1, 100, 1000))
    two.receive(1, 7, pieces=pieces)
    two.send(0, 1, 8, ud=to(two, gid=OF_V4))
    assert two.statuses(1) == [(7, OK)]
    head = two.device.read(two.at[1], 30) + two.device.read(two.at[1] + 1000, 10)
    assert head[:20] == bytes(20)
    assert head[20:24] == bytes((0x45, 0, 0, 28))
    assert head[32:] == bytes((10, 0, 0, 1)) * 2
    words = sum(int.from_bytes(head[at : at + 2], "big") for at in range(20, 40, 2))
    assert (words & 0xFFFF) + (words >> 16) == 0xFFFF


def test_each_datagram_says_whence_it_came_whatever_was_sent_after_it():
    two = datagrams()
    for number, gid in enumerate((OF_V4, GID)):
        two.receive(1, number, 100, 1000 * number)
        two.send(0, number, 8, ud=to(two, gid=gid))
    assert two.statuses(1, 2) == [(0, OK), (1, OK)]
    first, second = (two.device.read(two.at[1] + 1000 * number, 40) for number in (0, 1))
    assert (first[:20], first[20], first[32:]) == (bytes(20), 0x45, bytes((10, 0, 0, 1)) * 2)
    assert (second[0], second[8:]) == (0x60, GID + GID)


def test_a_datagram_for_a_pair_that_takes_none_is_sent_all_the_same():
    two = datagrams()
    two.receive(1, 7, 100)
    two.device.modify_qp(two.pairs[1], QpState(calls.RESET))
    two.send(0, 1, 8, ud=to(two))
    assert two.statuses(0) == [(1, OK)]
    assert two.device.poll(two.cqs[1], 1) == []
    assert two.states()[0] == calls.RTS


def test_a_key_with_its_top_bit_set_means_the_pairs_own():
    two = datagrams()
    two.receive(1, 7, 100)
    two.send(0, 1, 8, ud=to(two, key=1 << 31))
    assert two.statuses(1) == [(7, OK)]


def test_a_receive_without_room_for_the_header_is_too_short():
    two = datagrams()
    two.receive(1, 7, HEADER + 7)
    two.send(0, 1, 8, ud=to(two))
    assert two.statuses(0) == [(1, OK)]
    assert two.statuses(1) == [(7, calls.LOC_LEN_ERR)]


def test_an_error_stops_sending_until_the_pair_is_told_to_go_on():
    two = datagrams()
    for number in range(2):
        two.receive(1, 70 + number, 100)
    two.send(0, 1, 4097, ud=to(two))
    two.send(0, 2, 8, ud=to(two))
    assert two.statuses(0, 2) == [(1, calls.LOC_LEN_ERR), (2, calls.WR_FLUSH_ERR)]
    assert two.states() == [calls.SQE, calls.RTS]
    two.device.modify_qp(two.pairs[0], QpState(calls.RTS, qkey=KEY))
    two.send(0, 3, 8, ud=to(two))
    assert two.statuses(0) == [(3, OK)]
    assert two.statuses(1) == [(70, OK)]


def sharing(two, xrcd=0):
    """A shared queue of receives, of two at most, in a queue of completions of its own if named."""
    cq = two.device.make_cq(64).handle if xrcd else 0
    return two.device.make_srq(two.pd, 2, 2, xrcd, cq), cq


def give(two, queue, *numbers):
    """Post receives to a shared queue."""
    for number in numbers:
        piece = Piece(two.at[1] + number * 64, 64, two.regions[1].lkey)
        two.device.srq_post(queue.handle, Receive(number, (piece,)))


def test_pairs_draw_receives_from_one_queue_which_tells_when_few_are_left():
    two = world.World()
    queue, _ = sharing(two)
    cq = two.cqs[1]
    two.pairs[1] = two.device.make_qp(two.pd, calls.RC, cq, cq, queue.handle, CAPS, True).number
    two.connect(rnr_retry=7)
    with pytest.raises(Refused, match="EINVAL"):
        two.receive(1, 7)
    give(two, queue, 5, 6)
    with pytest.raises(Refused, match="ENOMEM"):
        give(two, queue, 7)
    two.device.srq_limit(queue.handle, 2)
    for number in range(3):
        two.send(0, number)
    assert two.statuses(1, 2) == [(5, OK), (6, OK)]
    found = two.device.next_async_event([], [], [queue.handle])
    assert tuple(found) == (calls.EVENT_SRQ_LIMIT, queue.handle)
    assert two.device.srq_read_limit(queue.handle) == 0
    give(two, queue, 9)
    assert two.statuses(1) == [(9, OK)]
    assert two.statuses(0, 3) == [(0, OK), (1, OK), (2, OK)]
    with pytest.raises(Refused, match="EBUSY"):
        two.device.free_srq(queue.handle)
    two.device.free_qp(two.pairs[1])
    two.device.free_srq(queue.handle)


def test_a_sender_names_the_queue_whose_completions_tell_of_its_message():
    two = world.World()
    device, domain = two.device, two.device.make_xrcd()
    one, one_cq = sharing(two, domain)
    other, other_cq = sharing(two, domain)
    sender = device.make_qp(two.pd, calls.XRC_SEND, two.cqs[0], 0, 0, CAPS, True).number
    taker = device.make_qp(0, calls.XRC_RECV, 0, 0, 0, CAPS, True, domain).number
    two.pairs = [sender, taker]
    two.connect()
    give(two, one, 1, 2)
    give(two, other, 3, 4)
    for number, queue in enumerate((one, other, other, one)):
        two.send(0, number, srqn=queue.number)
    assert two.statuses(0, 4) == [(number, OK) for number in range(4)]
    for cq, wanted in ((other_cq, [3, 4]), (one_cq, [1, 2])):
        found = device.poll(cq, 8) + device.poll(cq, 8)
        assert [each.wr_id for each in found] == wanted
        assert {each.qp_num for each in found} == {taker}
    two.to_other(9, calls.WR_WRITE, srqn=one.number)
    assert two.statuses(0) == [(9, OK)]
    with pytest.raises(Refused, match="EBUSY"):
        device.free_xrcd(domain)


def test_what_a_queue_of_a_domain_has_taken_is_not_told_of_once_it_has_gone():
    two = world.World()
    device, domain = two.device, two.device.make_xrcd()
    gone, cq = sharing(two, domain)
    stays = device.make_srq(two.pd, 2, 2, domain, cq)
    sender = device.make_qp(two.pd, calls.XRC_SEND, two.cqs[0], 0, 0, CAPS, True).number
    taker = device.make_qp(0, calls.XRC_RECV, 0, 0, 0, CAPS, True, domain).number
    two.pairs = [sender, taker]
    two.connect()
    give(two, gone, 1, 2)
    give(two, stays, 3)
    for number, queue in enumerate((gone, stays, gone)):
        two.send(0, number, srqn=queue.number)
    assert two.statuses(0, 3) == [(number, OK) for number in range(3)]

    device.free_srq(gone.handle)

    assert [each.wr_id for each in device.poll(cq, 1)] == [3]
    assert device.poll(cq, 8) == []
    give(two, stays, 4, 5)
    two.send(0, 4, srqn=stays.number)
    assert [each.wr_id for each in device.poll(cq, 8) + device.poll(cq, 8)] == [4]


@pytest.mark.parametrize("is_reset", [False, True])
def test_what_a_pair_drew_and_nobody_saw_makes_room_in_the_shared_queue(is_reset):
    two = world.World()
    queue = two.device.make_srq(two.pd, 2, 2)
    for _ in range(3):
        drawing = two.device.make_qp(
            two.pd, calls.RC, two.cqs[1], two.cqs[1], queue.handle, CAPS, True
        ).number
        two.pairs = [two.pair(0, CAPS), drawing]
        two.connect()
        for number in range(2):
            piece = two.piece(1, 64)
            two.device.srq_post(queue.handle, Receive(number, (piece,)))
            two.send(0, number, 8)
        assert two.statuses(0, 2) == [(0, OK), (1, OK)]
        if is_reset:
            two.device.modify_qp(drawing, QpState(calls.RESET))
        two.device.free_qp(drawing)
        assert two.device.poll(two.cqs[1], 64) == []
