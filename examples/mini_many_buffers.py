"""More buffers than the NIC could hold: a table in the host's memory, a cache on the NIC.

    python examples/mini_many_buffers.py

One process registers many buffers, another writes to each of them twice.  With static tables the
NIC's memory sets the limit; with handle lookup it is the same for a few buffers and for many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces import PortSize, SimulationError
from nicscope.interfaces.mini import Cluster
from nicscope.interfaces.ports.nic_memory import LOOKUP, total_by_group

if TYPE_CHECKING:
    from nicscope.interfaces.mini import Endpoint

BYTES = 64  # of a buffer
ROUNDS = 2
CACHE = 32  # handles of buffers that the NIC holds
TABLE = 64  # buffers that a static table holds, and a host's to begin with


def play(design: str, many: int) -> Cluster:
    """Run the two processes and return their cluster."""
    size = PortSize(exports=TABLE, imports=TABLE, buffer_entries=CACHE)
    cluster = Cluster(design, size=size)

    async def writer(end: Endpoint) -> None:
        own = end.allocate(BYTES)
        await end.find(f"buffer {many - 1}")
        remotes = [await end.open(await end.find(f"buffer {i}")) for i in range(many)]
        for number in range(ROUNDS):
            for i, remote in enumerate(remotes):
                await own.write(bytes([number + 1, i % 256]))
                await end.write(remote, own, notify=False)
                assert (await end.done()).ok
        await end.register(own, name="over")

    async def owner(end: Endpoint) -> None:
        arena = end.allocate(many * BYTES)
        for i in range(many):
            await end.register(arena.part(i * BYTES, BYTES), name=f"buffer {i}")
        await end.find("over")
        for i in range(many):
            assert await arena.read(2, i * BYTES) == bytes([ROUNDS, i % 256])

    cluster.start(0, writer)
    cluster.start(1, owner)
    cluster.run()
    return cluster


def main() -> None:
    """Print what the NIC of the writing node has looked up, and how much memory that takes."""
    for design, many in (("mini", 16), ("mini", 100), ("vmmc-static", 16), ("vmmc-static", 100)):
        try:
            cluster = play(design, many)
        except SimulationError as refused:
            print(f"{design}, {many} buffers: {refused}")
            continue
        assert cluster.simulation is not None
        machine = cluster.simulation.machine
        node, lookups = machine.ports.nodes[0], total_by_group(machine, 0)[LOOKUP]
        print(
            f"{design}, {many} buffers: {node['buffer_misses']} of {node['buffer_lookups']} "
            f"lookups of handles missed, {round(lookups / 1024)} KB of tables and caches on the NIC"
        )


if __name__ == "__main__":
    main()
