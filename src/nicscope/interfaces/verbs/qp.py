"""Queue pairs, and all that they are made of."""

from __future__ import annotations

from nicscope.interfaces.verbs.qp_attr import ECE, QPAttr, QPRateLimitAttr
from nicscope.interfaces.verbs.qp_ex import DataBuffer, QPEx
from nicscope.interfaces.verbs.qp_init import QPCap, QPInitAttr, QPInitAttrEx
from nicscope.interfaces.verbs.queue_pair import QP

__all__ = [
    "ECE",
    "QP",
    "DataBuffer",
    "QPAttr",
    "QPCap",
    "QPEx",
    "QPInitAttr",
    "QPInitAttrEx",
    "QPRateLimitAttr",
]
