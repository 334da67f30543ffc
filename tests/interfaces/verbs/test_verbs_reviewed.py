"""What programs of the kind of rdma-core's other tests do, and the given files do not."""

import errno

import pytest
from verbs_ends import End, open_context, pair, refused

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.verbs import base
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsUserError, World, inc_rkey, use
from nicscope.interfaces.verbs.cmid import CMID
from nicscope.interfaces.verbs.cq import CQ, CQEX, CqInitAttrEx
from nicscope.interfaces.verbs.modules import CONTENTS, FlowAttr
from nicscope.interfaces.verbs.mr import (
    MR,
    MW,
    PD,
    MWBindInfo,
    ParentDomain,
    ParentDomainContext,
    ParentDomainInitAttr,
)
from nicscope.interfaces.verbs.qp import ECE, QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR
from nicscope.interfaces.verbs_device.calls import Refused
from nicscope.interfaces.verbs_device.device import Device

STEPS = (
    e.IBV_QP_EX_WITH_SEND
    | e.IBV_QP_EX_WITH_RDMA_WRITE
    | e.IBV_QP_EX_WITH_BIND_MW
    | e.IBV_QP_EX_WITH_LOCAL_INV
)
MASK = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS


def by_steps(world):
    """Two connected ends whose pairs are told what to send by a call for each part."""
    ends = End(world), End(world)
    for end in ends:
        end.qp.close()
        init = QPInitAttrEx(
            e.IBV_QPT_RC,
            scq=end.cq,
            rcq=end.cq,
            cap=QPCap(max_send_wr=8, max_recv_wr=8),
            comp_mask=MASK,
            pd=end.pd,
            send_ops_flags=STEPS,
        )
        end.qp = QPEx(end.context, init)
    ends[0].connect(ends[1])
    ends[1].connect(ends[0])
    return ends


def test_a_pair_told_by_steps_spreads_over_no_table_of_queues(world):
    left, _ = by_steps(world)
    assert left.qp.ind_table is None


def test_of_the_key_of_a_bind_only_the_tag_is_the_callers(world):
    left, right = by_steps(world)
    window = MW(right.pd, e.IBV_MW_TYPE_2)
    info = MWBindInfo(right.mr, right.mr.buf, 64, e.IBV_ACCESS_REMOTE_WRITE)
    foreign = inc_rkey(right.mr.rkey)  # its index is the region's
    if foreign & 0xFF == window.rkey & 0xFF:
        foreign = inc_rkey(foreign)
    right.qp.wr_start()
    right.qp.wr_flags = e.IBV_SEND_SIGNALED
    right.qp.wr_bind_mw(window, foreign, info)
    right.qp.wr_complete()
    assert right.completion().status == e.IBV_WC_SUCCESS
    bound = (window.rkey & ~0xFF) | (foreign & 0xFF)
    for key, status in ((bound, e.IBV_WC_SUCCESS), (foreign, e.IBV_WC_REM_ACCESS_ERR)):
        left.qp.wr_start()
        left.qp.wr_flags = e.IBV_SEND_SIGNALED
        left.qp.wr_rdma_write(key, right.mr.buf)
        left.qp.wr_set_sge(SGE(left.mr.buf, 8, left.mr.lkey))
        left.qp.wr_complete()
        assert left.completion().status == status


def test_queues_of_what_was_refused_go_back_to_the_program(world, monkeypatch):
    context = open_context(world)
    pd, queue = PD(context), CQ(context, 8)
    given, back = [], []

    def allocate(_domain, _context, size, alignment, _kind):
        given.append(base.posix_memalign(size, alignment))
        return given[-1]

    def free(_domain, _context, address, _kind):
        back.append(address)

    allocator = ParentDomainContext(pd, allocate, free)
    domain = ParentDomain(context, ParentDomainInitAttr(pd, allocator))

    init = QPInitAttr(e.IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap())

    def no_room(*_):
        raise Refused(errno.ENOMEM)

    monkeypatch.setattr(world.device, "make_qp", no_room)
    with refused("ENOMEM", "Failed to create QP"):
        QP(domain, init)
    assert given == back
    assert len(given) == 1


@pytest.mark.usefixtures("world")
def test_ends_of_connections_answer_what_is_not_built():
    end = CMID()
    end.set_local_ece(ECE())
    assert end.get_remote_ece().options == 0
    for call in (
        lambda: end.set_local_ece(ECE(vendor_id=1)),
        lambda: end.resolve_addrinfo("10.0.0.1", "7471"),
        end.query_addrinfo,
    ):
        with refused("EOPNOTSUPP"):
            call()


def test_rules_of_steering_collect_what_they_look_at():
    rule, header = FlowAttr(num_of_specs=1), CONTENTS["spec"]["EthSpec"](ether_type=0x800)
    rule.specs.append(header)
    assert rule.specs == [header]
    assert FlowAttr().specs == []


def test_what_is_used_after_it_was_closed_is_an_error_of_verbs(device_world):
    left = End(device_world)
    steps = CQEX(left.context, CqInitAttrEx(cqe=4))
    steps.close()
    left.cq.close()  # and the pair with it
    for call in (
        left.cq.poll,
        left.cq.req_notify,
        steps.start_poll,
        steps.req_notify,
        lambda: left.qp.qp_state,
        lambda: left.qp.query(e.IBV_QP_STATE),
        lambda: left.qp.to_init(left.attr(left)),
    ):
        with refused("EINVAL"):
            call()
    left.context.close()
    with refused("EINVAL", "Failed to create a CQ"):
        CQ(left.context, 4)


@pytest.mark.compiled
@pytest.mark.usefixtures("whole_nodes")
def test_the_device_holds_as_many_objects_as_it_says(device_world):
    context = open_context(device_world)
    pd, most = PD(context), context.query_device()
    queues = [CQ(context, 4) for _ in range(most.max_cq)]
    with refused("ENOMEM", "Failed to create a CQ"):
        CQ(context, 4)
    init = QPInitAttr(e.IBV_QPT_RC, scq=queues[0], rcq=queues[0], cap=QPCap())
    pairs = [QP(pd, init) for _ in range(most.max_qp)]
    assert len(pairs) > 1000
    with refused("ENOMEM", "Failed to create QP"):
        QP(pd, init)
    pairs.pop().close()
    assert QP(pd, init).qp_num
    context.close()


@pytest.fixture
def small_world():
    """A world whose programs have sixteen megabytes of addresses."""
    pages = 1 << 12
    world = World(Device(host=HostSize(frames=pages, pages_per_space=pages, swap_blocks=64)))
    use(world)
    yield world, pages
    use(None)


def test_memory_that_was_given_back_is_given_out_again_in_other_sizes(small_world):
    world, pages = small_world
    device, page = world.device, 4096
    with pytest.raises(Refused):
        device.map((pages + 1) * page)  # which takes nothing
    halves = [device.map(page * (pages // 4)) for _ in range(3)]
    with pytest.raises(Refused) as refusal:
        device.map(page * (pages // 2))
    assert refusal.value.errno == errno.ENOMEM
    for address in halves[:2]:
        device.unmap(address, page * (pages // 4))
    joined = device.map(page * (pages // 2))
    assert joined == halves[0]
    device.unmap(joined, page * (pages // 2))
    huge = [device.map(1 << 21, huge=True) for _ in range(pages // 4 // 512)]
    assert len(set(huge)) == len(huge)
    assert all(address % (1 << 21) == 0 for address in huge)


def test_memory_unmapped_under_a_region_comes_back_with_its_end(small_world):
    world, pages = small_world
    pd, page = PD(open_context(world)), 4096
    for _ in range(3):
        address = base.mmap(length=page * (pages // 2))
        region = MR(pd, 64 * page, e.IBV_ACCESS_LOCAL_WRITE, address=address)
        base.munmap(address, page * (pages // 2))
        region.close()


@pytest.mark.parametrize("kind", [SendWR, RecvWR])
def test_a_request_can_be_told_to_take_fewer_of_its_pieces(kind):
    wr = kind(num_sge=2, sg=[SGE(0, 8, 1), SGE(8, 8, 1)])
    wr.num_sge = 1
    assert wr.num_sge == len(wr.request().pieces) == 1
    with pytest.raises(PyverbsUserError, match="2 SGEs"):
        wr.num_sge = 2


def halted(world):
    """Two connected ends, the left of which sends no more, though it has been asked to."""
    left, right = pair(world)
    for _ in range(2):
        right.receive()
    left.qp.modify(QPAttr(e.IBV_QPS_SQD), e.IBV_QP_STATE)
    for number in range(2):
        left.send(wr_id=number)
    assert left.completion() is None
    assert left.qp.qp_state == e.IBV_QPS_SQD
    return left, right


def test_what_waits_in_a_drained_queue_is_flushed_by_an_error(device_world):
    left, right = halted(device_world)
    left.qp.modify(QPAttr(e.IBV_QPS_ERR), e.IBV_QP_STATE)
    found = [left.completion() for _ in range(2)]
    assert [(one.wr_id, one.status) for one in found] == [
        (0, e.IBV_WC_WR_FLUSH_ERR),
        (1, e.IBV_WC_WR_FLUSH_ERR),
    ]
    assert right.cq.poll() == (0, [])


def test_a_pair_that_is_connected_with_itself_hears_itself(device_world):
    end = End(device_world)
    end.connect(end)
    for number in range(3):
        text = f"again {number}"
        end.receive(offset=512)
        end.mr.write(text, len(text))
        end.send(len(text))
        assert {end.completion().status for _ in range(2)} == {e.IBV_WC_SUCCESS}
        assert end.mr.read(len(text), 512) == text.encode()
    end.send(8, opcode=e.IBV_WR_RDMA_WRITE, remote=end.target(1024))
    assert end.completion().status == e.IBV_WC_SUCCESS
    assert end.mr.read(5, 1024) == b"again"


@pytest.mark.compiled
def test_pairs_can_be_connected_anew_fifteen_hundred_times(device_world):
    left, right = pair(device_world)
    for _ in range(1500):
        for end in (left, right):
            end.qp.modify(QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
        left.connect(right)
        right.connect(left)
    right.receive()
    left.send()
    assert left.completion().status == right.completion().status == e.IBV_WC_SUCCESS
