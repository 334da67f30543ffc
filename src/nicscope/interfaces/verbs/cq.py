"""Completion queues, their channels, and what lies in them."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.cq_ex import CQEX, CqInitAttrEx, PollCqAttr, WcTmInfo, check_size
from nicscope.interfaces.verbs.fields import Fields, printed
from nicscope.interfaces.verbs.texts import of_enum
from nicscope.interfaces.verbs_device.calls import Refused

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs_device.calls import Completion

__all__ = [
    "CQ",
    "CQEX",
    "WC",
    "CompChannel",
    "CqInitAttrEx",
    "PollCqAttr",
    "WcTmInfo",
    "cqe_opcode_to_str",
    "cqe_status_to_str",
]


def cqe_status_to_str(status: int) -> str:
    """The name of a completion's status."""
    return of_enum(e.ibv_wc_status, status, "IBV_WC_", "Unknown").replace("_", " ").capitalize()


def cqe_opcode_to_str(opcode: int) -> str:
    """The name of what has completed."""
    return of_enum(e.ibv_wc_opcode, opcode, "IBV_WC_", "Unknown").replace("_", " ").capitalize()


class CompChannel(PyverbsCM):
    """Where queues report that something has come."""

    ORDER = ("cqs",)

    def __init__(self, context: Context) -> None:
        self.context = context
        self._file = -1
        self._opened()
        context._adopt(self, "ccs")

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
        queues[found].count_event()
        if queues[found] is not expected_cq:
            raise error("Received event on an unexpected CQ", errno.EINVAL)

    def _release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class WC(Fields, PyverbsObject):
    """A completion."""

    SHOWN = (
        *("wr_id", "status", "opcode", "vendor_err", "byte_len", "qp_num", "src_qp"),
        *("imm_data", "wc_flags", "pkey_index", "slid", "sl", "dlid_path_bits"),
    )

    def __init__(
        self,
        wr_id: int = 0,
        status: int = 0,
        opcode: int = 0,
        vendor_err: int = 0,
        byte_len: int = 0,
        qp_num: int = 0,
        src_qp: int = 0,
        imm_data: int = 0,
        wc_flags: int = 0,
        pkey_index: int = 0,
        slid: int = 0,
        sl: int = 0,
        dlid_path_bits: int = 0,
    ) -> None:
        self.wr_id, self.status, self.opcode, self.vendor_err = wr_id, status, opcode, vendor_err
        self.byte_len, self.qp_num, self.src_qp = byte_len, qp_num, src_qp
        self.imm_data, self.wc_flags, self.pkey_index = imm_data, wc_flags, pkey_index
        self.slid, self.sl, self.dlid_path_bits = slid, sl, dlid_path_bits

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        said = {"status": cqe_status_to_str, "opcode": cqe_opcode_to_str}
        return [
            (name.replace("_", " "), said.get(name, lambda value: value)(getattr(self, name)))
            for name in self.SHOWN
        ]


def wc_of(found: Completion) -> WC:
    """A completion as programs see it."""
    return WC(
        found.wr_id,
        found.status,
        found.opcode,
        found.vendor_err,
        found.byte_len,
        found.qp_num,
        found.src_qp,
        found.imm,
        found.wc_flags,
    )


class CQ(PyverbsCM):
    """A completion queue."""

    ORDER = ("qps", "srqs", "wqs")

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
        failed = "Failed to create a CQ"
        check_size(context, wanted, int(comp_vector), failed)
        with refusal(failed):
            self.handle, self._cqe = world.device.make_cq(wanted)
        self.unacknowledged = 0
        self._opened()
        (context if channel is None else channel)._adopt(self, "cqs")
        context._adopt(self, "cqs")

    def __str__(self) -> str:
        return "CQ\n" + printed({"handle": self.handle, "cqe": self.cqe})

    @property
    def cqe(self) -> int:
        """The completions that it holds."""
        return int(self._cqe)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """How many completions there were, and those; an empty queue lets virtual time go on."""
        try:
            found = self.context.world.device.poll(self.handle, int(num_entries))
        except Refused as refused:
            raise error("Failed to poll CQ", refused.errno) from None
        return len(found), [wc_of(each) for each in found]

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

    def resize(self, cqe: int) -> None:
        """Make it longer or shorter; errors: EINVAL where not all completions would fit."""
        wanted = int(cqe)
        facts = self.context.world.facts
        if not facts.resize_cq:
            raise error("Failed to resize CQ", errno.EOPNOTSUPP)
        if not 0 < wanted <= facts.max_cqe:
            raise error("Failed to resize CQ", errno.EINVAL)
        with refusal("Failed to resize CQ"):
            self._cqe = int(self.context.world.device.resize_cq(self.handle, wanted))

    def _release(self) -> None:
        self.ack_events(self.unacknowledged)
        self.context.world.device.free_cq(self.handle)
