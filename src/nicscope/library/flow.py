"""Messages in virtual time, taken apart: what ``nicscope flow`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import byte_count, command_line, whole, word
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.reports.flow import ShownFlow

PLATFORM = "p6-natoma"


@in_one_line
def flow(
    platform: str | Path | Platform = PLATFORM,
    to: str | Path | Platform | None = None,
    *,
    policy: str = "adaptive",
    payload: str | int = 8192,
    count: int = 8,
    gap: str = "0us",
    minpulse: str | int | None = None,
    minpulse_send: str | int | None = None,
    minpulse_receive: str | int | None = None,
    buffers: int | None = None,
    ring: int | None = None,
    max_payload: str | int | None = None,
    logging: bool = False,
    topology: str = "crossbar",
    nodes: int = 2,
    bus_master: str | None = None,
    assignments: str | Iterable[str] | None = None,
    **costs: One,
) -> ShownFlow:
    """Send messages in virtual time and tell where every microsecond of their way goes.

    Args:
        platform: of the senders.
        to: of the receivers; None: the same.
        policy: store-and-forward, cut-through, cut-through-minpulse, adaptive or
            message-store-and-forward.
        payload: bytes of each message, or a text such as ``"8KiB"``.
        count: messages of each sender.
        gap: at least, from start to start, such as ``"130us"``.
        minpulse: bytes, on both sides; None: the policy's.
        minpulse_send: on the sending side only.
        minpulse_receive: on the receiving side only.
        buffers: on a NIC, each way; None: the policy's.
        ring: entries of each ring; None: 64.
        max_payload: what each buffer holds; None: 8192.
        logging: whether the firmware logs, at its cost.
        topology: crossbar, pair or trunk.
        nodes: the first half sends, each to one of the second.
        bus_master: such as ``"8us/20us"``: another master has each host's bus so long of so long.
        assignments: ``COST=VALUE``, one or several, set on both platforms.
        costs: the same by name, such as ``firmware_start="2us"``.

    Errors: ``NicscopeError``, before anything is simulated.

    """
    from nicscope.studies.flow.question import ask

    set_costs = set_of(assignments, costs)
    size = word("payload", payload) or ""
    largest = word("max_payload", max_payload)
    minpulse = byte_count("minpulse", minpulse)
    minpulse_send = byte_count("minpulse_send", minpulse_send)
    minpulse_receive = byte_count("minpulse_receive", minpulse_receive)
    count, nodes = whole("count", count) or 0, whole("nodes", nodes) or 0
    buffers, ring = whole("buffers", buffers), whole("ring", ring)
    question = ask(
        platform=platform,
        to=to,
        policy=policy,
        payload=size,
        count=count,
        gap=word("gap", gap) or "",
        minpulse=(
            minpulse if minpulse_send is None else minpulse_send,
            minpulse if minpulse_receive is None else minpulse_receive,
        ),
        buffers=buffers,
        ring=ring,
        max_payload=largest,
        logging=logging,
        topology=topology,
        nodes=nodes,
        bus_master=bus_master,
        assignments=set_costs,
    )
    options = {
        "--platform": platform,
        "--to": to,
        "--policy": policy,
        "--payload": size,
        "--count": count,
        "--gap": word("gap", gap) if question.gap_ps else None,
        "--minpulse": minpulse,
        "--minpulse-send": minpulse_send,
        "--minpulse-receive": minpulse_receive,
        "--buffers": buffers,
        "--ring": ring,
        "--max-payload": largest,
        "--topology": topology if topology != "crossbar" else None,
        "--nodes": nodes if nodes != 2 else None,
        "--logging": logging,
        "--bus-master": bus_master,
        "--set": set_costs,
    }
    from nicscope.reports.flow import ShownFlow
    from nicscope.studies.flow.report import report

    with progress("simulating", "messages") as watch:
        return ShownFlow(report(question, command_line(["flow"], options), watch))
