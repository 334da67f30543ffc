"""Trapeze Figure 5: bandwidth of each engine over time, with and without the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.calibrate.anchors import PAYLOAD, STEADY, cold_start, lost_to_gaps
from nicscope.studies.delivery_measures import (
    PS_PER_US,
    bandwidth_mbytes_s,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.calibrate.anchors import ColdStart
    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item

PAIR = "p6-natoma"
ENGINES = (Engine.HOST_TX, Engine.NET_TX, Engine.HOST_RCV)  # netRcv moves in lockstep with netTx


def run(item: Item) -> Outcome:
    """The cold start's stream to its end, with the log and without."""
    ends = pair_costs(platform_costs(), PAIR)
    logged, plain = cold_start(ends, logging=True), cold_start(ends)
    without = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD)
    outcome = Outcome()
    outcome.point("without_logging", "MB/s", without)
    outcome.point("lost_to_gaps", "%", 100 * lost_to_gaps(ends))
    _rates(outcome, item, logged)
    with_log = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD, logging=True)
    outcome.shape("logging-costs", with_log < without, f"{with_log:.1f} of {without:.1f} MB/s")
    parts = [_steady_sizes(found) for found in (logged, plain)]
    outcome.shape(
        "log-keeps-cut-through",
        max(parts[0]) < PAYLOAD and parts[1] == {PAYLOAD},
        f"{_range(parts[0])} bytes with the log, {_range(parts[1])} without",
    )
    _equal_or_not(outcome, item, ends, without)
    return outcome


def _rates(outcome: Outcome, item: Item, logged: ColdStart) -> None:
    printed = item.printed
    start = printed["steady_state_us"] * PS_PER_US
    origin = int(logged.of(Engine.HOST_TX, 0)["start"][0])
    stop = int(logged.of(Engine.HOST_TX)["end"][-1])
    rates = {engine.name: _between(logged, engine, origin + start, stop) for engine in ENGINES}
    outcome.shape(
        "steady-at-800",
        min(rates.values()) > printed["steady_state_mbytes_s_over"],
        ", ".join(f"{name} {rate:.1f} MB/s" for name, rate in rates.items()),
    )
    passes = [
        _first_over(logged, engine, printed["steady_state_mbytes_s_over"]) - origin
        for engine in ENGINES
    ]
    outcome.shape(
        "sender-first",
        passes[0] < passes[1] < passes[2],
        ", ".join(
            f"{engine.name} at {when / PS_PER_US:.0f} us"
            for engine, when in zip(ENGINES, passes, strict=True)
        ),
    )


def _equal_or_not(outcome: Outcome, item: Item, ends: tuple[Costs, Costs], without: float) -> None:
    store = bandwidth_mbytes_s(ends, "store-and-forward", PAYLOAD)
    printed = item.printed["without_logging_mbytes_s"]
    table = item.printed["store_and_forward_mbytes_s"]
    outcome.shape(
        "adaptive-is-108-or-111",
        printed < table and abs(without / store - 1) < (1 - printed / table),
        f"printed {printed} and {table} MB/s; ours {without:.1f} and {store:.1f}",
    )


def _between(found: ColdStart, engine: Engine, start: int, stop: int) -> float:
    """Bytes over time (MB/s), idle time included; a transfer counts by the share inside."""
    records = found.of(engine)
    inside = np.clip(records["end"], start, stop) - np.clip(records["start"], start, stop)
    share = inside / (records["end"] - records["start"])
    return float((records["bytes"] * share).sum() * PS_PER_US / (stop - start))


def _first_over(found: ColdStart, engine: Engine, mbytes_s: float) -> int:
    """When (ps) a payload after the first has passed ``engine`` faster than that, idle included."""
    last = int(found.of(engine, 0)["end"][-1])
    packet = 1
    while True:
        end = int(found.of(engine, packet)["end"][-1])
        if PAYLOAD * PS_PER_US / (end - last) > mbytes_s:
            return end
        last, packet = end, packet + 1


def _steady_sizes(found: ColdStart) -> set[int]:
    """Bytes of hostRcv transfers once the stream is steady."""
    transfers = found.of(Engine.HOST_RCV)
    return set(transfers[transfers["packet"] >= STEADY]["bytes"].tolist())


def _range(sizes: set[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low} to {high}"
