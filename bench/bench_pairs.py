"""What a cluster of many nodes takes for the pairs of them: two of a thousand talk, 512 all do.

    python bench/bench_pairs.py

VMMC under UTLB, by programs.  Seconds are CPU seconds of the cluster's making and its run, with
what is compiled loaded before; memory is the peak of the process, each measured in one of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import compiled  # noqa: F401 - rates are those of compiled code

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.interfaces.vmmc import Cluster, Endpoint

# Nodes, GB and s at most.
ROWS = {"two talk": (1000, 0.4, 2), "all to all": (512, 1.5, 25)}
LENGTH = 64  # bytes of a store
OUTSTANDING = 32  # stores of a node


def two_talk(nodes: int) -> None:
    """One node stores a page into another's memory."""
    cluster = Cluster("utlb", nodes=nodes)

    async def owner(end: Endpoint) -> None:
        await end.export(end.allocate(4096), "area")
        await end.notification()

    async def user(end: Endpoint) -> None:
        remote = await end.import_buffer(0, "area")
        assert (await end.wait(await end.store(remote, end.allocate(4096), notify=True))).ok

    cluster.start(0, owner)
    cluster.start(1, user)
    cluster.run()


def all_to_all(nodes: int) -> None:
    """Every node imports a page of every other one and stores into it."""
    cluster = Cluster("utlb", nodes=nodes, size=PortSize(imports=nodes))

    async def program(end: Endpoint) -> None:
        await end.export(end.allocate(4096), "area")
        own = end.allocate(4096)
        await own.write(bytes(LENGTH))
        for step in range(1, nodes):
            remote = await end.import_buffer((end.node + step) % nodes, "area")
            last = await end.store(remote, own, length=LENGTH)
            if step % OUTSTANDING == 0:
                await end.wait(last)
        assert (await end.wait(last)).ok

    for node in range(nodes):
        cluster.start(node, program)
    cluster.run()


def measure(row: str, nodes: int) -> None:
    """Run ``row`` in this process and print what it took."""
    run = two_talk if row == "two talk" else all_to_all
    run(2)  # what is entered is compiled, or loaded
    start = time.process_time()
    run(nodes)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    _, most_gb, most_s = ROWS[row]
    met = "met" if peak <= most_gb and seconds <= most_s else "short"
    print(f"{row:12}{nodes:7}{peak:9.2f}{most_gb:6}{seconds:9.1f}{most_s:6}  {met}", flush=True)


def main() -> None:
    """Print one line per row, each from a process of its own."""
    parser = argparse.ArgumentParser(description="measure what pairs of nodes take")
    parser.add_argument("--row", choices=ROWS, help="one of them, in this process")
    parser.add_argument("--nodes", type=int, help="of that row")
    arguments = parser.parse_args()
    if arguments.row:
        measure(arguments.row, arguments.nodes or ROWS[arguments.row][0])
        return
    print(f"{'':12}{'nodes':>7}{'GB':>9}{'most':>6}{'s':>9}{'most':>6}", flush=True)
    for row in ROWS:
        command = [sys.executable, __file__, "--row", row]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
