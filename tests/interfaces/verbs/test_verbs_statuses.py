"""What a request comes to when something is wrong with it: the table of statuses, at both ends."""

import pytest
from verbs_ends import QKEY, End, needs, pair, route

from nicscope.interfaces.verbs import base
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AH
from nicscope.interfaces.verbs.mr import MR, MW, PD, MWBind, MWBindInfo
from nicscope.interfaces.verbs.qp import QPAttr
from nicscope.interfaces.verbs.wr import SendWR

LOCAL = e.IBV_ACCESS_LOCAL_WRITE
FLUSHED = e.IBV_WC_WR_FLUSH_ERR
ACCESS_EVENT, REQUEST_EVENT = e.IBV_EVENT_QP_ACCESS_ERR, e.IBV_EVENT_QP_REQ_ERR


def failed(left, right, status, theirs=None):
    """The requester sees ``status``, the responder ``theirs`` or nothing; both are in ERR."""
    assert left.completion().status == status
    assert left.qp.qp_state == e.IBV_QPS_ERR
    if theirs is not None:
        assert right.completion().status == theirs
    if status in (9, 10, 11):
        assert right.qp.qp_state == e.IBV_QPS_ERR


def test_a_message_arrives_and_both_know(world):
    left, right = pair(world)
    left.mr.write("hello", 5)
    right.receive(wr_id=7)
    left.send(5, wr_id=3)
    sent, got = left.completion(), right.completion()
    assert (sent.wr_id, sent.status, sent.opcode) == (3, 0, e.IBV_WC_SEND)
    assert (got.wr_id, got.status, got.opcode) == (7, 0, e.IBV_WC_RECV)
    assert (got.byte_len, got.qp_num) == (5, right.qp.qp_num)
    assert right.mr.read(5, 0) == b"hello"


@pytest.mark.parametrize("wrong", ["key", "range", "domain"])
def test_a_senders_memory_is_not_its_to_send(world, wrong):
    left, right = pair(world)
    foreign = MR(PD(left.context), 64, LOCAL)
    right.receive()
    if wrong == "key":
        left.send(lkey=left.mr.lkey + 1)
    elif wrong == "range":
        left.send(offset=4090)
    else:
        left.send(offset=foreign.buf - left.mr.buf, lkey=foreign.lkey)
    failed(left, right, e.IBV_WC_LOC_PROT_ERR)
    assert right.cq.poll()[0] == 0


def test_what_is_read_goes_where_one_may_write(world):
    left, right = pair(world)
    readable = MR(left.pd, 64, e.IBV_ACCESS_REMOTE_READ)
    where = readable.buf - left.mr.buf
    left.send(64, where, opcode=e.IBV_WR_RDMA_READ, remote=right.target(), lkey=readable.lkey)
    failed(left, right, e.IBV_WC_LOC_PROT_ERR)


def test_a_message_is_larger_than_the_buffer(world):
    left, right = pair(world)
    right.receive(32)
    left.send(64)
    failed(left, right, e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_LOC_LEN_ERR)


@pytest.mark.parametrize("wrong", ["key", "range", "moved"])
def test_a_receivers_memory_is_not_its_own(world, wrong):
    left, right = pair(world)
    if wrong == "key":
        right.receive(lkey=right.mr.lkey + 1)
    elif wrong == "range":
        right.receive(offset=4090)
    else:
        right.receive()
        right.mr.rereg(e.IBV_REREG_MR_CHANGE_PD, PD(right.context))
    left.send()
    failed(left, right, e.IBV_WC_REM_OP_ERR, e.IBV_WC_LOC_PROT_ERR)


@pytest.mark.parametrize("opcode", [e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ])
@pytest.mark.parametrize("wrong", ["key", "range", "domain", "right"])
def test_remote_memory_is_not_to_be_had(world, opcode, wrong):
    left, right = pair(world)
    held = b"held" * 16
    right.mr.write(held, 64)
    target = right.target()
    if wrong == "key":
        target = right.target(rkey=right.mr.rkey + 1)
    elif wrong == "range":
        target = right.target(4090)
    elif wrong == "domain":
        right.mr.rereg(e.IBV_REREG_MR_CHANGE_PD, PD(right.context))
    else:
        right.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=LOCAL)
    left.mr.write(b"mine" * 16, 64)
    left.send(opcode=opcode, remote=target)
    failed(left, right, e.IBV_WC_REM_ACCESS_ERR)
    assert right.cq.poll()[0] == 0
    event = right.context.get_async_event()
    assert event.event_type == ACCESS_EVENT
    assert (right.mr.read(64, 0), left.mr.read(64, 0)) == (held, b"mine" * 16)


def test_a_pair_that_does_not_allow_it_is_not_written_through(world):
    left, right = End(world), End(world)
    left.connect(right)
    right.connect(left, qp_access_flags=LOCAL)
    left.send(opcode=e.IBV_WR_RDMA_WRITE, remote=right.target())
    failed(left, right, e.IBV_WC_REM_INV_REQ_ERR)
    assert right.context.get_async_event().event_type == REQUEST_EVENT


def test_nobody_receives_and_patience_ends(world):
    left, right = pair(world)
    left.send()
    failed(left, right, e.IBV_WC_RNR_RETRY_EXC_ERR)
    assert right.qp.qp_state == e.IBV_QPS_RTS


def test_a_receive_that_comes_late_is_waited_for(world):
    left, right = End(world), End(world)
    left.connect(right, rnr_retry=7)
    right.connect(left)
    left.send(16)
    for _ in range(5):
        assert left.cq.poll()[0] == 0
    right.receive()
    assert (left.completion().status, right.completion().byte_len) == (0, 16)


@pytest.mark.parametrize("why", ["numbers", "reset", "another"])
def test_nobody_answers(world, why):
    left, right = End(world), End(world)
    left.connect(right, sq_psn=5)
    right.connect(left, rq_psn=6 if why == "numbers" else 5)
    if why == "reset":
        right.qp.modify(QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
    elif why == "another":
        right.qp.modify(QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
        right.connect(End(world), rq_psn=5)
    if why != "reset":
        right.receive()
    left.send()
    failed(left, right, e.IBV_WC_RETRY_EXC_ERR)
    assert right.cq.poll()[0] == 0


def test_all_that_was_posted_is_flushed_in_order(world):
    left, right = pair(world)
    left.receive(wr_id=21)
    left.receive(wr_id=22)
    left.send(wr_id=11, lkey=1)
    left.send(wr_id=12)
    left.send(wr_id=13)
    found = [left.completion() for _ in range(5)]
    assert [(each.wr_id, each.status) for each in found[:3]] == [
        (11, e.IBV_WC_LOC_PROT_ERR),
        (12, FLUSHED),
        (13, FLUSHED),
    ]
    assert sorted((each.wr_id, each.status) for each in found[3:]) == [(21, FLUSHED), (22, FLUSHED)]
    left.send(wr_id=14)
    left.receive(wr_id=23)
    assert {(each.wr_id, each.status) for each in (left.completion(), left.completion())} == {
        (14, FLUSHED),
        (23, FLUSHED),
    }
    assert right.qp.qp_state == e.IBV_QPS_RTS


def test_reset_forgets_what_was_there_and_a_pair_begins_anew(world):
    left, right = pair(world)
    right.receive()
    left.send()
    assert right.completion().status == 0
    held, _ = left.qp.query(0)
    for end in (left, right):
        end.qp.modify(QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
    assert left.cq.poll()[0] == 0
    left.connect(right, sq_psn=9)
    right.connect(left, rq_psn=9)
    assert held.dest_qp_num == right.qp.qp_num
    right.receive()
    left.send()
    assert (left.completion().status, right.completion().status) == (0, 0)


def bound(left, kind, access=e.IBV_ACCESS_REMOTE_WRITE, region=None, length=64):
    """A window of the left end, after its completion; its key and how the bind went."""
    region = left.mr if region is None else region
    window = MW(left.pd, kind)
    info = MWBindInfo(region, region.buf, length, access)
    if kind == e.IBV_MW_TYPE_1:
        left.qp.bind_mw(window, MWBind(info, e.IBV_SEND_SIGNALED))
        return window, window.rkey, left.completion().status
    wr = SendWR(opcode=e.IBV_WR_BIND_MW)
    wr.set_bind_wr(window, info)
    left.qp.post_send(wr)
    return window, wr.rkey, left.completion().status


@pytest.mark.parametrize("kind", [e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2])
def test_a_window_opens_a_part_of_a_region(world, kind):
    needs(world, windows=True)
    left, right = pair(world)
    _, key, status = bound(left, kind)
    assert status == 0
    right.mr.write(b"through", 7)
    right.send(7, opcode=e.IBV_WR_RDMA_WRITE, remote=left.target(rkey=key))
    assert right.completion().status == 0
    assert left.mr.read(7, 0) == b"through"
    right.send(7, opcode=e.IBV_WR_RDMA_WRITE, remote=left.target(60, rkey=key))
    failed(right, left, e.IBV_WC_REM_ACCESS_ERR)


@pytest.mark.parametrize("how", ["local", "remote", "closed"])
def test_a_window_that_was_closed_is_closed(world, how):
    needs(world, windows=True)
    left, right = pair(world)
    window, key, status = bound(left, e.IBV_MW_TYPE_2)
    assert status == 0
    if how == "local":
        left.qp.post_send(SendWR(opcode=e.IBV_WR_LOCAL_INV, imm_data=key))
        assert left.completion().status == 0
    elif how == "remote":
        left.receive()
        right.qp.post_send(SendWR(opcode=e.IBV_WR_SEND_WITH_INV, imm_data=key))
        assert right.completion().status == 0
        got = left.completion()
        assert (got.status, got.imm_data, got.wc_flags) == (0, key, e.IBV_WC_WITH_INV)
    else:
        window.close()
    right.send(7, opcode=e.IBV_WR_RDMA_WRITE, remote=left.target(rkey=key))
    failed(right, left, e.IBV_WC_REM_ACCESS_ERR)


@pytest.mark.parametrize("wrong", ["closed", "range", "domain"])
def test_a_window_that_may_not_open_does_not(world, wrong):
    needs(world, windows=True)
    left, right = pair(world)
    region, length = left.mr, 64
    if wrong == "closed":
        region = MR(left.pd, 64, LOCAL)
    elif wrong == "domain":
        region = MR(PD(left.context), 64, LOCAL | e.IBV_ACCESS_MW_BIND)
    else:
        length = 5000
    _, _, status = bound(left, e.IBV_MW_TYPE_2, region=region, length=length)
    assert status == e.IBV_WC_MW_BIND_ERR
    assert right.qp.qp_state == e.IBV_QPS_RTS


def atomic(left, right, opcode, add, swap=0, offset=0, length=8):
    wr = SendWR(opcode=opcode, num_sge=1, sg=[left.piece(length)])
    rkey, address = right.target(offset)
    wr.set_wr_atomic(rkey, address, add, swap)
    left.qp.post_send(wr)


def test_atomics_give_what_was_there(world):
    needs(world, opcodes=[e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD])
    left, right = pair(world)
    right.mr.write((40).to_bytes(8, "little"), 8)
    atomic(left, right, e.IBV_WR_ATOMIC_FETCH_AND_ADD, 2)
    assert left.completion().status == 0
    assert int.from_bytes(left.mr.read(8, 0), "little") == 40
    atomic(left, right, e.IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7)
    assert left.completion().opcode == e.IBV_WC_COMP_SWAP
    assert int.from_bytes(left.mr.read(8, 0), "little") == 42
    assert int.from_bytes(right.mr.read(8, 0), "little") == 7


@pytest.mark.parametrize(
    ("offset", "length", "status"),
    [(4, 8, e.IBV_WC_REM_INV_REQ_ERR), (0, 4, e.IBV_WC_LOC_LEN_ERR)],
)
def test_an_atomic_is_of_eight_bytes_at_their_place(world, offset, length, status):
    needs(world, opcodes=[e.IBV_WR_ATOMIC_FETCH_AND_ADD])
    left, right = pair(world)
    atomic(left, right, e.IBV_WR_ATOMIC_FETCH_AND_ADD, 2, offset=offset, length=length)
    failed(left, right, status)


def datagrams(world):
    needs(world, kinds=[e.IBV_QPT_UD])
    left, right = End(world, e.IBV_QPT_UD), End(world, e.IBV_QPT_UD)
    for end in (left, right):
        end.qp.to_rts(end.attr(end))
    return left, right


def datagram(left, right, length=64, qkey=QKEY, to=None):
    wr = SendWR(num_sge=1, sg=[left.piece(length)])
    wr.set_wr_ud(AH(left.pd, attr=route(right.context)), to or right.qp.qp_num, qkey)
    left.qp.post_send(wr)


def test_a_datagram_says_where_it_comes_from(world):
    left, right = datagrams(world)
    left.mr.write(b"datagram", 8)
    right.receive(200)
    datagram(left, right, 8)
    assert left.completion().status == 0
    got = right.completion()
    assert (got.byte_len, got.src_qp) == (48, left.qp.qp_num)
    assert got.wc_flags & e.IBV_WC_GRH
    assert right.mr.read(8, 40) == b"datagram"
    back = AH(right.pd, wc=got, grh=right.mr.buf, port_num=1)
    assert back.dgid == route(left.context).gr.dgid.raw


@pytest.mark.parametrize("wrong", ["key", "number", "nobody"])
def test_a_datagram_that_nobody_wants_is_gone(world, wrong):
    left, right = datagrams(world)
    if wrong != "nobody":
        right.receive(200)
    datagram(left, right, 8, QKEY + (wrong == "key"), 0xABCDE if wrong == "number" else None)
    assert left.completion().status == 0
    assert right.cq.poll()[0] == 0
    assert (left.qp.qp_state, right.qp.qp_state) == (e.IBV_QPS_RTS, e.IBV_QPS_RTS)


def test_a_datagram_is_one_packet(world):
    needs(world, kinds=[e.IBV_QPT_UD])
    left, right = datagrams(world)
    large = MR(left.pd, 1 << 14, LOCAL)
    wr = SendWR(num_sge=1, sg=[left.piece(8192, large.buf - left.mr.buf, large.lkey)])
    wr.set_wr_ud(AH(left.pd, attr=route(right.context)), right.qp.qp_num, QKEY)
    left.qp.post_send(wr)
    assert left.completion().status == e.IBV_WC_LOC_LEN_ERR
    assert left.qp.qp_state == e.IBV_QPS_SQE


def test_memory_that_was_given_back_stays_registered(world):
    left, right = pair(world)
    address = base.mmap(length=4096)
    region = MR(left.pd, 4096, LOCAL, address=address)
    base.write(address, b"pinned", 6)
    base.munmap(address, 4096)
    right.receive()
    left.send(6, address - left.mr.buf, lkey=region.lkey)
    assert (left.completion().status, right.completion().status) == (0, 0)
    assert right.mr.read(6, 0) == b"pinned"
