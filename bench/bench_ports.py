"""Messages per second through NICs that serve ports: programs, scripts, a cluster of 32 nodes.

    python bench/bench_ports.py

Small messages over reliable links, translated by UTLB.  Rates are per CPU second of one core, the
median of a few rounds after one that compiles and warms up; memory is the process's peak.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.config.design import POLICIES, load_design
from nicscope.config.platform import load_platform, program_costs, transfer_costs
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Setup, new_ports
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.records import POST
from nicscope.drivers.simulate.script import Scripted, rows_of
from nicscope.fabric.topology import crossbar
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.memory.paging.layout import DEMAND_ZERO, READ
from nicscope.memory.paging.layout import WRITE as WRITABLE
from nicscope.nic.ports.layout import MAY_FETCH, MAY_WRITE, NOBODY, SEND, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.interfaces.ports.process import Process

ROUNDS = 3
PINGS = 10_000
PAGES = 8  # that a scripted process sends from and receives into
TABLES = 1  # of a process, a page of the host too
LEAST = {"programs": 100_000, "scripts": 500_000}
MOST_SECONDS, MOST_BYTES = 60, 2 * 10**9
DESIGN = load_design("utlb").at_page_size(4096)
PLATFORM = load_platform("utlb-prototype")


def seconds_of(run: Callable[[], object], rounds: int) -> float:
    """CPU seconds, the median of ``rounds``."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def connect(process: Process, peer: int) -> None:
    channel = process._ports.channels[process.node, 0]
    values = {"port": process.port, "node": peer, "tag": 0, "unit": 4096, "most": 4096}
    for name, value in values.items():
        channel[name] = value


def ping_pong(rounds: int, chains: bool = False) -> PortCluster[Process]:
    """Two coroutines that answer each other with 32 bytes in the descriptor.

    With ``chains`` they put their posts before the calls that answer.
    """
    content = bytes(range(32))

    async def client(process: Process) -> None:
        connect(process, 1)
        for _ in range(rounds):
            if chains:
                found = await process.arrival(after=process.posting_inline(SEND, 0, content))
            else:
                await process.post_inline(SEND, 0, content)
                found = await process.arrival()
            await process.done()
        assert found.content == content

    async def server(process: Process) -> None:
        connect(process, 0)
        for _ in range(rounds):
            found = await process.arrival()
            if chains:
                await process.done(after=process.posting_inline(SEND, 0, found.content or b""))
            else:
                await process.post_inline(SEND, 0, found.content or b"")
                await process.done()

    cluster: PortCluster[Process] = PortCluster(DESIGN, PLATFORM.name)
    cluster.start(0, client)
    cluster.start(1, server)
    cluster.run()
    return cluster


def scripted(nodes: int, each: int, count: int, size: int, depth: int) -> Scripted:
    """About ``count`` remote stores in all: every process to every other node in turn."""
    steps = service_costs(program_costs(PLATFORM, DESIGN.scheme), DESIGN)
    setup = Setup(
        design=DESIGN,
        processes=[each] * nodes,
        ports=each + 1,
        costs=[steps.steps] * nodes,
        user_pin=[steps.user_pin] * nodes,
        user_unpin=[steps.user_unpin] * nodes,
        host=HostSize(frames=each * (PAGES + TABLES) + 2, pages_per_space=16, swap_blocks=1),
        size=PortSize(ring=16, ready=1, channels=1, exports=each, imports=each * nodes, longest=4),
    )
    ports = new_ports(setup, POLICIES["adaptive"])
    ports.memory.entries["state"][:, :, :PAGES] = DEMAND_ZERO
    ports.memory.entries["rights"][:, :, :PAGES] = READ | WRITABLE
    ports.table["open"] = 1
    ports.table["space"][:, 1:] = np.arange(each)
    exports = ports.shared.exports
    for name, value in {
        "valid": 1,
        "length": PAGES * 4096,
        "rights": MAY_WRITE | MAY_FETCH,
    }.items():
        exports[name] = value
    exports["space"] = np.arange(each)
    for name in ("port", "node", "importer"):
        exports[name] = NOBODY
    imports = ports.shared.imports.reshape(nodes, each, nodes)  # by process and node
    imports["port"] = np.arange(1, each + 1)[:, None]
    imports["node"] = np.arange(nodes)
    imports["export"] = np.arange(each)[:, None]
    imports["length"] = PAGES * 4096
    imports["rights"] = MAY_WRITE | MAY_FETCH
    hosts = [node for node in range(nodes) for _ in range(each)]
    per = count // len(hosts)
    run = Scripted(
        [transfer_costs(PLATFORM)] * nodes,
        POLICIES["adaptive"],
        crossbar(nodes),
        hosts,
        ports,
        rows_at_once=per,
    )
    scripts = [script(nodes, node, p % each, per, size) for p, node in enumerate(hosts)]
    run.run(scripts, depth)
    assert int(run.machine.scripted["failed"].sum()) == 0
    return run


def script(nodes: int, node: int, process: int, count: int, size: int) -> NDArray[Any]:
    rows = rows_of(count)
    turn = np.arange(count)
    peer = (node + 1 + turn % (nodes - 1)) % nodes
    rows["port"] = process + 1
    rows["operation"] = POST
    rows["own"] = WRITE
    rows["name"] = process * nodes + peer
    rows["address"] = turn % PAGES * 4096
    rows["offset"] = turn % PAGES * 4096
    rows["length"] = size
    return rows


def print_rate(title: str, count: int, seconds: float, least: int) -> None:
    rate = count / seconds
    met = "met" if rate >= least else "short"
    print(
        f"{title:36}{count:10}{seconds:9.2f}{rate / 1e3:9.1f}{least / 1e3:9.0f}  {met}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="measure NICs that serve ports")
    parser.add_argument("--messages", type=int, default=1_000_000, help="all to all")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    for chains in (False, True):  # what is entered is compiled, or loaded
        ping_pong(3, chains)
    for size in (64, 4096):
        scripted(2, 1, 100, size, 8)
    print(f"{'':36}{'messages':>10}{'s':>9}{'k/s':>9}{'least':>9}")
    seconds = seconds_of(lambda: ping_pong(PINGS), arguments.rounds)
    print_rate("two programs, 32 bytes and back", 2 * PINGS, seconds, LEAST["programs"])
    seconds = seconds_of(lambda: ping_pong(PINGS, chains=True), arguments.rounds)
    print_rate("the same, in chains", 2 * PINGS, seconds, LEAST["programs"])
    for size, count in ((64, 200_000), (4096, 100_000)):
        seconds = seconds_of(lambda s=size, c=count: scripted(2, 1, c, s, 8), arguments.rounds)
        print_rate(f"two scripts, stores of {size} bytes", count, seconds, LEAST["scripts"])
    seconds = seconds_of(lambda: scripted(32, 4, arguments.messages, 64, 4), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    met = seconds <= MOST_SECONDS and peak <= MOST_BYTES
    print(
        f"32 nodes of 4 processes, all to all  {arguments.messages} stores of 64 bytes: "
        f"{seconds:.1f} s (most {MOST_SECONDS}), {peak / 1e9:.2f} GB (most "
        f"{MOST_BYTES / 1e9:.0f}): {'met' if met else 'short'}"
    )
    sys.exit(0)


if __name__ == "__main__":
    main()
