"""A page goes to and fro between two Trapeze endpoints under each delivery policy.

python examples/trapeze_policies.py
"""

from __future__ import annotations

from nicscope.interfaces.trapeze import Cluster, Endpoint

PAGE = 8192
ROUNDS = 10


async def client(endpoint: Endpoint) -> float:
    """Send a page that is different each time, and see that it comes back; us of a round trip."""
    page = endpoint.allocate(PAGE)
    began = endpoint.now_us
    for number in range(ROUNDS):
        await page.write(bytes([number]) * PAGE)
        await endpoint.send(1, page)
        answer = await endpoint.receive()
        assert (answer.payload == number).all()
        endpoint.release(answer)
    return (endpoint.now_us - began) / ROUNDS


async def server(endpoint: Endpoint) -> None:
    """Send back what comes."""
    page = endpoint.allocate(PAGE)
    for _ in range(ROUNDS):
        message = await endpoint.receive()
        await page.write(message.payload)
        endpoint.release(message)
        await endpoint.send(0, page)


def main() -> None:
    """One line per policy."""
    for policy in ("store-and-forward", "cut-through", "cut-through-minpulse", "adaptive"):
        cluster = Cluster("p6-natoma", policy=policy)
        cluster.start(0, client)
        cluster.start(1, server)
        round_trip, _ = cluster.run()
        print(f"{policy:21} {round_trip:7.1f} us there and back with {PAGE} bytes")


if __name__ == "__main__":
    main()
