"""Shared receive queues."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import Fields, Number, PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.pd import SRQ as QUEUE
from nicscope.interfaces.verbs.pd import QueueMemory
from nicscope.interfaces.verbs.wr import post_receives

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs.pd import PD
    from nicscope.interfaces.verbs.wr import RecvWR

NEEDED = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
OF_XRC = NEEDED | e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ
KNOWN = sum(e.ibv_srq_init_attr_mask)
MASKS = e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT


class SrqAttr(Fields, PyverbsObject):
    """Depth of a shared receive queue, and the limit below which an event is raised."""

    SHOWN = ("max_wr", "max_sge", "srq_limit")
    max_wr, max_sge, srq_limit = Number(), Number(), Number()

    def __init__(self, max_wr: int = 100, max_sge: int = 1, srq_limit: int = 0) -> None:
        self.max_wr, self.max_sge, self.srq_limit = max_wr, max_sge, srq_limit


class SrqInitAttr(Fields, PyverbsObject):
    """Creation attributes of a shared receive queue."""

    SHOWN = ("max_wr", "max_sge", "srq_limit")
    max_wr, max_sge, srq_limit = Number(), Number(), Number()

    def __init__(self, attr: SrqAttr | None = None) -> None:
        given = SrqAttr() if attr is None else attr
        self.max_wr, self.max_sge, self.srq_limit = given.max_wr, given.max_sge, given.srq_limit

    @property
    def attr(self) -> SrqAttr:
        """The queue's depth."""
        return SrqAttr(self.max_wr, self.max_sge, self.srq_limit)


class SrqInitAttrEx(SrqInitAttr):
    """Extended creation attributes of a shared receive queue, of any type."""

    comp_mask, srq_type, max_num_tags, max_ops = Number(), Number(), Number(), Number()

    def __init__(self, max_wr: int = 100, max_sge: int = 1, srq_limit: int = 0) -> None:
        super().__init__(SrqAttr(max_wr, max_sge, srq_limit))
        self.comp_mask, self.srq_type = 0, e.IBV_SRQT_BASIC
        self.max_num_tags = self.max_ops = 0
        self.pd: PD | None = None
        self.xrcd: Any = None
        self.cq: Any = None


class OpsWr(PyverbsObject):
    """A tag matching operation, which is not supported."""


class SRQ(PyverbsCM):
    """A receive queue that several queue pairs share."""

    ORDER = ("qps",)

    def __init__(self, creator: PD | Context, attr: SrqInitAttr) -> None:
        failed = "Failed to create SRQ"
        self.xrcd = self.cq = None
        extended = isinstance(attr, SrqInitAttrEx)
        if isinstance(attr, SrqInitAttrEx):
            self._check(attr, failed)
            domain: Any = attr.pd
            if attr.srq_type == e.IBV_SRQT_XRC:
                self.xrcd, self.cq = attr.xrcd, attr.cq
        else:
            domain = creator.pd  # type: ignore[union-attr]
        self.pd, self.ctx = domain.pd, domain.ctx
        facts = self.ctx.world.facts
        if not facts.srq:
            raise error(failed, errno.EOPNOTSUPP)
        if not 0 < attr.max_wr <= facts.max_srq_wr or not 0 <= attr.max_sge <= facts.max_sge:
            raise error(failed, errno.EINVAL)
        self._memory = QueueMemory(domain, attr.max_wr, QUEUE)
        with self._memory.made_with(failed):
            self.handle, self._number, self.max_wr, self.max_sge = self.ctx.world.device.make_srq(
                self.pd.handle,
                attr.max_wr,
                attr.max_sge,
                0 if self.xrcd is None else self.xrcd.handle,
                0 if self.cq is None else self.cq.handle,
            )
        self._opened()
        (self.ctx if extended else domain)._add_dependent(self, "srqs")
        for holder in (domain, self.xrcd, self.cq):
            if holder is not None:
                holder._add_dependent(self, "srqs")

    def _check(self, attr: SrqInitAttrEx, failed: str) -> None:
        if attr.comp_mask & ~int(KNOWN):
            raise error(failed, errno.EINVAL)
        if attr.srq_type == e.IBV_SRQT_TM:
            raise error(failed, errno.EOPNOTSUPP)
        xrc = attr.srq_type == e.IBV_SRQT_XRC
        wanted = OF_XRC if xrc else e.IBV_SRQ_INIT_ATTR_PD
        missing = attr.pd is None or (xrc and (attr.xrcd is None or attr.cq is None))
        unknown = attr.srq_type not in (e.IBV_SRQT_BASIC, e.IBV_SRQT_XRC)
        if attr.comp_mask & int(wanted) != int(wanted) or missing or unknown:
            raise error(failed, errno.EINVAL)

    def post_recv(self, recv_wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Post a receive, taken by the first message to any of its queue pairs."""
        post, failed = self.ctx.world.device.srq_post, "Failed to post receive to SRQ"
        post_receives(recv_wr, bad_wr, post, self.handle, failed)

    def modify(self, attr: SrqAttr, comp_mask: int) -> None:
        """Change its depth, or arm the limit event."""
        mask, failed = int(comp_mask), "Failed to modify SRQ"
        if mask & ~int(MASKS) or not mask:
            raise error(failed, errno.EINVAL)
        device, facts = self.ctx.world.device, self.ctx.world.facts
        resized = attr.max_wr if mask & e.IBV_SRQ_MAX_WR else self.max_wr
        if not 0 < resized <= facts.max_srq_wr:
            raise error(failed, errno.EINVAL)
        if mask & e.IBV_SRQ_LIMIT and not 0 <= attr.srq_limit <= resized:
            raise error(failed, errno.EINVAL)
        with refusal(failed):
            if mask & e.IBV_SRQ_MAX_WR:
                device.srq_resize(self.handle, resized)
                self.max_wr = resized
            if mask & e.IBV_SRQ_LIMIT:
                device.srq_limit(self.handle, attr.srq_limit)

    def query(self) -> SrqAttr:
        """Its depth, and the limit if it is armed."""
        with refusal("Failed to query SRQ"):
            limit = int(self.ctx.world.device.srq_read_limit(self.handle))
        return SrqAttr(self.max_wr, self.max_sge, limit)

    def get_srq_num(self) -> int:
        """The number by which XRC senders name it."""
        if self.xrcd is None:
            raise error("Failed to retrieve SRQ number", errno.EOPNOTSUPP)
        return int(self._number)

    def post_srq_ops(self, wr: OpsWr, bad_wr: OpsWr | None = None) -> None:  # noqa: ARG002
        """Errors: EOPNOTSUPP, as tag matching is not supported."""
        raise error("Failed to post SRQ operations", errno.EOPNOTSUPP)

    def _release(self) -> None:
        self.ctx.world.device.free_srq(self.handle)
        self._memory.free()
