"""Extended completion queues, whose completions are read field by field."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.fields import Fields, Number, printed
from nicscope.interfaces.verbs.queue_memory import CQ as QUEUE
from nicscope.interfaces.verbs.queue_memory import QueueMemory
from nicscope.interfaces.verbs_device.calls import Refused

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs_device.calls import Completion

NONE_LEFT = errno.ENOENT
READABLE = (
    e.IBV_WC_STANDARD_FLAGS
    | e.IBV_WC_EX_WITH_CVLAN
    | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
)
KNOWN = sum(e.ibv_create_cq_wc_flags)
MASKS = e.IBV_CQ_INIT_ATTR_MASK_FLAGS | e.IBV_CQ_INIT_ATTR_MASK_PD


def check_size(context: Context, cqe: int, vector: int, failed: str) -> None:
    """Errors: EINVAL for a length or a vector that the device has not."""
    if not 0 < cqe <= context.world.facts.max_cqe or not 0 <= vector < context.num_comp_vectors:
        raise error(failed, errno.EINVAL)
    if context._closed:
        raise error(failed, errno.EINVAL)


class PollCqAttr(Fields, PyverbsObject):
    """How a queue is to be polled."""

    SHOWN = ("comp_mask",)
    comp_mask = Number()

    def __init__(self, comp_mask: int = 0) -> None:
        self.comp_mask = comp_mask


class WcTmInfo(PyverbsObject):
    """What a tag had matched; there are no tags."""

    tag = priv = 0


class CqInitAttrEx(Fields, PyverbsObject):
    """What an extended queue should be."""

    SHOWN = ("cqe", "comp_vector", "wc_flags", "comp_mask", "flags")
    cqe, comp_vector, wc_flags, comp_mask, flags = (
        Number(),
        Number(),
        Number(),
        Number(),
        Number(),
    )

    def __init__(
        self,
        cqe: int = 100,
        channel: Any = None,
        comp_vector: int = 0,
        wc_flags: int = 0,
        comp_mask: int = 0,
        flags: int = 0,
        parent_domain: Any = None,
    ) -> None:
        self.cqe, self.comp_vector, self.wc_flags = cqe, comp_vector, wc_flags
        self.comp_mask, self.flags = comp_mask, flags
        self.channel, self.parent_domain = channel, parent_domain


class CQEX(PyverbsCM):
    """A completion queue that is read one completion after the other."""

    ORDER = ("qps", "srqs", "wqs")

    def __init__(self, context: Context, init_attr: CqInitAttrEx | None = None) -> None:
        wanted = CqInitAttrEx() if init_attr is None else init_attr
        failed = "Failed to create extended CQ"
        self.context, self.comp_channel = context, wanted.channel
        check_size(context, wanted.cqe, wanted.comp_vector, failed)
        if wanted.wc_flags & ~int(READABLE):
            known = not wanted.wc_flags & ~int(KNOWN)
            raise error(failed, errno.EOPNOTSUPP if known else errno.EINVAL)
        if wanted.comp_mask & ~int(MASKS):
            raise error(failed, errno.EINVAL)
        domain = wanted.parent_domain if wanted.comp_mask & e.IBV_CQ_INIT_ATTR_MASK_PD else None
        self._memory = QueueMemory(domain, wanted.cqe, QUEUE)
        self._readable = wanted.wc_flags
        with self._memory.made_with(failed):
            self.handle, self._cqe = context.world.device.make_cq(wanted.cqe)
        self.unacknowledged = 0
        self._at: Completion | None = None
        self._opened()
        (context if wanted.channel is None else wanted.channel)._adopt(self, "cqs")
        context._adopt(self, "cqs")

    def __str__(self) -> str:
        return "Extended CQ\n" + printed({"handle": self.handle, "cqe": self.cqe})

    @property
    def cqe(self) -> int:
        """The completions that it holds."""
        return int(self._cqe)

    def start_poll(self, attr: PollCqAttr | None = None) -> int:
        """Go to the first completion: 0, or 2 if there is none, when virtual time goes on."""
        if attr is not None and attr.comp_mask:
            return errno.EINVAL
        return self.poll_next()

    def poll_next(self) -> int:
        """Go to the next completion: 0, or 2 if there is none, when virtual time goes on."""
        try:
            found = self.context.world.device.poll(self.handle, 1)
        except Refused as refused:
            raise error("Failed to poll CQ", refused.errno) from None
        self._at = found[0] if found else None
        return 0 if found else NONE_LEFT

    def end_poll(self) -> None:
        """Be done with reading."""
        self._at = None

    def _found(self) -> Completion:
        if self._at is None:
            raise error("No completion is being read", errno.EINVAL)
        return self._at

    @property
    def wr_id(self) -> int:
        """The request that has completed."""
        return self._found().wr_id

    @property
    def status(self) -> int:
        """How it went."""
        return self._found().status

    def read_opcode(self) -> int:
        """What has completed."""
        return self._found().opcode

    def read_vendor_err(self) -> int:
        """What the device says of an error."""
        return self._found().vendor_err

    def read_byte_len(self) -> int:
        """The bytes that came."""
        return self._found().byte_len

    def read_imm_data(self) -> int:
        """The word that came with them, in network order, or the key that was invalidated."""
        return self._found().imm

    def read_qp_num(self) -> int:
        """The pair that it belongs to."""
        return self._found().qp_num

    def read_src_qp(self) -> int:
        """The pair that sent."""
        return self._found().src_qp

    def read_wc_flags(self) -> int:
        """What else is there."""
        return self._found().wc_flags

    def read_slid(self) -> int:
        """0, as on any Ethernet."""
        self._found()
        return 0

    def read_sl(self) -> int:
        """The level of service, which is 0."""
        self._found()
        return 0

    def read_dlid_path_bits(self) -> int:
        """0, as on any Ethernet."""
        self._found()
        return 0

    def read_timestamp(self) -> int:
        """When it completed, in nanoseconds of the device's clock."""
        return self._found().time_ns

    def read_completion_wallclock_ns(self) -> int:
        """When it completed; the device's clock is the only one."""
        return self._found().time_ns

    def _absent(self, what: str) -> int:
        raise error(f"The device has no {what}", errno.EOPNOTSUPP)

    def read_cvlan(self) -> int:
        """0: no frame here has a tag."""
        self._found()
        return 0

    def read_flow_tag(self) -> int:
        """Errors: EOPNOTSUPP."""
        return self._absent("flow tags")

    def read_tm_info(self) -> WcTmInfo:
        """Errors: EOPNOTSUPP."""
        self._absent("tag matching")
        return WcTmInfo()

    def req_notify(self, solicited_only: bool = False) -> None:
        """Have the next completion, or the next solicited one, reported."""
        with refusal("Request notify CQ returned"):
            self.context.world.device.arm(self.handle, bool(solicited_only))

    def count_event(self) -> None:
        """An event of it has been taken."""
        self.unacknowledged += 1

    def ack_events(self, num_events: int) -> None:
        """So many of its events have been seen."""
        self.unacknowledged = max(self.unacknowledged - int(num_events), 0)

    def _release(self) -> None:
        self.ack_events(self.unacknowledged)
        self.context.world.device.free_cq(self.handle)
        self._memory.free()
