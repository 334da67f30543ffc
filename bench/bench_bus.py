"""Bus transactions simulated per second, by what asks for them, on one core.

    python bench/bench_bus.py

Each transaction is an event: another device reads blocks one after the other; an engine moves 4 KB
at a time; the CPU stores 64 KB into blocks that the interface watches, which reads each back. The
rate is by processor time of the process, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import compiled  # noqa: F401 - rates are those of compiled code

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from bus_by_hand import Bus
from nicscope.drivers.simulate.bus.bus_harness import asked
from nicscope.drivers.simulate.records import ACCESS
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import READ
from nicscope.memory.coherence.processor import STORE
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import FETCH

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
BLOCK, MESSAGE, LONG = 128, 4096, 1 << 16
BUFFER = 4096
ROWS = 10_000
ALL = 1 << 40


def another_device(bus: Bus, times: int) -> None:
    for _ in range(max(1, times // ROWS)):
        bus.replay_script()
        bus.fire(ALL)


def an_engine(bus: Bus, times: int) -> None:
    way = int(Mechanism.DMA_INTERVENTION)
    for _ in range(times * BLOCK // MESSAGE):
        bus.start(ENGINE_OUT, way, FETCH, 0, 0, MESSAGE, bus.now)
        bus.fire(ALL)


def eager_reads(bus: Bus, times: int) -> None:
    rows = asked(ACCESS, STORE, BUFFER, LONG)
    for _ in range(times * BLOCK // LONG // 2):
        bus.do(rows)
        bus.fire(ALL)


def rate(nodes: int, work: Callable[[Bus, int], None], times: int) -> float:
    """Transactions per second of a bus among as many others at rest."""
    bus = Bus(nodes=nodes, rows=ROWS, other_bytes=BLOCK)
    if work is eager_reads:
        bus.register(BUFFER, LONG)
    if work is another_device:
        bus.play([{"kind": READ, "count": BLOCK, "address": BLOCK}] * ROWS)
    work(bus, 1_000)
    best = 0.0
    for _ in range(ROUNDS):
        before, began = bus.counts().sum(), time.process_time()
        work(bus, times)
        best = max(best, (bus.counts().sum() - before) / (time.process_time() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=200_000)
    options = parser.parse_args()
    print(f"{'asked for by':<18}{'nodes':>6}{'transactions/s':>16}")
    for name, work in (
        ("another device", another_device),
        ("an engine", an_engine),
        ("CPU and agent", eager_reads),
    ):
        for nodes in (2, 64):
            print(f"{name:<18}{nodes:>6}{rate(nodes, work, options.transactions):>16,.0f}")


if __name__ == "__main__":
    main()
