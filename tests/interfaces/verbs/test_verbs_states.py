"""Which state of a queue pair follows which, and what has to be said at each step."""

import pytest
from verbs_ends import QKEY, End, needs, open_context, pair, refused, route

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.cq import CQ
from nicscope.interfaces.verbs.mr import PD
from nicscope.interfaces.verbs.qp import (
    EVERY,
    QP,
    QPAttr,
    QPInitAttr,
    heard,
    table,
    transition_errno,
)

STATE = int(e.IBV_QP_STATE)
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
CONNECTED = "PKEY_INDEX PORT ACCESS_FLAGS"
WAY = "AV PATH_MTU DEST_QPN RQ_PSN"
# What has to be said, as the interface's documents list it.
SAID = {
    e.IBV_QPT_RC: (
        CONNECTED,
        f"{WAY} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
        "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
    ),
    e.IBV_QPT_UC: (CONNECTED, WAY, "SQ_PSN"),
    e.IBV_QPT_UD: ("PKEY_INDEX PORT QKEY", "", "SQ_PSN"),
    e.IBV_QPT_XRC_SEND: (CONNECTED, WAY, "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC"),
    e.IBV_QPT_XRC_RECV: (CONNECTED, f"{WAY} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER", "TIMEOUT SQ_PSN"),
    e.IBV_QPT_RAW_PACKET: ("PORT", "", ""),
}
STEPS = [(RESET, INIT), (INIT, RTR), (RTR, RTS)]


def bits(names):
    return [int(getattr(e, f"IBV_QP_{name}")) for name in names.split()]


@pytest.mark.parametrize("kind", EVERY)
def test_each_step_takes_exactly_what_is_listed(kind):
    for (now, then), names in zip(STEPS, SAID[kind], strict=True):
        wanted = bits(names)
        assert transition_errno(kind, now, then, sum(wanted)) == 0
        assert all(transition_errno(kind, now, then, sum(wanted) - bit) for bit in wanted)


@pytest.mark.parametrize("kind", [e.IBV_QPT_XRC_SEND, e.IBV_QPT_XRC_RECV])
def test_an_xrc_queue_pair_may_be_told_all_that_a_reliable_connection_is(kind):
    for (now, then), names in zip(STEPS, SAID[e.IBV_QPT_RC], strict=True):
        assert transition_errno(kind, now, then, heard(kind, sum(bits(names)))) == 0
    for other in {*EVERY} - {kind, e.IBV_QPT_XRC_SEND, e.IBV_QPT_XRC_RECV}:
        assert heard(other, (1 << 26) - 1) == (1 << 26) - 1


@pytest.mark.parametrize("kind", EVERY)
def test_no_step_but_those_of_the_table(kind):
    ahead = {*STEPS, (INIT, INIT), (RTS, RTS), (RTS, SQD), (SQD, SQD), (SQD, RTS), (SQE, RTS)}
    for now in range(7):
        for then in range(7):
            known = then in (RESET, ERR) or (now, then) in ahead
            assert ((now, then) in table()) == known
            if not known:
                assert transition_errno(kind, now, then, 0)


def test_a_bit_too_many_changes_nothing(device_world):
    left, right = pair(device_world)
    before, _ = left.qp.query(0)
    with refused("EINVAL", "Failed to modify QP"):
        left.qp.modify(QPAttr(RTS), STATE | e.IBV_QP_DEST_QPN)
    after, _ = left.qp.query(0)
    assert after.dest_qp_num == before.dest_qp_num == right.qp.qp_num
    assert left.qp.qp_state == RTS


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("port_num", 2, "EINVAL"),
        ("pkey_index", 1, "EINVAL"),
        ("path_mtu", 9, "EINVAL"),
        ("max_dest_rd_atomic", 1000, "EINVAL"),
        ("max_rd_atomic", 1000, "EINVAL"),
        ("timeout", 32, "EINVAL"),
        ("retry_cnt", 8, "EINVAL"),
        ("rnr_retry", 8, "EINVAL"),
        ("min_rnr_timer", 32, "EINVAL"),
    ],
)
def test_a_value_that_the_device_has_not(device_world, name, value, code):
    left, right = End(device_world), End(device_world)
    with refused(code, "Failed to modify QP"):
        left.connect(right, **{name: value})


def test_a_way_without_a_header_is_none(device_world):
    left = End(device_world)
    attr = left.attr(left)
    attr.ah_attr = type(attr.ah_attr)()
    left.qp.to_init(attr)
    with refused("EINVAL"):
        left.qp.to_rtr(attr)
    assert left.qp.qp_state == INIT


def test_a_query_says_all_that_was_set_and_that_is_enough_to_begin_anew(device_world):
    left, right = pair(device_world)
    held, made = left.qp.query(0x1FFFFFF)
    assert (held.qp_state, held.dest_qp_num, held.timeout) == (RTS, right.qp.qp_num, 8)
    assert held.ah_attr.dgid == route(right.context).dgid
    assert made.cap.max_send_wr == held.cap.max_send_wr >= 8
    for end, attr in ((left, held), (right, right.qp.query(0)[0])):
        end.qp.modify(QPAttr(RESET), STATE)
        assert end.qp.query(0)[0].dest_qp_num == 0
        end.qp.to_rts(attr)
    right.receive()
    left.send()
    assert (left.completion().status, right.completion().status) == (0, 0)


def test_the_state_that_one_believes_in_is_compared(device_world):
    left, _ = pair(device_world)
    with refused("EINVAL"):
        left.qp.modify(QPAttr(RTS, cur_qp_state=SQD), STATE | e.IBV_QP_CUR_STATE)
    left.qp.modify(QPAttr(RTS, cur_qp_state=RTS), STATE | e.IBV_QP_CUR_STATE)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_key_of_the_system_takes_its_rights(twin_world, monkeypatch, allowed):
    needs(twin_world, kinds=[e.IBV_QPT_UD])
    monkeypatch.setattr("nicscope.interfaces.verbs.qp.may_use_raw", lambda: allowed)
    left = End(twin_world, e.IBV_QPT_UD)
    attr = left.attr(left, qkey=QKEY | 1 << 31)
    if allowed:
        left.qp.to_rts(attr)
        assert left.qp.query(0)[0].qkey == QKEY | 1 << 31
    else:
        with refused("EPERM"):
            left.qp.to_rts(attr)


def test_a_new_pair_goes_where_its_attributes_lead(world):
    context = open_context(world)
    pd, cq = PD(context), CQ(context, 8)
    made = QP(pd, QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq))
    assert made.qp_state == RESET
    made = QP(pd, QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq), QPAttr())
    assert made.qp_state == INIT
    if e.IBV_QPT_UD in world.facts.qp_types:
        made = QP(pd, QPInitAttr(e.IBV_QPT_UD, scq=cq, rcq=cq), QPAttr())
        assert made.qp_state == RTS


def test_a_pair_says_once_that_it_has_drained_if_it_is_to(world):
    left, _ = pair(world)
    for tells in (1, 0, 1):
        attr = QPAttr(SQD)
        attr.en_sqd_async_notify = tells
        left.qp.modify(attr, STATE | e.IBV_QP_EN_SQD_ASYNC_NOTIFY)
        if tells:
            event = left.context.get_async_event()
            assert event.event_type == e.IBV_EVENT_SQ_DRAINED
        with refused("EAGAIN"):
            left.context.get_async_event()
        left.qp.modify(QPAttr(RTS), STATE)
