"""Virtual time as Chrome trace JSON, which Perfetto (ui.perfetto.dev) opens.

A process for each node, a thread for each of its engines, a slice for each transfer and action,
and an arrow that follows each packet from the host that wrote it to the host that read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.log import Engine, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.studies.flow.report import FlowReport

MOST_RECORDS = 200_000  # of the log, by end; a browser has to hold them
PS_PER_US = 10**6
TRACKS = {
    Engine.HOST_WRITE: "host write",
    Engine.HOST_TX: "hostTx",
    Engine.NET_TX: "netTx",
    Engine.NET_RCV: "netRcv",
    Engine.HOST_RCV: "hostRcv",
    Engine.HOST_READ: "host read",
    Engine.FIRMWARE: "firmware",
}
# Where a packet's arrow touches down, in this order.
_WAY = (
    Engine.HOST_WRITE,
    Engine.HOST_TX,
    Engine.NET_TX,
    Engine.NET_RCV,
    Engine.HOST_RCV,
    Engine.HOST_READ,
)


class _Stop(NamedTuple):
    time_ps: int
    node: int
    engine: int


def timeline(report: FlowReport) -> dict[str, Any]:
    """The whole document; times in us with as many decimals as picoseconds need."""
    log = report.log[:MOST_RECORDS]
    order = np.argsort(log["start"], kind="stable")
    events = [*_names(report), *(_slice(record) for record in log[order]), *_arrows(log)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "command": " ".join(report.repeat.get("command", [])),
            "version": report.repeat.get("version", ""),
            "records": f"{len(log)} of {len(report.log)}",
        },
    }


def _us(ps: Any) -> float:
    """Microseconds; the shortest decimal that JSON writes for it is exact up to 2**53 ps."""
    return int(ps) / PS_PER_US


def _names(report: FlowReport) -> Iterator[dict[str, Any]]:
    ask = report.question
    for node in range(ask.topology.nodes):
        name = f"node {node}: {ask.platform_of(node).name}"
        yield _metadata("process_name", node, 0, {"name": name})
        yield _metadata("process_sort_index", node, 0, {"sort_index": node})
        for engine, track in TRACKS.items():
            yield _metadata("thread_name", node, engine, {"name": track})
            yield _metadata("thread_sort_index", node, engine, {"sort_index": int(engine)})


def _metadata(name: str, node: int, engine: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": node, "tid": int(engine), "args": arguments}


def _slice(record: Any) -> dict[str, Any]:
    packet, task = int(record["packet"]), int(record["task"])
    is_firmware = record["engine"] == Engine.FIRMWARE
    whose = f"packet {packet}" if packet >= 0 else "any packet"
    carried = "control" if record["control"] else "payload"
    return {
        "ph": "X",
        "name": f"{Task(task).name}, {whose}" if is_firmware else f"{whose}, {carried}",
        "cat": TRACKS[Engine(int(record["engine"]))],
        "pid": int(record["node"]),
        "tid": int(record["engine"]),
        "ts": _us(record["start"]),
        "dur": _us(record["end"] - record["start"]),
        "args": {
            "packet": packet,
            "sender": int(record["sender"]),
            "bytes": int(record["bytes"]),
            "start_ps": int(record["start"]),
            "end_ps": int(record["end"]),
        },
    }


def _arrows(log: NDArray[Any]) -> Iterator[dict[str, Any]]:
    """One flow for each packet that touches two engines or more."""
    stops: dict[tuple[int, int], dict[int, _Stop]] = {}
    chosen = log[(log["engine"] != Engine.FIRMWARE) & (log["packet"] >= 0)]
    # The payload's first transfer stands for all; the control message's where there is none.
    for record in chosen[np.lexsort((chosen["start"], chosen["control"]))]:
        key = (int(record["sender"]), int(record["packet"]))
        stop = _Stop(int(record["start"]), int(record["node"]), int(record["engine"]))
        stops.setdefault(key, {}).setdefault(stop.engine, stop)
    for (sender, packet), found in sorted(stops.items()):
        way = [found[engine] for engine in _WAY if engine in found]
        if len(way) < 2:
            continue
        for place, stop in enumerate(_forward(way)):
            kind = "s" if place == 0 else "f" if place == len(way) - 1 else "t"
            yield {
                "ph": kind,
                "name": "way of a packet",
                "cat": "packet",
                "id": f"{sender}.{packet}",
                "pid": stop.node,
                "tid": stop.engine,
                "ts": _us(stop.time_ps),
            } | ({"bp": "e"} if kind == "f" else {})


def _forward(way: list[_Stop]) -> Iterator[_Stop]:
    """The stops, none before the one it comes from: a receive is posted before it is due."""
    now = way[0].time_ps
    for stop in way:
        now = max(now, stop.time_ps)
        yield stop._replace(time_ps=now)
