"""What a queue pair's owner sets and asks."""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AHAttr
from nicscope.interfaces.verbs.base import PyverbsObject
from nicscope.interfaces.verbs.fields import Fields, Number
from nicscope.interfaces.verbs.qp_init import QPCap
from nicscope.interfaces.verbs.texts import mig_state_to_str, mtu_to_str, qp_state_to_str

NUMBERS = (
    *("qp_state", "cur_qp_state", "path_mtu", "path_mig_state", "qkey", "rq_psn", "sq_psn"),
    *("dest_qp_num", "qp_access_flags", "pkey_index", "alt_pkey_index"),
    *("en_sqd_async_notify", "sq_draining", "max_rd_atomic", "max_dest_rd_atomic"),
    *("min_rnr_timer", "port_num", "timeout", "retry_cnt", "rnr_retry", "alt_port_num"),
    *("alt_timeout", "rate_limit"),
)


class QPAttr(Fields, PyverbsObject):
    """A pair's state and all that goes with it."""

    SHOWN = NUMBERS
    qp_state, cur_qp_state, path_mtu, path_mig_state = Number(), Number(), Number(), Number()
    qkey, rq_psn, sq_psn, dest_qp_num = Number(), Number(), Number(), Number()
    qp_access_flags, pkey_index, alt_pkey_index = Number(), Number(), Number()
    en_sqd_async_notify, sq_draining, max_rd_atomic = Number(), Number(), Number()
    max_dest_rd_atomic, min_rnr_timer, port_num, timeout = Number(), Number(), Number(), Number()
    retry_cnt, rnr_retry, alt_port_num, alt_timeout = Number(), Number(), Number(), Number()
    rate_limit = Number()

    def __init__(
        self,
        qp_state: int = e.IBV_QPS_INIT,
        cur_qp_state: int = e.IBV_QPS_RESET,
        port_num: int = 1,
        path_mtu: int = e.IBV_MTU_1024,
    ) -> None:
        for name in NUMBERS:
            setattr(self, name, 0)
        self.qp_state, self.cur_qp_state = qp_state, cur_qp_state
        self.port_num, self.path_mtu = port_num, path_mtu
        self.cap = QPCap(0, 0, 0, 0, 0)
        self._way, self._alternative = AHAttr(), AHAttr()

    @property
    def ah_attr(self) -> AHAttr:
        """Where the pair leads."""
        return self._way.copied()

    @ah_attr.setter
    def ah_attr(self, val: AHAttr) -> None:
        self._way = val.copied()

    @property
    def alt_ah_attr(self) -> AHAttr:
        """Where else it might lead."""
        return self._alternative.copied()

    @alt_ah_attr.setter
    def alt_ah_attr(self, val: AHAttr) -> None:
        self._alternative = val.copied()

    def copied(self) -> QPAttr:
        """Another of the same values."""
        made = QPAttr()
        for name in NUMBERS:
            setattr(made, name, getattr(self, name))
        made.cap, made.ah_attr = self.cap.copied(), self._way
        made.alt_ah_attr = self._alternative
        return made

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        said = {
            "qp_state": qp_state_to_str,
            "cur_qp_state": qp_state_to_str,
            "path_mtu": mtu_to_str,
            "path_mig_state": mig_state_to_str,
        }
        return [
            (name.replace("_", " "), said.get(name, lambda value: value)(getattr(self, name)))
            for name in NUMBERS
        ]


class QPRateLimitAttr(Fields, PyverbsObject):
    """How fast a pair may send, which this device does not limit."""

    SHOWN = ("rate_limit", "max_burst_sz", "typical_pkt_sz")
    rate_limit, max_burst_sz, typical_pkt_sz = Number(), Number(), Number()

    def __init__(self, rate_limit: int = 0, max_burst_sz: int = 0, typical_pkt_sz: int = 0) -> None:
        self.rate_limit, self.max_burst_sz = rate_limit, max_burst_sz
        self.typical_pkt_sz = typical_pkt_sz


class ECE(Fields, PyverbsObject):
    """What two makers' connections agree on, which is nothing here."""

    SHOWN = ("vendor_id", "options", "comp_mask")
    vendor_id, options, comp_mask = Number(), Number(), Number()

    def __init__(self, vendor_id: int = 0, options: int = 0, comp_mask: int = 0) -> None:
        self.vendor_id, self.options, self.comp_mask = vendor_id, options, comp_mask
