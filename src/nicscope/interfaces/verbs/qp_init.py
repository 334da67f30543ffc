"""What queue pairs should be."""

from __future__ import annotations

from typing import Any, ClassVar

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsObject
from nicscope.interfaces.verbs.fields import Fields, Number
from nicscope.interfaces.verbs.texts import qp_type_to_str


class QPCap(Fields, PyverbsObject):
    """Room of a pair's queues, and pieces and inline bytes of one request."""

    SHOWN = ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")
    max_send_wr, max_recv_wr, max_send_sge = Number(), Number(), Number()
    max_recv_sge, max_inline_data = Number(), Number()

    def __init__(
        self,
        max_send_wr: int = 1,
        max_recv_wr: int = 10,
        max_send_sge: int = 1,
        max_recv_sge: int = 1,
        max_inline_data: int = 0,
    ) -> None:
        self.max_send_wr, self.max_recv_wr = max_send_wr, max_recv_wr
        self.max_send_sge, self.max_recv_sge = max_send_sge, max_recv_sge
        self.max_inline_data = max_inline_data

    def copied(self) -> QPCap:
        """Another of the same values."""
        return QPCap(*(getattr(self, name) for name in self.SHOWN))


class OfCap:
    """A field of an attribute object's cap."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, kind: type | None = None) -> int:
        if holder is None:
            return self  # type: ignore[return-value]
        found: int = getattr(holder.cap, self._name)
        return found

    def __set__(self, holder: Any, value: Any) -> None:
        setattr(holder.cap, self._name, value)


class QPInitAttr(Fields, PyverbsObject):
    """What a pair should be."""

    SHOWN: ClassVar[tuple[str, ...]] = ("qp_type", "sq_sig_all", *QPCap.SHOWN)
    qp_type, sq_sig_all = Number(), Number()
    max_send_wr, max_recv_wr, max_send_sge = OfCap(), OfCap(), OfCap()
    max_recv_sge, max_inline_data = OfCap(), OfCap()

    def __init__(
        self,
        qp_type: int = e.IBV_QPT_UD,
        qp_context: Any = None,
        scq: Any = None,
        rcq: Any = None,
        srq: Any = None,
        cap: QPCap | None = None,
        sq_sig_all: int = 1,
    ) -> None:
        self.qp_type, self.sq_sig_all, self.qp_context = qp_type, sq_sig_all, qp_context
        self.send_cq, self.recv_cq, self.srq = scq, rcq, srq
        self.cap = QPCap() if cap is None else cap.copied()

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        return [("qp type", qp_type_to_str(self.qp_type)), *super().shown()[1:]]


class QPInitAttrEx(QPInitAttr):
    """What a pair should be, with all that was added."""

    SHOWN = (
        *QPInitAttr.SHOWN,
        *("comp_mask", "create_flags", "max_tso_header", "source_qpn", "send_ops_flags"),
    )
    comp_mask, create_flags, max_tso_header = Number(), Number(), Number()
    source_qpn, send_ops_flags = Number(), Number()

    def __init__(
        self,
        qp_type: int = e.IBV_QPT_UD,
        qp_context: Any = None,
        scq: Any = None,
        rcq: Any = None,
        srq: Any = None,
        cap: QPCap | None = None,
        sq_sig_all: int = 0,
        comp_mask: int = 0,
        pd: Any = None,
        xrcd: Any = None,
        create_flags: int = 0,
        max_tso_header: int = 0,
        source_qpn: int = 0,
        hash_conf: Any = None,
        ind_table: Any = None,
        send_ops_flags: int = 0,
    ) -> None:
        super().__init__(qp_type, qp_context, scq, rcq, srq, cap, sq_sig_all)
        self.comp_mask, self.create_flags = comp_mask, create_flags
        self.max_tso_header, self.source_qpn = max_tso_header, source_qpn
        self.send_ops_flags = send_ops_flags
        self.pd, self.xrcd = pd, xrcd
        self.hash_conf, self.ind_table = hash_conf, ind_table
