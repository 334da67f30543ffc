"""Virtual time as Chrome trace JSON, which Perfetto (ui.perfetto.dev) opens.

A process for each node, a thread for each of its engines, a slice for each transfer and action,
and an arrow that follows each packet from where it begins to where it ends.

One of a program shows all its runs, one cluster beside the other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope import __version__
from nicscope.drivers.simulate.log import Engine
from nicscope.interfaces.run_log import TRACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.run_log import RunLog
    from nicscope.interfaces.run_report import RunReport
    from nicscope.studies.programs import ProgramRuns

MOST_RECORDS = 200_000  # of all logs, each by end; a browser has to hold them
PS_PER_US = 10**6
LANES = 16  # threads of a node, from one lane of its engines to the next


class Drawn(NamedTuple):
    """One run."""

    nodes: Sequence[str]  # what each is called
    log: RunLog
    engines: Sequence[Engine] = ()  # that have a track, used or not; others have one if used


class _Touch(NamedTuple):
    time_ps: int
    node: int
    thread: int


def document(runs: Sequence[Drawn], command: Sequence[str], version: str) -> dict[str, Any]:
    """All runs side by side; times in us with as many decimals as picoseconds need."""
    events: list[dict[str, Any]] = []
    left, drawn, process = MOST_RECORDS, 0, 0
    for number, run in enumerate(runs):
        log = run.log.records[:left]
        events += _run(run, log, process, f"{number}." if number else "")
        left -= len(log)
        drawn += len(log)
        process += len(run.nodes)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "command": " ".join(command),
            "version": version,
            "records": f"{drawn} of {sum(run.log.total for run in runs)}",
        },
    }


def _run(run: Drawn, log: NDArray[Any], process: int, prefix: str) -> list[dict[str, Any]]:
    log = log[np.argsort(log["start"], kind="stable")]
    threads = _threads(log)
    named = _names(run, {*zip(log["node"].tolist(), threads, strict=True)})
    slices = (_slice(*one, run.log) for one in zip(log, threads, strict=True))
    events = [*named, *slices, *_arrows(log, threads, run.log, prefix)]
    for event in events:
        event["pid"] += process
    return events


def _threads(log: NDArray[Any]) -> list[int]:
    """Of each record, by start: its engine's, or one beside if that is still at another."""
    ends: dict[tuple[int, int], list[int]] = {}
    found = []
    fields = (log[name].tolist() for name in ("node", "engine", "start", "end"))
    for node, engine, start, end in zip(*fields, strict=True):
        lanes = ends.setdefault((node, engine), [])
        lane = next((i for i, until in enumerate(lanes) if until <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        found.append(engine + LANES * lane)
    return found


def _us(ps: Any) -> float:
    """Microseconds; the shortest decimal that JSON writes for it is exact up to 2**53 ps."""
    return int(ps) / PS_PER_US


def _names(run: Drawn, used: set[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for node, name in enumerate(run.nodes):
        yield _metadata("process_name", node, 0, {"name": name})
        yield _metadata("process_sort_index", node, 0, {"sort_index": node})
        mine = {int(engine) for engine in run.engines}
        for thread in sorted(mine | {thread for where, thread in used if where == node}):
            lane, engine = divmod(thread, LANES)
            track = TRACKS[Engine(engine)] + (f" {lane + 1}" if lane else "")
            order = engine * LANES + lane
            yield _metadata("thread_name", node, thread, {"name": track})
            yield _metadata("thread_sort_index", node, thread, {"sort_index": order})


def _metadata(name: str, node: int, thread: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": node, "tid": thread, "args": arguments}


def _slice(record: Any, thread: int, log: RunLog) -> dict[str, Any]:
    engine = Engine(int(record["engine"]))
    who = "process" if engine == Engine.CPU else "sender"
    return {
        "ph": "X",
        "name": _title(record, engine, log),
        "cat": TRACKS[engine],
        "pid": int(record["node"]),
        "tid": thread,
        "ts": _us(record["start"]),
        "dur": _us(record["end"] - record["start"]),
        "args": {
            "packet": int(record["packet"]),
            who: int(record["sender"]),
            "bytes": int(record["bytes"]),
            "start_ps": int(record["start"]),
            "end_ps": int(record["end"]),
        },
    }


def _title(record: Any, engine: Engine, log: RunLog) -> str:
    """What was done, and for which packet, or which process."""
    packet, sender = int(record["packet"]), int(record["sender"])
    parts = []
    if engine in log.actions:
        parts.append(log.actions[engine][int(record["task"])])
    if packet >= 0:
        carried = log.packets.get((sender, packet))
        parts.append(f"packet {packet}" + (f" ({carried})" if carried else ""))
    elif engine == Engine.CPU and sender >= 0:
        parts.append(f"process {sender}")
    if packet >= 0 and engine not in log.actions:
        parts.append("control" if record["control"] else "payload")
    return ", ".join(parts) or TRACKS[engine]


def _arrows(
    log: NDArray[Any], threads: Sequence[int], run: RunLog, prefix: str
) -> Iterator[dict[str, Any]]:
    """One flow for each packet that touches two engines or more."""
    touched: dict[tuple[int, int], dict[int, _Touch]] = {}
    # The payload's first transfer stands for all; the control message's where there is none.
    for place in np.lexsort((log["start"], log["control"])).tolist():
        record = log[place]
        stop = _stop_of(record, run)
        if stop is not None:
            key = (int(record["sender"]), int(record["packet"]))
            touch = _Touch(int(record["start"]), int(record["node"]), threads[place])
            touched.setdefault(key, {}).setdefault(stop, touch)
    for (sender, packet), found in sorted(touched.items()):
        way = [found[stop] for stop in sorted(found)]
        if len(way) < 2:
            continue
        for place, touch in enumerate(_forward(way)):
            kind = "s" if place == 0 else "f" if place == len(way) - 1 else "t"
            yield {
                "ph": kind,
                "name": "way of a packet",
                "cat": "packet",
                "id": f"{prefix}{sender}.{packet}",
                "pid": touch.node,
                "tid": touch.thread,
                "ts": _us(touch.time_ps),
            } | ({"bp": "e"} if kind == "f" else {})


def _stop_of(record: Any, run: RunLog) -> int | None:
    """Where on its packet's way a record is; None if an arrow passes it by."""
    if record["packet"] < 0:
        return None
    of_sender = record["node"] == record["sender"]
    for place, stop in enumerate(run.way):
        if stop.engine == record["engine"] and stop.of_sender in (None, of_sender):
            return place
    return None


def _forward(way: list[_Touch]) -> Iterator[_Touch]:
    """The stops, none before the one it comes from: a receive is posted before it is due."""
    times = itertools.accumulate((touch.time_ps for touch in way), max)
    for touch, now in zip(way, times, strict=True):
        yield touch._replace(time_ps=now)


def program_timeline(found: ProgramRuns) -> dict[str, Any]:
    """The whole document, of runs whose logs were kept."""
    many = len(found.runs) > 1
    runs = [
        Drawn(_nodes(report, f"run {number}, " if many else ""), log)
        for number, (report, log) in enumerate(zip(found.runs, found.logs, strict=True), 1)
    ]
    command = ["nicscope", "simulate", found.program]
    return document(runs, command, __version__)


def counts(found: ProgramRuns) -> tuple[int, int]:
    """Records that the timeline shows, and those that there were."""
    return sum(len(log.records) for log in found.logs), sum(log.total for log in found.logs)


def _nodes(report: RunReport, run: str) -> list[str]:
    what = report.title()
    return [f"{run}node {node.node}: {what}" for node in report.nodes]
