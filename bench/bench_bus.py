"""Bus transactions simulated per second, by what asks for them, on one core.

    python bench/bench_bus.py

Each transaction is an event: another device reads blocks one after the other; an engine moves 4 KB
at a time; the CPU stores into blocks that the interface watches, which reads each back. The rate
is by processor time of the process, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import compiled  # noqa: F401 - rates are those of compiled code

from nicscope.config.delivery import DELIVERY_COSTS, POLICIES
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.granting import play
from nicscope.drivers.simulate.bus.moving import start_move
from nicscope.drivers.simulate.bus.parameters import unfitted
from nicscope.drivers.simulate.bus.requests import schedule
from nicscope.drivers.simulate.bus.state import new_bus
from nicscope.drivers.simulate.machine import ACCESS
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.store import no_store
from nicscope.fabric.topology import crossbar
from nicscope.kernel.distant import link
from nicscope.kernel.entering import bound
from nicscope.memory.coherence.access import STORE
from nicscope.memory.coherence.asks import ENGINE_OUT
from nicscope.memory.coherence.layout import READ, SHARED
from nicscope.memory.coherence.watcher import Watcher, watch_block
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.nic.ways.state import FETCH

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
BLOCK, MESSAGE = 128, 4096
ALL = 1 << 40


class World:
    """Nodes with a bus each, of which the first is at work."""

    def __init__(self, nodes: int, rows: int) -> None:
        self.bus = new_bus(
            nodes,
            nodes,
            unfitted().host,
            unfitted().nic,
            window_bytes=MESSAGE,
            rows=rows,
            other_bytes=BLOCK,
        )
        costs = dict.fromkeys(DELIVERY_COSTS, 1)
        self.machine = new_machine(
            [costs] * nodes,
            POLICIES["adaptive"],
            crossbar(nodes),
            no_store(nodes),
            0,
            0,
            range(nodes),
            bus=self.bus,
        )
        link(self.machine, FUNCTIONS)
        self.go_on = bound(advance, self.machine)

    @property
    def now(self) -> int:
        return int(self.machine.tally[0]["now"])

    def count(self) -> int:
        return int(self.bus.hosts.counts.sum())

    def another_device(self, times: int) -> None:
        rows = self.bus.script[0]
        rows["kind"], rows["count"] = READ, BLOCK
        rows["address"] = BLOCK
        self.bus.playing[0]["row"], self.bus.playing[0]["rows"] = 0, len(rows)
        for _ in range(max(1, times // len(rows))):
            self.bus.playing[0]["row"] = 0
            play(self.machine, 0, self.now)
            schedule(self.machine, 0)
            self.go_on(0, ALL)

    def engine(self, times: int) -> None:
        way = int(Mechanism.DMA_INTERVENTION)
        for _ in range(times * BLOCK // MESSAGE):
            start_move(self.machine, 0, ENGINE_OUT, way, FETCH, 0, 0, MESSAGE, self.now)
            self.go_on(0, ALL)

    def eager_reads(self, times: int) -> None:
        request = self.machine.outbox[0]
        for name, value in (("operation", ACCESS), ("tag", STORE), ("payload", MESSAGE)):
            request[name] = value
        for _ in range(times * BLOCK // MESSAGE // 2):
            self.go_on(1, ALL)
            self.go_on(0, ALL)


def rate(nodes: int, work: Callable[[World, int], None], times: int) -> float:
    """Transactions per second."""
    world = World(nodes, 10_000)
    agent = Watcher(*(array[0] for array in world.bus.ways.agents))
    first = int(world.bus.ways.nics.config[0, 0]["buffer_start"]) // BLOCK
    for block in range(MESSAGE // BLOCK if work is World.eager_reads else 0):
        watch_block(agent, block, first + block, 40_000)
        agent.copies[first + block]["state"] = SHARED
    work(world, 1_000)
    best = 0.0
    for _ in range(ROUNDS):
        before, began = world.count(), time.process_time()
        work(world, times)
        best = max(best, (world.count() - before) / (time.process_time() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=200_000)
    options = parser.parse_args()
    print(f"{'asked for by':<18}{'nodes':>6}{'transactions/s':>16}")
    for name, work in (
        ("another device", World.another_device),
        ("an engine", World.engine),
        ("CPU and agent", World.eager_reads),
    ):
        for nodes in (2, 64):
            print(f"{name:<18}{nodes:>6}{rate(nodes, work, options.transactions):>16,.0f}")


if __name__ == "__main__":
    main()
