"""What of a flow is drawn, in pictures and on pages: a sender's first packets, and a title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.wording import whole
from nicscope.studies.flow.transfers import is_moving

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.studies.flow.report import FlowReport

MOST_PACKETS = 20  # of a picture; more would be too narrow to tell apart


def drawn_transfers(report: FlowReport, most: int = MOST_PACKETS) -> NDArray[Any]:
    """Transfers (TRANSFER) of the first flow's first ``most`` packets, as far as they moved."""
    sender, receiver = report.question.flows[0]
    transfers = report.transfers[is_moving(report.transfers)]
    mine = np.isin(transfers["node"], (sender, receiver)) & (transfers["sender"] == sender)
    shown: NDArray[Any] = transfers[mine & (transfers["packet"] < most)]
    return shown


def title(report: FlowReport, most: int = MOST_PACKETS) -> str:
    """Who, how, how large; and which flow and how many packets, if not all are drawn."""
    ask = report.question
    names = " to ".join(dict.fromkeys(each.name for each in ask.platforms))
    text = f"{names}, {ask.policy}, {whole(ask.payload)} bytes"
    parts = []
    if len(ask.flows) > 1:
        sender, receiver = ask.flows[0]
        parts.append(f"node {sender} to node {receiver}, one of {len(ask.flows)} flows")
    if ask.count > most:
        parts.append(f"first {most} packets")
    return text + (f" ({'; '.join(parts)})" if parts else "")
