"""Which verb is refused when, with which number and which words: the table of the interface."""

import errno
import importlib
import os

import pytest
from verbs_ends import End, needs, open_context, pair, refused, route

from nicscope.interfaces.verbs import base
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AH, GID, AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import PyverbsError, PyverbsRDMAError, PyverbsUserError
from nicscope.interfaces.verbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
from nicscope.interfaces.verbs.device import DM, AllocDmAttr, Context
from nicscope.interfaces.verbs.mr import DMMR, MR, MW, PD, Buf, BufMR, MREx, MWBind, MWBindInfo
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

LOCAL = e.IBV_ACCESS_LOCAL_WRITE
ZERO = e.IBV_ACCESS_ZERO_BASED


@pytest.fixture
def context(device_world):
    return open_context(device_world)


@pytest.fixture
def pd(context):
    return PD(context)


@pytest.mark.usefixtures("context")
def test_a_context_needs_a_name_that_there_is():
    with pytest.raises(PyverbsRDMAError, match="Failed to find device other") as found:
        Context(name="other")
    assert found.value.error_code == -1
    with pytest.raises(PyverbsUserError):
        Context()


def test_a_port_that_is_not_there_is_not_queried(context):
    with refused("EINVAL", "Failed to query port 2"):
        context.query_port(2)


def test_an_empty_slot_has_a_zero_gid_and_no_entry(context):
    assert context.query_gid(1, 7).gid == ":".join(["0000"] * 8)
    with refused("ENODATA"):
        context.query_gid_ex(1, 7)


@pytest.mark.parametrize("entries", [0, 1])
def test_a_table_of_gids_that_does_not_fit_has_a_negative_number(context, entries):
    with refused(-errno.EINVAL):
        context.query_gid_table(entries)
    assert [entry.gid_index for entry in context.query_gid_table(8)] == [0, 1]


def test_on_ethernet_an_address_is_global_and_from_a_slot_that_is_filled(context, pd):
    with refused("EINVAL", "Failed to create AH"):
        AH(pd, attr=AHAttr(is_global=0))
    gr = GlobalRoute(dgid=context.query_gid(1, 0), sgid_index=5)
    with refused("EINVAL", "Failed to create AH"):
        AH(pd, attr=AHAttr(is_global=1, gr=gr))
    with pytest.raises(PyverbsUserError):
        AHAttr(is_global=1)
    assert AHAttr().dgid is None
    AH(pd, attr=route(context))


@pytest.mark.parametrize("cqe", [0, -1, "more"])
def test_a_queue_of_completions_has_a_length_that_the_device_has(context, cqe):
    wanted = context.query_device().max_cqe + 1 if cqe == "more" else cqe
    with refused("EINVAL", "Failed to create a CQ"):
        CQ(context, wanted)
    with refused("EINVAL"):
        CQEX(context, CqInitAttrEx(cqe=wanted))


def test_a_vector_that_is_not_there_and_a_field_that_the_device_lacks(context):
    with refused("EINVAL"):
        CQ(context, 4, None, None, context.num_comp_vectors)
    with refused("EOPNOTSUPP"):
        CQEX(context, CqInitAttrEx(wc_flags=e.IBV_WC_EX_WITH_TM_INFO))
    with refused("EINVAL"):
        CQEX(context, CqInitAttrEx(wc_flags=1 << 20))


def test_a_queue_is_not_made_shorter_than_what_lies_in_it(world):
    left, right = pair(world)
    for _ in range(3):
        right.receive()
    for _ in range(3):
        left.send()
    assert right.completion() is not None
    with refused("EINVAL", "Failed to resize CQ"):
        left.cq.resize(1)
    assert [left.completion().status for _ in range(3)] == [0, 0, 0]
    left.cq.resize(1)
    assert left.cq.cqe >= 1


@pytest.mark.parametrize("access", [e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_ATOMIC])
def test_who_grants_remote_writing_grants_local_writing(context, pd, access):
    with refused("EINVAL", "Failed to register a MR. length: 64"):
        MR(pd, 64, access)
    with refused("EINVAL", "Failed to register MR using extended API"):
        MREx(pd, 64, access)
    dm = DM(context, AllocDmAttr(64))
    with refused("EINVAL", "Failed to register a device MR. "):
        DMMR(pd, 64, access | ZERO, dm, 0)


def test_memory_that_is_not_mapped_is_not_registered(world):
    with refused("EFAULT"):
        MR(PD(open_context(world)), 64, LOCAL, address=0x7000)


def test_the_extended_call_takes_one_source_of_memory(context, pd):
    for both in ({"address": 4096, "fd": 3}, {"implicit": True, "fd": 3}):
        with refused("EINVAL"):
            MREx(pd, 64, LOCAL, **both)
    other = PD(context)
    buf = Buf(other, 128)
    with refused("EINVAL"):
        MREx(pd, 64, LOCAL, buf=buf)
    with refused("EINVAL"):
        BufMR(other, buf, 64, LOCAL, offset=100)
    assert BufMR(other, buf, 28, LOCAL, offset=100).buf == buf.addr + 100
    assert MREx(other, 28, LOCAL, buf=buf, address=buf.addr + 100).buf == buf.addr + 100
    for outside in (100, buf.addr - 1, buf.addr + 101):
        with refused("EINVAL"):
            MREx(other, 28, LOCAL, buf=buf, address=outside)
    with refused("ENODATA"):
        buf.export_dmabuf_fd()


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        (e.IBV_REREG_MR_CHANGE_TRANSLATION, {}),
        (e.IBV_REREG_MR_CHANGE_TRANSLATION, {"addr": 4096}),
        (e.IBV_REREG_MR_CHANGE_PD, {"access": LOCAL}),
        (8, {}),
    ],
)
def test_registering_anew_says_what_changes(pd, flags, more):
    mr = MR(pd, 64, LOCAL)
    with refused("EINVAL", "Failed to rereg MR: IBV_REREG_MR_ERR_INPUT"):
        mr.rereg(flags, **more)


def test_a_region_of_the_nics_memory_lies_within_it_and_begins_at_zero(context, pd):
    dm = DM(context, AllocDmAttr(100))
    for length, access, offset in ((104, LOCAL | ZERO, 0), (64, LOCAL, 0), (64, LOCAL | ZERO, 40)):
        with refused("EINVAL", "Failed to register a device MR. "):
            DMMR(pd, length, access, dm, offset)
    assert DMMR(pd, 100, LOCAL | ZERO, dm, 0).buf == 0


def test_the_nics_memory_has_an_end(context):
    most = context.query_device_ex().max_dm_size
    text = f"Failed to allocate device memory of size {most + 1}. Max available size {most}."
    with refused("EINVAL", text):
        DM(context, AllocDmAttr(most + 1))
    with refused("EINVAL"):
        DM(context, AllocDmAttr(64, 0, 1))


def test_the_nics_memory_is_copied_by_words_within_it(context):
    dm = DM(context, AllocDmAttr(100))
    for offset, length, code in ((3, 4, "EINVAL"), (4, 3, "EINVAL"), (104, 4, "EFAULT")):
        with refused(code, "Failed to copy from dm"):
            dm.copy_from_dm(offset, length)
        with refused(code, "Failed to copy to dm"):
            dm.copy_to_dm(offset, b"xxxx", length)


@pytest.mark.parametrize("name", QPCap.SHOWN)
def test_a_pair_has_no_more_room_than_the_device(context, pd, name):
    cq = CQ(context, 8)
    with refused("EINVAL", "Failed to create QP"):
        QP(pd, QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**{name: 1 << 30})))


def test_a_pair_needs_queues_and_a_domain_and_a_type_that_there_is(context, pd):
    cq = CQ(context, 8)
    with refused("EINVAL", "Failed to create QP"):
        QP(pd, QPInitAttr(e.IBV_QPT_RC, scq=cq))
    with refused("EINVAL", "Failed to create QP"):
        QP(context, QPInitAttrEx(e.IBV_QPT_RC, scq=cq, rcq=cq))
    with refused("EOPNOTSUPP"):
        QP(pd, QPInitAttr(e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq))
    with refused("EOPNOTSUPP"):  # operations were not declared
        mask = e.IBV_QP_INIT_ATTR_PD
        QPEx(context, QPInitAttrEx(e.IBV_QPT_RC, scq=cq, rcq=cq, pd=pd, comp_mask=mask))


def test_requests_are_posted_when_the_pair_sends(world):
    left, right = End(world), End(world)
    with refused("EINVAL"):
        left.receive()
    for step in (left.qp.to_init, left.qp.to_rtr):
        with refused("EINVAL", "Failed to post send"):
            left.send()
        step(left.attr(right))
        left.receive()
    with refused("EINVAL"):
        left.send()
    many = [left.piece()] * 5
    with refused("EINVAL", "Failed to post recv"):
        left.qp.post_recv(RecvWR(num_sge=5, sg=many))
    left.qp.to_rts(left.attr(right))
    with refused("EINVAL"):
        left.qp.post_send(SendWR(num_sge=5, sg=many))
    with refused("EINVAL"):
        left.send(send_flags=e.IBV_SEND_INLINE, length=4000)


def test_what_was_not_declared_is_not_completed(device_world):
    context = open_context(device_world)
    pd, cq = PD(context), CQ(context, 8)
    mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
    made = [
        QPEx(
            context,
            QPInitAttrEx(
                e.IBV_QPT_RC,
                scq=cq,
                rcq=cq,
                pd=pd,
                comp_mask=mask,
                send_ops_flags=e.IBV_QP_EX_WITH_SEND,
            ),
        )
        for _ in range(2)
    ]
    left = End(device_world)
    made[0].to_rts(left.attr(left, dest_qp_num=made[1].qp_num))
    made[0].wr_start()
    made[0].wr_rdma_write(1, 4096)
    with refused("EINVAL"):
        made[0].wr_complete()


def test_a_full_queue_has_no_room_and_what_came_before_stays(world):
    left, right = pair(world)
    chain = None
    for number in range(10, 0, -1):
        chain = RecvWR(wr_id=number, num_sge=1, sg=[right.piece()], next_wr=chain)
    bad = RecvWR()
    with refused("ENOMEM", "Failed to post recv"):
        right.qp.post_recv(chain, bad)
    most = right.qp.query(e.IBV_QP_CAP)[0].cap.max_recv_wr
    assert bad.wr_id == most + 1
    for _ in range(left.qp.query(e.IBV_QP_CAP)[0].cap.max_send_wr):
        left.send()
    with refused("ENOMEM", "Failed to post send"):
        left.send()


@pytest.mark.parametrize("kind", [0, 3])
def test_windows_are_of_two_types(device_world, kind):
    needs(device_world, windows=True)
    with refused("EINVAL"):
        MW(PD(open_context(device_world)), kind)


def test_the_verb_that_binds_takes_windows_of_type_1_and_regions_of_its_domain(world):
    needs(world, windows=True)
    left, _ = pair(world)
    info = MWBindInfo(left.mr, left.mr.buf, 64, e.IBV_ACCESS_REMOTE_WRITE)
    with refused("EINVAL", "Failed to bind MW"):
        left.qp.bind_mw(MW(left.pd, e.IBV_MW_TYPE_2), MWBind(info, 0))
    foreign = PD(left.context)
    region = MR(foreign, 64, left.access)
    with refused("EPERM", "Failed to bind MW"):
        info = MWBindInfo(region, region.buf, 64, e.IBV_ACCESS_REMOTE_WRITE)
        left.qp.bind_mw(MW(left.pd, e.IBV_MW_TYPE_1), MWBind(info, 0))


def test_advice_is_of_regions_on_demand_within_them(world):
    needs(world, on_demand=True)
    pd = PD(open_context(world))
    mr = MR(pd, 4096, LOCAL | e.IBV_ACCESS_ON_DEMAND)
    reading = MR(pd, 4096, e.IBV_ACCESS_ON_DEMAND)
    inside = [SGE(mr.buf, 64, mr.lkey)]
    pd.advise_mr(0, 1, inside)
    cases = [
        ("EINVAL", 0, 2, inside),
        ("EFAULT", 0, 1, [SGE(mr.buf, 1 << 20, mr.lkey)]),
        ("EPERM", 1, 1, [SGE(reading.buf, 64, reading.lkey)]),
        ("EPERM", 0, 1, [SGE(mr.buf, 64, MR(PD(pd.ctx), 64, LOCAL).lkey)]),
    ]
    for code, advice, flags, pieces in cases:
        with refused(code, "Failed to advise MR"):
            pd.advise_mr(advice, flags, pieces)


@pytest.mark.usefixtures("device_world")
def test_forking_needs_no_preparation():
    fork = importlib.import_module("nicscope.verbs.fork")
    fork.fork_init()
    assert fork.is_fork_initialized() == e.ibv_fork_status.IBV_FORK_UNNEEDED


def test_handles_and_descriptors_are_imported_once_they_are_known(context, pd):
    with refused("EINVAL"):
        PD(context, handle=12345)
    with refused("EINVAL"):
        MR(pd, handle=12345)
    with refused("EINVAL"):
        DM(context, handle=12345)
    other = os.memfd_create("other")
    with refused("EINVAL", "Failed to import device"):
        Context(cmd_fd=other)
    os.close(other)


def test_an_import_shares_what_it_names_and_leaves_it(context, pd):
    mr, again = MR(pd, 64, LOCAL), os.dup(context.cmd_fd)
    mr.write(b"shared", 6)
    imported = Context(cmd_fd=again)
    twice = MR(PD(imported, handle=pd.handle), handle=mr.handle, address=mr.buf)
    assert (twice.lkey, twice.rkey, twice.read(6, 0)) == (mr.lkey, mr.rkey, b"shared")
    twice.unimport()
    imported.close()
    assert mr.read(6, 0) == b"shared"
    os.close(again)


def test_a_channel_where_nothing_can_come_does_not_hang(context):
    channel = CompChannel(context)
    cq = CQ(context, 8, None, channel)
    cq.req_notify()
    with pytest.raises(PyverbsRDMAError, match="none can come"):
        channel.get_cq_event(cq)
    with pytest.raises(PyverbsRDMAError, match="none can come"):
        context.get_async_event()


@pytest.mark.usefixtures("device_world")
def test_memory_is_where_it_was_mapped():
    address = base.mmap(length=8192)
    base.write(address, "abc", 5, 100)
    assert base.read(address, 5, 100) == b"abc\0\0"
    base.madvise(address, 4096)
    assert base.read(address, 3, 100) == bytes(3)
    base.munmap(address, 8192)
    with refused("EFAULT"):
        base.read(address, 1)
    small = [base.posix_memalign(24, 64) for _ in range(100)]
    assert len({*small}) == 100
    assert all(each % 64 == 0 for each in small)
    for each in small:
        base.free(each)
    with pytest.raises(PyverbsError):
        base.free(small[0])


@pytest.mark.usefixtures("device_world")
def test_what_is_no_address_is_told():
    with pytest.raises(PyverbsUserError):
        GID("fe80::1")
    with pytest.raises(PyverbsUserError):
        SendWR(opcode=e.IBV_WR_SEND)
    with pytest.raises(PyverbsUserError):
        RecvWR(num_sge=2, sg=[SGE(0, 0, 0)])
    assert QPAttr().ah_attr.is_global == 0
