"""The verbs' objects: their names, their prints, and what closing one closes."""

import importlib

import pytest
from verbs_ends import End, needs, open_context, pair, refused

import nicscope.verbs
from nicscope.interfaces.verbs import enumerations as texts
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import GID, AHAttr
from nicscope.interfaces.verbs.base import PyverbsRDMAErrno, PyverbsRDMAError, inc_rkey
from nicscope.interfaces.verbs.cq import CQ, CQEX, WC, CompChannel, CqInitAttrEx, PollCqAttr
from nicscope.interfaces.verbs.device import (
    get_device_list,
    guid_format,
    speed_to_str,
    translate_mtu,
    width_to_str,
)
from nicscope.interfaces.verbs.modules import importable_as
from nicscope.interfaces.verbs.mr import (
    MR,
    PD,
    ParentDomain,
    ParentDomainContext,
    ParentDomainInitAttr,
)
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

MODULES = (
    *("addr", "base", "cmid", "cm_enums", "comp_cntr", "cq", "device", "dmabuf", "dma_util"),
    *("enums", "flow", "fork", "libibverbs_enums", "librdmacm_enums", "mem_alloc", "mr", "pd"),
    *("pyverbs_error", "qp", "spec", "srq", "utils", "wq", "wr", "xrcd"),
    *("providers.efa.efadv", "providers.efa.efa_enums", "providers.mlx5.mlx5dv"),
    *("providers.mlx5.mlx5dv_objects", "providers.mlx5.mlx5_enums", "providers.hns"),
)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_there_under_both_names_and_is_the_same(name):
    with importable_as("bindings"):
        theirs = importlib.import_module(f"bindings.{name}")
    ours = importlib.import_module(f"nicscope.verbs.{name}")
    assert theirs is ours
    assert ours.__spec__.name.startswith("nicscope.interfaces.verbs")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("bindings.addr")


# What programs import by the module in which rdma-core has it, wherever it lies here.
NAMES = {
    "addr": "AH AHAttr GID GRH GlobalRoute",
    "base": "PyverbsCM PyverbsObject PyverbsRDMAErrno inc_rkey",
    "cmid": "AddrInfo CMEvent CMEventChannel CMID ConnParam JoinMCAttrEx UDParam",
    "cq": "CQ CQEX CompChannel CqInitAttrEx PollCqAttr WC WcTmInfo cqe_status_to_str",
    "device": "AllocDmAttr Context DM Device DeviceAttr GIDEntry PortAttr get_device_list",
    "mem_alloc": "free madvise malloc mmap munmap posix_memalign read32 read64 writebe32 writebe64",
    "mr": "Buf BufMR DMMR DmaBufMR MR MREx MW MWBind MWBindInfo",
    "pd": "PD ParentDomain ParentDomainContext ParentDomainInitAttr",
    "pyverbs_error": "PyverbsError PyverbsRDMAError PyverbsUserError",
    "qp": "DataBuffer ECE QP QPAttr QPCap QPEx QPInitAttr QPInitAttrEx QPRateLimitAttr",
    "srq": "OpsWr SRQ SrqAttr SrqInitAttr SrqInitAttrEx",
    "tph": "DMAHandle DmaHandleInitAttr",
    "utils": "access_flags_to_str be64toh gid_str mtu_to_str qp_state_to_str qp_type_to_str",
    "wr": "RecvWR SGE SendWR",
    "xrcd": "XRCD XRCDInitAttr",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_programs_import_from_a_module_is_there(name):
    module = importlib.import_module(f"nicscope.verbs.{name}")
    assert [each for each in NAMES[name].split() if not hasattr(module, each)] == []


def test_what_is_not_there_is_told_by_its_own_name():
    with pytest.raises(ModuleNotFoundError, match=r"nicscope\.verbs\.nothing"):
        importlib.import_module("nicscope.verbs.nothing")


def test_members_are_in_their_enumerations_and_beside_them():
    old = importlib.import_module("nicscope.verbs.enums")
    assert old.IBV_QPT_RC is e.ibv_qp_type.IBV_QPT_RC
    assert e.IBV_QPT_RC == 2
    assert [*e.ibv_rereg_mr_err_code][-1] == -5
    assert e._IBV_ALLOCATOR_USE_DEFAULT == (1 << 64) - 1
    assert importlib.import_module("nicscope.verbs.cm_enums").RDMA_PS_TCP == 262


def test_a_device_says_who_it_is(device_world):
    device = get_device_list()[0]
    assert device.name == device_world.name.encode()
    context = open_context(device_world)
    attr = context.query_device()
    assert guid_format(attr.node_guid).replace(":", "") == f"{device.guid:016x}"
    assert attr.phys_port_cnt == context.query_device_ex().phys_port_cnt_ex == 1
    assert attr.vendor_id not in (0, 0x02C9, 0x1D0F, 0x8086)
    assert "max qp wr" in str(attr)
    port = context.query_port(1)
    words = (translate_mtu(port.max_mtu), width_to_str(port.active_width))
    told = (*words, speed_to_str(port.active_speed, port.active_speed_ex))
    assert not any("Invalid" in each for each in told)
    assert "Invalid" in translate_mtu(77)


def test_no_more_is_advertised_than_runs(world):
    facts = world.facts
    context = open_context(world)
    attr, extended = context.query_device(), context.query_device_ex()
    flags = attr.device_cap_flags
    assert bool(flags & e.IBV_DEVICE_XRC) == (e.IBV_QPT_XRC_SEND in facts.qp_types)
    assert bool(flags & e.IBV_DEVICE_MEM_WINDOW) == facts.windows
    assert bool(attr.max_srq) == facts.srq
    assert bool(attr.atomic_caps) == (e.IBV_WR_ATOMIC_CMP_AND_SWP in facts.opcodes)
    assert bool(extended.odp_caps.general_caps) == facts.on_demand
    assert attr.max_mcast_grp == extended.tso_caps.max_tso == extended.raw_packet_caps == 0


def test_objects_print_a_line_for_each_field(device_world):
    assert str(QPCap()).splitlines()[0].split() == ["max", "send", "wr", ":", "1"]
    assert "INIT" in str(QPAttr())
    assert "RC" in str(QPInitAttr(e.IBV_QPT_RC))
    assert "dgid" not in str(AHAttr())
    assert "Success" in str(WC())
    end = End(device_world)
    assert "RESET" in str(end.qp)
    assert f"{end.mr.lkey}" in str(end.mr)
    assert "cqe" in str(end.cq)
    assert str(GID("fe80:0000:0000:0000:0000:0000:0000:0001")).startswith("fe80:")


def test_numbers_are_cut_as_c_cuts_them():
    cap = QPCap(max_send_wr=7.9)
    assert cap.max_send_wr == 7
    assert texts.gid_str(0x80FE, 1 << 56) == "fe80:0000:0000:0000:0000:0000:0000:0001"
    assert inc_rkey(0x1FF) == 0x100


def test_a_request_holds_what_its_pieces_were(device_world):
    left, right = pair(device_world)
    piece = SGE(left.mr.buf, 4, left.mr.lkey)
    wr = SendWR(num_sge=1, sg=[piece], wr_id=1)
    piece.length = 4000
    for text in ("one.", "two."):
        right.receive()
        left.mr.write(text, 4)
        left.qp.post_send(wr)
        assert left.completion().wr_id == wr.wr_id
        assert right.completion().byte_len == 4
        assert right.mr.read(4, 0).decode() == text
        wr.wr_id += 1


def test_inline_bytes_are_taken_at_once(device_world):
    left, right = pair(device_world, max_inline_data=64)
    right.receive()
    left.mr.write("early", 5)
    left.send(5, send_flags=e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED, lkey=0)
    left.mr.write("later", 5)
    assert right.completion().status == 0
    assert right.mr.read(5, 0) == b"early"


def test_closing_a_context_closes_all_of_it(world):
    left, right = pair(world)
    left.context.close()
    assert all(each._closed for each in (left.qp, left.cq, left.mr, left.pd))
    left.context.close()
    with left.pd as pd:
        pd.close()
    assert not right.qp._closed
    with pytest.raises(PyverbsRDMAError):
        PD(left.context)


def test_the_last_error_is_remembered(device_world):
    with pytest.raises(PyverbsRDMAError) as found:
        open_context(device_world).query_port(3)
    assert PyverbsRDMAErrno("again").error_code == found.value.error_code


def test_an_extended_queue_is_read_field_by_field(world):
    left = End(world)
    right = End(world)
    attr = CqInitAttrEx(cqe=8, wc_flags=e.IBV_WC_STANDARD_FLAGS | e.IBV_WC_EX_WITH_CVLAN)
    queue = CQEX(left.context, attr)
    init = QPInitAttr(e.IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap())
    left.qp = QP(left.pd, init)
    left.connect(right)
    right.connect(left)
    assert queue.start_poll(PollCqAttr()) == 2
    queue.end_poll()
    left.receive(wr_id=9)
    right.send(12)
    while queue.start_poll(PollCqAttr()):
        queue.end_poll()
    assert (queue.wr_id, queue.status, queue.read_byte_len()) == (9, 0, 12)
    assert (queue.read_opcode(), queue.read_cvlan()) == (e.IBV_WC_RECV, 0)
    assert queue.poll_next() == 2
    queue.end_poll()
    with pytest.raises(PyverbsRDMAError):
        queue.read_byte_len()


def test_a_channel_reports_what_was_asked_for(world):
    left, right = End(world), End(world)
    channel = CompChannel(right.context)
    right.cq = CQ(right.context, 8, None, channel)
    init = QPInitAttr(e.IBV_QPT_RC, scq=right.cq, rcq=right.cq, cap=QPCap())
    right.qp = QP(right.pd, init)
    left.connect(right)
    right.connect(left)
    right.cq.req_notify()
    right.receive()
    left.send()
    channel.get_cq_event(right.cq)
    right.cq.ack_events(1)
    assert right.cq.poll()[0] == 1
    right.cq.req_notify(solicited_only=True)
    for flags in (e.IBV_SEND_SIGNALED, e.IBV_SEND_SIGNALED | e.IBV_SEND_SOLICITED):
        right.receive()
        left.send(send_flags=flags)
    channel.get_cq_event(right.cq)
    assert right.completion().status == 0


def test_queues_lie_where_their_program_says(twin_world):
    context = open_context(twin_world)
    pd, told = PD(context), []

    def allocate(domain, holder, size, alignment, kind):
        told.append(("allocate", kind, holder.user_data, size >= alignment // 4096))
        return MR(pd, size, e.IBV_ACCESS_LOCAL_WRITE).buf or domain

    def free(domain, holder, address, kind):
        told.append(("free", kind, holder.user_data, bool(address and domain)))

    holder = ParentDomainContext(pd, allocate, free, "mine")
    mask = e.IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
    parent = ParentDomain(context, ParentDomainInitAttr(pd, holder, mask))
    cq = CQ(context, 8)
    with QP(parent, QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq)):
        pass
    assert told == [("allocate", 0, "mine", True), ("free", 0, "mine", True)]
    with pytest.raises(PyverbsRDMAError):
        ParentDomain(context, ParentDomainInitAttr(pd, holder, 64))


def test_what_is_not_built_says_so():
    with refused("EOPNOTSUPP", "Failed to create Flow"):
        importlib.import_module("nicscope.verbs.flow").Flow()


def test_the_world_can_be_named_by_programs(device_world):
    assert nicscope.verbs.here() is device_world
    needs(device_world)
    assert RecvWR().num_sge == 0
