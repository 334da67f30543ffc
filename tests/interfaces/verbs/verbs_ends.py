"""Ends of connections, as programs of verbs make them."""

import errno

import pytest

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AH, AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import PyverbsRDMAError
from nicscope.interfaces.verbs.cq import CQ
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.mr import MR, PD
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

ALL = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_MW_BIND
)
QKEY = 0x1234
POLLS = 400


def needs(world, *, kinds=(), opcodes=(), **facts):
    """Skip where the device does not have it, and says so."""
    found = world.facts
    has = {*kinds} <= found.qp_types and {*opcodes} <= found.opcodes
    if not (has and all(getattr(found, name) == value for name, value in facts.items())):
        pytest.skip("the device does not advertise it")


def open_context(world):
    return Context(name=world.name)


def route(context, gid=0):
    return AHAttr(is_global=1, gr=GlobalRoute(dgid=context.query_gid(1, gid), sgid_index=gid))


class End:
    """A context with all that one end takes."""

    def __init__(self, world, kind=e.IBV_QPT_RC, *, access=None, sig_all=1, size=4096, **caps):
        self.context = open_context(world)
        self.pd = PD(self.context)
        both = {*(e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD)}
        atomic = e.IBV_ACCESS_REMOTE_ATOMIC if both <= world.facts.opcodes else 0
        self.access = ALL | atomic if access is None else access
        self.mr = MR(self.pd, size, self.access)
        self.cq = CQ(self.context, 64)
        room = {"max_send_wr": 8, "max_recv_wr": 8, "max_send_sge": 4, "max_recv_sge": 4} | caps
        init = QPInitAttr(kind, scq=self.cq, rcq=self.cq, cap=QPCap(**room), sq_sig_all=sig_all)
        self.qp = QP(self.pd, init)
        self.kind = kind

    def attr(self, peer, **more):
        attr = QPAttr(port_num=1)
        attr.ah_attr = route(peer.context)
        attr.dest_qp_num = peer.qp.qp_num
        attr.qp_access_flags = self.access
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 8, 2, 2
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.qkey = QKEY
        for name, value in more.items():
            setattr(attr, name, value)
        return attr

    def connect(self, peer, **more):
        self.qp.to_rts(self.attr(peer, **more))

    def piece(self, length=64, offset=0, lkey=None):
        return SGE(self.mr.buf + offset, length, self.mr.lkey if lkey is None else lkey)

    def receive(self, length=64, offset=0, wr_id=1, lkey=None):
        piece = self.piece(length, offset, lkey)
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[piece]))

    def send(self, length=64, offset=0, *, opcode=e.IBV_WR_SEND, remote=None, lkey=None, **more):
        wr = SendWR(opcode=opcode, num_sge=1, sg=[self.piece(length, offset, lkey)], **more)
        if remote is not None:
            wr.set_wr_rdma(*remote)
        self.qp.post_send(wr)

    def target(self, offset=0, rkey=None):
        """Key and address of this end's memory, for another's requests."""
        return (self.mr.rkey if rkey is None else rkey, self.mr.buf + offset)

    def completion(self):
        """The next completion; None if none comes in a long time."""
        for _ in range(POLLS):
            count, found = self.cq.poll()
            if count:
                return found[0]
        return None

    def handle(self, gid=0):
        return AH(self.pd, attr=route(self.context, gid))


def pair(world, kind=e.IBV_QPT_RC, **more):
    """Two ends that are connected."""
    left, right = End(world, kind, **more), End(world, kind, **more)
    left.connect(right)
    right.connect(left)
    return left, right


def refused(code, text=""):
    """Within the block, the device refuses with that number, and a message that begins so."""
    wanted = getattr(errno, code) if isinstance(code, str) else code
    return _Refusal(wanted, text)


class _Refusal:
    def __init__(self, code, text):
        self.code, self.text = code, text

    def __enter__(self):
        return self

    def __exit__(self, kind, error, at):
        assert kind is not None, "it was not refused"
        assert isinstance(error, PyverbsRDMAError), error
        assert error.error_code == self.code, error
        assert self.text in str(error)
        return True
