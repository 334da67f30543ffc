"""A queue pair: its states, its posts, its windows."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, error, inc_rkey, refusal
from nicscope.interfaces.verbs.fields import printed
from nicscope.interfaces.verbs.posting import post_chain
from nicscope.interfaces.verbs.qp_attr import ECE, QPAttr, QPRateLimitAttr
from nicscope.interfaces.verbs.qp_init import QPCap, QPInitAttr
from nicscope.interfaces.verbs.qp_making import Plan, plan_of
from nicscope.interfaces.verbs.qp_requests import NOT_YET, offered, ready_to_send, wrong_send
from nicscope.interfaces.verbs.qp_states import required_masks, wrong_step
from nicscope.interfaces.verbs.qp_values import merged, state_of, wrong_values
from nicscope.interfaces.verbs.queue_memory import QP as QUEUE
from nicscope.interfaces.verbs.queue_memory import QueueMemory
from nicscope.interfaces.verbs.texts import qp_state_to_str, qp_type_to_str
from nicscope.interfaces.verbs.wr import bind_of
from nicscope.interfaces.verbs_device.calls import Caps, Refused, Send

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs.mw import MW, MWBind
    from nicscope.interfaces.verbs.pd import PD
    from nicscope.interfaces.verbs.wr import RecvWR, SendWR

TO_RTS = (e.IBV_QPT_UD, e.IBV_QPT_RAW_PACKET)  # those that go there when they are made
POSTING = (e.IBV_QPS_RTS, e.IBV_QPS_SQD, e.IBV_QPS_SQE, e.IBV_QPS_ERR)


RESET = int(e.IBV_QPS_RESET)
WITHOUT_RECEIVES = (int(e.IBV_QPT_XRC_RECV), int(e.IBV_QPT_XRC_SEND))


class QP(PyverbsCM):
    """A queue pair."""

    def __init__(
        self, creator: PD | Context, init_attr: QPInitAttr, qp_attr: QPAttr | None = None
    ) -> None:
        plan = plan_of(creator, init_attr)
        self.ctx, self.pd = plan.context, plan.pd
        self.scq, self.rcq, self.srq = plan.scq, plan.rcq, plan.srq
        self._type, self._operations = plan.kind, plan.operations
        self._signals_all = bool(init_attr.sq_sig_all)
        self._make(plan, init_attr.cap)
        init_attr.cap = self._cap()
        if qp_attr is not None:
            try:
                (self.to_rts if self._type in TO_RTS else self.to_init)(qp_attr)
            except Exception:
                self.close()
                raise

    def _make(self, plan: Plan, cap: QPCap) -> None:
        self._memory = QueueMemory(plan.domain, cap.max_send_wr + cap.max_recv_wr, QUEUE)
        self._device = self.ctx.world.device
        with self._memory.made_with("Failed to create QP"):
            self._number, self._caps = self._device.make_qp(
                0 if self.pd is None else self.pd.handle,
                self._type,
                0 if self.scq is None else self.scq.handle,
                0 if self.rcq is None else self.rcq.handle,
                0 if self.srq is None else self.srq.handle,
                Caps(*(getattr(cap, name) for name in QPCap.SHOWN)),
                self._signals_all,
                0 if plan.xrcd is None else plan.xrcd.handle,
            )
        self._held, self._sends = QPAttr(e.IBV_QPS_RESET, path_mtu=0), False
        self._offered = offered(self)
        self._opened()
        for holder in plan.holders:
            holder._adopt(self, "qps")

    def _cap(self) -> QPCap:
        return QPCap(*self._caps)

    def __str__(self) -> str:
        state, kind = qp_state_to_str(self.qp_state), qp_type_to_str(self._type)
        return "QP\n" + printed({"type": kind, "number": self.qp_num, "state": state})

    @property
    def qp_type(self) -> int:
        """Its transport."""
        return self._type

    @property
    def qp_num(self) -> int:
        """Its number."""
        return int(self._number)

    @property
    def qp_state(self) -> int:
        """Its state, which an error may have changed."""
        try:
            return int(self._device.qp_state(self._number))
        except Refused as refused:
            raise error("Failed to query QP", refused.errno) from None

    def modify(self, qp_attr: QPAttr, mask: int) -> None:
        """Set what ``mask`` names; errors: EINVAL, and nothing is changed."""
        wanted, failed = int(mask), "Failed to modify QP"
        now = self.qp_state
        then = qp_attr.qp_state if wanted & e.IBV_QP_STATE else now
        if wanted & e.IBV_QP_CUR_STATE and qp_attr.cur_qp_state != now:
            raise error(f"{failed} state", errno.EINVAL)
        said = wanted & ~int(e.IBV_QP_STATE)
        wrong = wrong_step(self._type, now, then, said) or wrong_values(self.ctx, qp_attr, wanted)
        if wrong:
            raise error(f"{failed} state", wrong)
        held = (
            QPAttr(e.IBV_QPS_RESET, path_mtu=0)
            if then == e.IBV_QPS_RESET
            else merged(self._held, qp_attr, wanted)
        )
        held.qp_state = then
        with refusal(f"{failed} state"):
            self._device.modify_qp(self._number, state_of(held, wanted))
        self._held, self._sends = held, then not in NOT_YET

    def _step(self, qp_attr: QPAttr, now: int, then: int) -> None:
        qp_attr.qp_state = then
        self.modify(qp_attr, required_masks(self._type, now, then) | int(e.IBV_QP_STATE))

    def to_init(self, qp_attr: QPAttr) -> None:
        """Go from RESET to INIT."""
        self._step(qp_attr, e.IBV_QPS_RESET, e.IBV_QPS_INIT)

    def to_rtr(self, qp_attr: QPAttr) -> None:
        """Go to where it receives, by INIT if it is not there."""
        if self.qp_state != e.IBV_QPS_INIT:
            self.to_init(qp_attr)
        self._step(qp_attr, e.IBV_QPS_INIT, e.IBV_QPS_RTR)

    def to_rts(self, qp_attr: QPAttr) -> None:
        """Go to where it sends, by RTR if it is not there."""
        if self.qp_state != e.IBV_QPS_RTR:
            self.to_rtr(qp_attr)
        self._step(qp_attr, e.IBV_QPS_RTR, e.IBV_QPS_RTS)

    def query(self, attr_mask: int) -> tuple[QPAttr, QPInitAttr]:  # noqa: ARG002 - all is told
        """All that is set, and what it was made as."""
        found = self._held.copied()
        found.qp_state = found.cur_qp_state = self.qp_state
        found.cap = self._cap()
        made = QPInitAttr(
            self._type, None, self.scq, self.rcq, self.srq, self._cap(), int(self._signals_all)
        )
        return found, made

    def query_data_in_order(self, op: int, flags: int = 0) -> int:
        """What is promised of the order in which bytes arrive: nothing."""
        if int(op) not in e.ibv_wr_opcode.__members__.values():
            raise error("Failed to query data in order", errno.EINVAL)
        if int(flags) & ~int(e.IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS):
            raise error("Failed to query data in order", errno.EINVAL)
        return 0

    def post_send(self, wr: SendWR, bad_wr: SendWR | None = None) -> None:
        """Ask for what ``wr`` and those behind it say."""
        post_chain(wr, bad_wr, self._wrong_send, self._post, "Failed to post send")

    def _wrong_send(self, wr: SendWR) -> int:
        return wrong_send(self, wr)

    def _post(self, wr: SendWR) -> None:
        self._device.post_send(self._number, ready_to_send(wr))

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Have buffers wait for what comes."""
        post_chain(wr, bad_wr, self._wrong_receive, self._post_receive, "Failed to post recv")

    def _wrong_receive(self, wr: RecvWR) -> int:
        if self.srq is not None or self._type in WITHOUT_RECEIVES:
            return errno.EINVAL
        if self._held.qp_state == RESET or len(wr.pieces) > self._caps.recv_sge:
            return errno.EINVAL
        return 0

    def _post_receive(self, wr: RecvWR) -> None:
        self._device.post_recv(self._number, wr.request())

    def bind_mw(self, mw: MW, mw_bind: MWBind) -> None:
        """Open a window of type 1; its key changes at once."""
        failed = "Failed to bind MW"
        info = mw_bind.info
        if mw.type != e.IBV_MW_TYPE_1 or self._held.qp_state not in POSTING:
            raise error(failed, errno.EINVAL)
        if info.mr.pd.pd is not self.pd or mw.pd is not self.pd:
            raise error(failed, errno.EPERM)
        key = inc_rkey(mw.rkey)
        request = Send(
            mw_bind.wr_id, e.IBV_WR_BIND_MW, (), mw_bind.send_flags, bind=bind_of(mw, info, key)
        )
        with refusal(failed):
            self._device.post_send(self._number, request)
        mw.rkey = key

    def modify_rate_limit(self, rate_limit_attr: QPRateLimitAttr) -> None:
        """Errors: EOPNOTSUPP, as nothing is paced."""
        said = f"Failed to modify rate limit to {rate_limit_attr.rate_limit}"
        raise error(said, errno.EOPNOTSUPP)

    def set_ece(self, ece: ECE) -> None:
        """Errors: EOPNOTSUPP unless it asks for nothing."""
        if ece.vendor_id or ece.options:
            raise error("Failed to set ECE", errno.EOPNOTSUPP)

    def query_ece(self) -> ECE:
        """Nothing was agreed on."""
        return ECE()

    def _release(self) -> None:
        self._device.free_qp(self._number)
        self._memory.free()
