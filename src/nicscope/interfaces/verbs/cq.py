"""Completion queues, completion channels and completions; extended ones read field by field."""

from __future__ import annotations

import errno
import os
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import (
    Attributes,
    Fields,
    PyverbsCM,
    PyverbsObject,
    error,
    printed,
    refusal,
)
from nicscope.interfaces.verbs.enumerations import naming
from nicscope.interfaces.verbs.mr import CQ_MEMORY, QueueMemory
from nicscope.interfaces.verbs_device.calls import Completion, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.interfaces.verbs.device import Context


NONE_LEFT = errno.ENOENT
READABLE = (
    e.IBV_WC_STANDARD_FLAGS
    | e.IBV_WC_EX_WITH_CVLAN
    | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
)
KNOWN = sum(e.ibv_create_cq_wc_flags)
MASKS = e.IBV_CQ_INIT_ATTR_MASK_FLAGS | e.IBV_CQ_INIT_ATTR_MASK_PD


class PollCqAttr(Attributes):
    """Attributes of a poll."""

    comp_mask: int = 0


class WcTmInfo(PyverbsObject):
    """A completion's tag matching fields; tag matching is not supported."""

    tag = priv = 0


class CqInitAttrEx(Attributes):
    """Attributes of an extended completion queue."""

    cqe: int = 100
    channel: Any = None
    comp_vector: int = 0
    wc_flags: int = 0
    comp_mask: int = 0
    flags: int = 0
    parent_domain: Any = None


class CompletionQueue(PyverbsCM):
    """What all completion queues have in common."""

    ORDER = ("qps", "srqs", "wqs")
    TITLE: ClassVar[str]
    context: Context
    handle: int
    _cqe: int
    unacknowledged = 0

    def _check_size(self, cqe: int, vector: int, failed: str) -> None:
        """Errors: EINVAL for a queue length or completion vector that the device has not."""
        context = self.context
        fits = 0 < cqe <= context.world.facts.max_cqe and 0 <= vector < context.num_comp_vectors
        if not fits or context._closed:
            raise error(failed, errno.EINVAL)

    def _opened_with(self, channel: CompChannel | None) -> None:
        self._opened()
        (self.context if channel is None else channel)._add_dependent(self, "cqs")
        self.context._add_dependent(self, "cqs")

    def __str__(self) -> str:
        return f"{self.TITLE}\n" + printed({"handle": self.handle, "cqe": self.cqe})

    @property
    def cqe(self) -> int:
        """The number of entries of the queue."""
        return int(self._cqe)

    def req_notify(self, solicited_only: bool = False) -> None:
        """Arm the queue: the next completion, or the next solicited one, raises an event."""
        with refusal("Request notify CQ returned"):
            self.context.world.device.arm(self.handle, bool(solicited_only))

    def count_taken_event(self) -> None:
        """An event of it has been taken."""
        self.unacknowledged += 1

    def ack_events(self, num_events: int) -> None:
        """So many of its events have been seen."""
        self.unacknowledged = max(self.unacknowledged - int(num_events), 0)

    def _release(self) -> None:
        self.ack_events(self.unacknowledged)
        self.context.world.device.free_cq(self.handle)


def _reads(field: str, meaning: str) -> Callable[[CQEX], int]:
    """A call that reads a field of the completion that is being read."""
    get = attrgetter(field)

    def read(self: CQEX) -> int:
        found: int = get(self._found())
        return found

    read.__doc__ = meaning
    return read


class CQEX(CompletionQueue):
    """An extended completion queue, read one completion at a time."""

    TITLE = "Extended CQ"

    def __init__(self, context: Context, init_attr: CqInitAttrEx | None = None) -> None:
        wanted = CqInitAttrEx() if init_attr is None else init_attr
        failed = "Failed to create extended CQ"
        self.context, self.comp_channel = context, wanted.channel
        self._check_size(wanted.cqe, wanted.comp_vector, failed)
        if wanted.wc_flags & ~int(READABLE):
            known = not wanted.wc_flags & ~int(KNOWN)
            raise error(failed, errno.EOPNOTSUPP if known else errno.EINVAL)
        if wanted.comp_mask & ~int(MASKS):
            raise error(failed, errno.EINVAL)
        domain = wanted.parent_domain if wanted.comp_mask & e.IBV_CQ_INIT_ATTR_MASK_PD else None
        self._memory = QueueMemory(domain, wanted.cqe, CQ_MEMORY)
        self._readable = wanted.wc_flags
        with self._memory.made_with(failed):
            self.handle, self._cqe = context.world.device.make_cq(wanted.cqe)
        self._at: Completion | None = None
        self._opened_with(wanted.channel)

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
        """End the poll."""
        self._at = None

    def _found(self) -> Completion:
        if self._at is None:
            raise error("No completion is being read", errno.EINVAL)
        return self._at

    wr_id = property(_reads("wr_id", "The ``wr_id`` of the completed work request."))
    status = property(_reads("status", "The completion's status."))
    read_opcode = _reads("opcode", "The opcode of the completed operation.")
    read_vendor_err = _reads("vendor_err", "The vendor's error code.")
    read_byte_len = _reads("byte_len", "The number of bytes received.")
    read_imm_data = _reads(
        "imm_data",
        "The word that came with them, in network order, or the key that was invalidated.",
    )
    read_qp_num = _reads("qp_num", "The number of the local queue pair.")
    read_src_qp = _reads("src_qp", "The number of the sending queue pair.")
    read_wc_flags = _reads("wc_flags", "The completion's flags.")
    read_slid = _reads("slid", "0, as on any Ethernet.")
    read_sl = _reads("sl", "The service level, which is 0.")
    read_dlid_path_bits = _reads("dlid_path_bits", "0, as on any Ethernet.")
    read_timestamp = _reads("time_ns", "When it completed, in nanoseconds of the device's clock.")
    read_completion_wallclock_ns = _reads(
        "time_ns", "When it completed; the device's clock is the only one."
    )

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

    def _release(self) -> None:
        super()._release()
        self._memory.free()


def _said(meaning: str, kind: Any) -> Callable[[int], str]:
    name_of = naming(meaning, kind, "Unknown", "IBV_WC_")

    def spelt(value: int) -> str:
        return name_of(value).replace("_", " ").capitalize()

    spelt.__doc__ = meaning
    return spelt


cqe_status_to_str = _said("The name of a completion's status.", e.ibv_wc_status)
cqe_opcode_to_str = _said("The name of a completion's opcode.", e.ibv_wc_opcode)


class CompChannel(PyverbsCM):
    """A completion channel, on which queues raise events."""

    ORDER = ("cqs",)

    def __init__(self, context: Context) -> None:
        self.context = context
        self._file = -1
        self._opened()
        context._add_dependent(self, "ccs")

    @property
    def fd(self) -> int:
        """A descriptor; waiting on it does not move virtual time."""
        if self._file < 0:
            self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self._file

    def get_cq_event(self, expected_cq: Any) -> None:
        """Wait for the next event of any of its queues.

        Errors: ``PyverbsRDMAError`` if it is another's than ``expected_cq``, or none can ever come.
        """
        queues = {each.handle: each for each in self._living("cqs")}
        found = self.context.world.device.next_cq_event(set(queues))
        if found is None:
            raise error("Failed to get CQ event: none can come", errno.EAGAIN)
        queues[found].count_taken_event()
        if queues[found] is not expected_cq:
            raise error("Received event on an unexpected CQ", errno.EINVAL)

    def _release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class WC(Fields, PyverbsObject, Completion):
    """A completion."""

    SHOWN = (
        *("wr_id", "status", "opcode", "vendor_err", "byte_len", "qp_num", "src_qp"),
        *("imm_data", "wc_flags", "pkey_index", "slid", "sl", "dlid_path_bits"),
    )

    SAID: ClassVar = {"status": cqe_status_to_str, "opcode": cqe_opcode_to_str}


class CQ(CompletionQueue):
    """A completion queue."""

    TITLE = "CQ"

    def __init__(
        self,
        context: Context,
        cqe: int,
        cq_context: Any = None,
        channel: CompChannel | None = None,
        comp_vector: int = 0,
    ) -> None:
        self.context, self.comp_channel, self.cq_context = context, channel, cq_context
        wanted, world = int(cqe), context.world
        self._device = world.device
        failed = "Failed to create a CQ"
        self._check_size(wanted, int(comp_vector), failed)
        with refusal(failed):
            self.handle, self._cqe = world.device.make_cq(wanted, WC)
        self._opened_with(channel)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """The number of completions and those; polling an empty queue advances virtual time."""
        try:
            found = self._device.poll(self.handle, int(num_entries))
        except Refused as refused:
            raise error("Failed to poll CQ", refused.errno) from None
        return len(found), found

    def resize(self, cqe: int) -> None:
        """Resize the queue; errors: EINVAL where not all completions would fit."""
        wanted = int(cqe)
        facts = self.context.world.facts
        if not facts.resize_cq:
            raise error("Failed to resize CQ", errno.EOPNOTSUPP)
        if not 0 < wanted <= facts.max_cqe:
            raise error("Failed to resize CQ", errno.EINVAL)
        with refusal("Failed to resize CQ"):
            self._cqe = int(self.context.world.device.resize_cq(self.handle, wanted))
