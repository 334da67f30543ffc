"""All hosts add up their vectors, and all get the sum: a ring all-reduce by remote stores (VMMC).

python examples/all_reduce.py

In N - 1 steps each host adds what comes to one part and passes it on, so that each ends with one
part of the sum; in N - 1 more the parts go around.  A host sends 2 (N - 1) / N of its vector,
however many hosts there are.  Each step has an inbox of its own, so nobody overwrites what was not
read yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nicscope.interfaces.vmmc import Cluster

NODES = 4
NUMBERS = 4096  # of each vector; a part is a quarter of it, two pages
PART = NUMBERS // NODES
BYTES = PART * 8
STEPS = 2 * (NODES - 1)


def vector_of(node: int) -> np.ndarray:
    """What that host begins with."""
    return np.arange(NUMBERS, dtype=np.float64) * (node + 1)


def player(rank: int) -> Any:
    """The program of the host of that rank."""

    async def program(endpoint: Any) -> tuple[np.ndarray, float]:
        """The sum, and the us from when all were connected."""
        inbox = endpoint.allocate(STEPS * BYTES)
        outbox = endpoint.allocate(STEPS * BYTES)
        await endpoint.export(inbox, "inbox")
        onward = await endpoint.import_buffer((rank + 1) % NODES, "inbox")
        parts = vector_of(rank).reshape(NODES, PART).copy()
        began = endpoint.now_us
        for step in range(STEPS):
            adds = step < NODES - 1
            away, here = (rank - step) % NODES, (rank - step - 1) % NODES
            place = outbox.part(step * BYTES, BYTES)
            await place.write(parts[away])
            await endpoint.store(onward, place, step * BYTES, notify=True)
            await endpoint.notification("poll")
            came = np.frombuffer(await inbox.read(BYTES, step * BYTES), np.float64)
            parts[here] = parts[here] + came if adds else came
        for _ in range(STEPS):
            assert (await endpoint.wait()).ok
        return parts.ravel(), endpoint.now_us - began

    return program


def all_reduce(design: str) -> tuple[float, int]:
    """The us of the slowest host, and the misses of all NICs; every sum is checked."""
    cluster = Cluster(design, nodes=NODES)
    for rank in range(NODES):
        cluster.start(rank, player(rank))
    found = cluster.run()
    expected = sum(vector_of(rank) for rank in range(NODES))
    assert all(np.array_equal(total, expected) for total, _ in found)
    misses = sum(cluster.counts(node)["ni_misses"] for node in range(NODES))
    return max(took for _, took in found), misses


def main() -> None:
    """Print what it takes over three ways to translate."""
    print(f"{NODES} hosts, {NUMBERS * 8:,} bytes each")
    for design in ("utlb", "vmmc-static", "vmmc-interrupt"):
        took, misses = all_reduce(design)
        print(f"{design:15}{took:9.1f} us  {misses:3} misses on the NICs")


if __name__ == "__main__":
    main()
