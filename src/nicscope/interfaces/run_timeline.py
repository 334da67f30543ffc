"""Virtual time as Chrome trace JSON, from one form of log for every engine (ui.perfetto.dev)."""

from __future__ import annotations

import itertools
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.observe import Engine, RunLog
from nicscope.errors import SimulationError
from nicscope.interfaces.run_report import PS_PER_US, MachineRun, title
from nicscope.outputs import whole_file
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


TRACKS = {
    Engine.HOST_WRITE: "host write",
    Engine.HOST_TX: "hostTx",
    Engine.NET_TX: "netTx",
    Engine.NET_RCV: "netRcv",
    Engine.HOST_RCV: "hostRcv",
    Engine.HOST_READ: "host read",
    Engine.FIRMWARE: "firmware",
    Engine.CPU: "CPU",
    Engine.TABLE: "table reads",
    Engine.DESCRIPTOR: "descriptor reads",
    Engine.REPORT: "reports",
}


MOST_RECORDS = 200_000  # of all logs, each by end; a browser has to hold them
LANES = 16  # threads of a node, from one lane of its engines to the next


class Drawn(NamedTuple):
    """One run of a timeline."""

    nodes: Sequence[str]  # what each is called
    log: RunLog
    engines: Sequence[Engine] = ()  # that have a track, used or not; others have one if used


class _FlowStop(NamedTuple):
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
    touched: dict[tuple[int, int], dict[int, _FlowStop]] = {}
    # The payload's first transfer stands for all; the control message's where there is none.
    for place in np.lexsort((log["start"], log["control"])).tolist():
        record = log[place]
        stop = _stop_of(record, run)
        if stop is not None:
            key = (int(record["sender"]), int(record["packet"]))
            touch = _FlowStop(int(record["start"]), int(record["node"]), threads[place])
            touched.setdefault(key, {}).setdefault(stop, touch)
    for (sender, packet), found in sorted(touched.items()):
        way = [found[stop] for stop in sorted(found)]
        if len(way) < 2:
            continue
        for place, touch in enumerate(_in_order(way)):
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
    """The point of a packet's arrow at this record; None if the arrow skips it."""
    if record["packet"] < 0:
        return None
    of_sender = record["node"] == record["sender"]
    for place, stop in enumerate(run.way):
        if stop.engine == record["engine"] and stop.of_sender in (None, of_sender):
            return place
    return None


def _in_order(way: list[_FlowStop]) -> Iterator[_FlowStop]:
    """The stops in order of time: a receive may be posted before it is due."""
    times = itertools.accumulate((touch.time_ps for touch in way), max)
    for touch, now in zip(way, times, strict=True):
        yield touch._replace(time_ps=now)


PAGE = ".html"
_TEMPLATE = Path(__file__).with_name("run_timeline.html")
_DATA = "/*DATA*/"


def write_timeline(source: MachineRun, path: Path) -> Path:
    """The file ``path``: a page where it ends in .html, else JSON for Perfetto.

    Errors: ``SimulationError`` if no records were kept; ``OutputError``, ``ReaderGone``.
    """
    log = source.log()
    if log.total and not len(log.records):
        raise SimulationError(
            f"no records of this run were kept, of {log.total:,}; make the cluster with "
            f"keep_log={MOST_RECORDS} and run it again"
        )
    what = title(source.names)
    nodes = [f"node {node.node}: {what}" for node in source.nodes()]
    found = document([Drawn(nodes, log)], ["Cluster.timeline", str(path)], __version__)
    return write_document(found, path, what)


def write_document(found: dict[str, Any], path: Path, what: str) -> Path:
    """A timeline's document as the file ``path``: a page about ``what``, or JSON, by its name.

    Errors: ``OutputError``, ``ReaderGone``.
    """
    text = page_of(found, what) if path.suffix.lower() == PAGE else json.dumps(found) + "\n"
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return path


def page_of(found: dict[str, Any], what: str) -> str:
    """A timeline's document as one page, which needs nothing from anywhere."""
    rows: dict[tuple[int, int], int] = {}
    tracks: list[list[Any]] = []
    nodes = {
        event["pid"]: event["args"]["name"]
        for event in found["traceEvents"]
        if event["name"] == "process_name"
    }
    for event in found["traceEvents"]:
        if event["name"] == "thread_name" and event["ph"] == "M":
            rows[event["pid"], event["tid"]] = len(tracks)
            tracks.append([nodes[event["pid"]].partition(":")[0], event["args"]["name"]])
    names: dict[str, int] = {}
    slices = [
        [
            rows[event["pid"], event["tid"]],
            event["ts"],
            event["dur"],
            names.setdefault(event["name"], len(names)),
            event["args"]["bytes"],
            event["args"]["packet"],
            event["args"].get("sender", -1),
        ]
        for event in found["traceEvents"]
        if event["ph"] == "X"
    ]
    data = {
        "title": what,
        "records": found["otherData"]["records"],
        "tracks": tracks,
        "names": list(names),
        "slices": slices,
    }
    # Within a script only its end could be mistaken.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    heading = escape(what)
    return _TEMPLATE.read_text("utf-8").replace("<!--TITLE-->", heading).replace(_DATA, text)
