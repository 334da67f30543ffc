"""A token goes around a ring of hosts by remote stores, and each adds its number (VMMC over UTLB).

python examples/ring.py

Each host exports an inbox, imports the inbox of the next one, and stores the token straight into
that memory: nobody receives, the NIC tells who waits that something has come.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from nicscope.interfaces.vmmc import Cluster

NODES = 5
ROUNDS = 3
TOKEN = 8  # bytes


def player(place: int) -> Any:
    """The program of the host at that place of the ring."""

    async def program(endpoint: Any) -> tuple[int, list[float]]:
        """The token that came last, and when a round began."""
        inbox, out = endpoint.allocate(TOKEN), endpoint.allocate(TOKEN)
        await endpoint.export(inbox, "inbox")
        onward = await endpoint.import_buffer((place + 1) % NODES, "inbox")
        token, begins = 0, []
        for _ in range(ROUNDS):
            begins.append(endpoint.now_us)
            if place > 0:  # host 0 begins each round, the others wait for it
                token = await arrived(endpoint, inbox)
            await out.write((token + place).to_bytes(TOKEN, "little"))
            ended = await endpoint.wait(await endpoint.store(onward, out, notify=True))
            assert ended.ok, ended.status
            if place == 0:
                token = await arrived(endpoint, inbox)
        return token, [*begins, endpoint.now_us]

    return program


async def arrived(endpoint: Any, inbox: Any) -> int:
    """The token, when it is there."""
    await endpoint.notification("poll")
    return int.from_bytes(await inbox.read(), "little")


def main() -> None:
    """Print how long each round took, and the sum that came back."""
    cluster = Cluster("utlb", nodes=NODES)
    for node in range(NODES):
        cluster.start(node, player(node))
    token, begins = cluster.run()[0]
    assert token == ROUNDS * sum(range(NODES))
    for number, (began, ended) in enumerate(pairwise(begins), 1):
        each = (ended - began) / NODES
        print(f"round {number}: {ended - began:6.1f} us, {each:5.1f} us from host to host")
    print(f"token: {token}")


if __name__ == "__main__":
    main()
