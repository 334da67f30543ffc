"""Messages per second of the simulation of delivery, and beside the same model in SimPy.

    python bench/bench_simulate.py

8 KB messages in a steady stream, adaptive delivery, scripted hosts, no log. SimPy gets the same
packets, and every finishing time must be the same picosecond. Rates are per CPU second of one
core, the median of a few rounds after one that compiles and warms up.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import compiled  # noqa: F401 - rates are those of compiled code
import simpy_delivery

from nicscope.config.design import POLICIES
from nicscope.config.platform import delivery_costs, load_platform
from nicscope.drivers.simulate.script import Outcome, Run, simulate_script
from nicscope.fabric.topology import Topology, crossbar, pair
from nicscope.interfaces.trapeze import Cluster, Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

PINGS = 10_000
ROUNDS = 3
PAYLOAD = 8192
MESSAGES = 20_000  # beside SimPy
LENGTHS = (10_000, 100_000, 1_000_000)
NODES = (8, 16, 32, 64)
LEAST_RATE, LEAST_RATIO = 500_000, 50
PLATFORM = "p6-natoma"
COSTS = delivery_costs(load_platform(PLATFORM))
ADAPTIVE = POLICIES["adaptive"]


class Case(NamedTuple):
    """Nodes and what they send: (sender, destination, payload, count)."""

    title: str
    topology: Topology
    runs: list[tuple[int, int, int, int]]

    @property
    def count(self) -> int:
        return sum(run[3] for run in self.runs)

    def drive(self) -> Outcome:
        return simulate_script(
            [COSTS] * self.topology.nodes,
            ADAPTIVE,
            self.topology,
            [Run(*run) for run in self.runs],
            keep_messages=self.count,
        )

    def peer(self) -> list[tuple[int, int, int]]:
        costs = [COSTS] * self.topology.nodes
        return simpy_delivery.simulate(costs, ADAPTIVE, self.topology, self.runs)


def one_way(count: int) -> Case:
    return Case("a pair, one way", pair(), [(0, 1, PAYLOAD, count)])


def both_ways(count: int) -> Case:
    runs = [(node, 1 - node, PAYLOAD, count // 2) for node in (0, 1)]
    return Case("a pair, both ways", pair(), runs)


def all_to_all(nodes: int, count: int) -> Case:
    """About ``count`` messages in all; each node begins with the next one."""
    each = max(1, count // (nodes * (nodes - 1)))
    runs = [
        (sender, (sender + step) % nodes, PAYLOAD, each)
        for sender in range(nodes)
        for step in range(1, nodes)
    ]
    return Case(f"all to all, {nodes} nodes", crossbar(nodes), runs)


def seconds_of(run: Callable[[], object], rounds: int) -> float:
    """CPU seconds, the median of ``rounds``."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def require_equal_times(case: Case, outcome: Outcome, peer: list[tuple[int, int, int]]) -> None:
    columns = (outcome.messages[name].tolist() for name in ("sender", "packet", "read"))
    own = list(zip(*columns, strict=True))
    if len(own) != case.count:
        sys.exit(f"bench_simulate: {case.title}: {len(own)} of {case.count} messages arrived")
    for ours, theirs in zip(own, peer, strict=True):
        if ours != theirs:
            sys.exit(
                f"bench_simulate: {case.title}: (sender, packet, ps) is {ours} here and "
                f"{theirs} in SimPy"
            )


def print_beside_simpy(count: int, rounds: int) -> None:
    print(f"{'the same packets':24}{'messages':>10}{'k/s':>9}{'SimPy k/s':>11}{'ratio':>8}", end="")
    print(f"  least {LEAST_RATE // 1000} and {LEAST_RATIO}")
    for case in (one_way(count), both_ways(count), all_to_all(8, count)):
        outcome = case.drive()
        seconds = seconds_of(case.drive, rounds)
        kept: list[list[tuple[int, int, int]]] = []
        peer_seconds = seconds_of(lambda case=case, kept=kept: kept.append(case.peer()), 1)
        require_equal_times(case, outcome, kept[0])
        rate, peer_rate = case.count / seconds, case.count / peer_seconds
        met = rate >= LEAST_RATE and rate / peer_rate >= LEAST_RATIO
        print(f"{case.title:24}{case.count:10}{rate / 1e3:9.0f}{peer_rate / 1e3:11.1f}", end="")
        print(f"{rate / peer_rate:8.1f}  {'met' if met else 'short'}", flush=True)
    print("every finishing time is the same picosecond\n")


def print_costs(cases: list[Case], rounds: int) -> None:
    print(f"{'cost of a message':24}{'messages':>10}{'ns each':>9}{'events':>11}{'to first':>10}")
    first = None
    for case in cases:
        events = case.drive().events
        cost = seconds_of(case.drive, rounds) / case.count * 1e9
        first = first or cost
        print(f"{case.title:24}{case.count:10}{cost:9.0f}{events / case.count:11.1f}", end="")
        print(f"{cost / first:10.2f}", flush=True)
    print()


def ping_pong(byte_count: int, rounds: int) -> None:
    """Two coroutines that answer each other, with real bytes."""

    async def client(endpoint: Endpoint) -> None:
        page = endpoint.allocate(byte_count)
        for _ in range(rounds):
            await endpoint.send(1, page)
            endpoint.release(await endpoint.receive())

    async def server(endpoint: Endpoint) -> None:
        for _ in range(rounds):
            endpoint.release(await endpoint.receive())
            await endpoint.send(0)

    cluster = Cluster(PLATFORM)
    cluster.start(0, client)
    cluster.start(1, server)
    cluster.run()


def print_programs(rounds: int) -> None:
    print(f"{'two programs, ping-pong':24}{'messages':>10}{'k/s':>9}")
    ping_pong(8, 2)  # what is entered is compiled, or loaded
    for byte_count in (100, 8192):
        seconds = seconds_of(lambda size=byte_count: ping_pong(size, PINGS), rounds)
        print(f"{f'{byte_count} bytes and back':24}{2 * PINGS:10}{2 * PINGS / seconds / 1e3:9.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the simulation of delivery")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="beside SimPy")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="messages of one run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    one_way(100).drive()  # what is entered is compiled, or loaded
    print_beside_simpy(arguments.messages, arguments.rounds)
    lengths = [length for length in LENGTHS if length <= arguments.longest]
    print_costs([one_way(length) for length in lengths], arguments.rounds)
    middle = min(100_000, arguments.longest)
    print_costs([all_to_all(nodes, middle) for nodes in NODES], arguments.rounds)
    print_programs(arguments.rounds)


if __name__ == "__main__":
    main()
