"""The timeline of a script's packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.log import Engine
from nicscope.interfaces.machine_run import ACTIONS, WAY
from nicscope.interfaces.run_log import RunLog
from nicscope.studies.timeline import Drawn, document

if TYPE_CHECKING:
    from nicscope.studies.flow.report import FlowReport

ENGINES = (
    Engine.HOST_WRITE,
    Engine.HOST_TX,
    Engine.NET_TX,
    Engine.NET_RCV,
    Engine.HOST_RCV,
    Engine.HOST_READ,
    Engine.FIRMWARE,
)


def timeline(report: FlowReport) -> dict[str, Any]:
    """The whole document."""
    ask = report.question
    names = [f"node {n}: {ask.platform_of(n).name}" for n in range(ask.topology.nodes)]
    log = RunLog(report.log, len(report.log), ACTIONS, {}, WAY)
    repeat = report.repeat
    drawn = Drawn(names, log, ENGINES)
    return document([drawn], repeat.get("command", []), repeat.get("version", ""))
