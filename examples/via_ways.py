"""Two programs answer each other over VIA, by every way into the NIC.

python examples/via_ways.py

The first message of a pair finds caches as its programs left them; what is printed is the mean of
those after it, there and back.  The last column loses one frame in twenty: a connection of the
level that is asked for sends them again until they have arrived.
"""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.vipl import Cluster, Reliability

WAYS = ("pio", "pio-combined", "dma", "cc-dma-retry", "cc-dma-intervention", "cni", "edt")
SIZES = (16, 256, 1024)
TRIPS = 10
LEVEL = Reliability.VIP_SERVICE_RELIABLE_DELIVERY


def player(size: int, first: bool) -> Any:
    """One of the two programs; the ``first`` begins, and returns the us of a way there and back."""

    async def program(host: Any) -> float:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, LEVEL)
        sends, receives = await nic.descriptors(tag), await nic.descriptors(tag, 2)
        out, into = [await nic.register_mem(nic.allocate(size), tag) for _ in range(2)]
        await nic.post_recv(vi, receives.request(into.segment()))
        if first:
            await nic.connect_request(vi, 1, "answers")
        else:
            await nic.connect_accept(await nic.connect_wait("answers"), vi)
        begun = 0.0
        for turn in range(2 * (TRIPS + 1)):
            if turn == 2:
                begun = nic.now_us
            if first == (turn % 2 == 0):
                await nic.write(out.address, turn.to_bytes(2, "little") * (size // 2))
                await nic.post_send(vi, sends.request(out.segment()))
                await nic.send_wait(vi)
            else:
                await nic.recv_wait(vi)
                raw = await nic.read(into.address, size)
                assert raw == turn.to_bytes(2, "little") * (size // 2)
                await nic.post_recv(vi, receives.request(into.segment()))
        return (nic.now_us - begun) / TRIPS

    return program


def there_and_back(way: str, size: int, loss: float = 0.0) -> float:
    """The us of a message and its answer."""
    cluster = Cluster("sonic-via", mechanism=way, loss=loss, seed=1)
    cluster.start(0, player(size, first=True))
    cluster.start(1, player(size, first=False))
    return float(cluster.run()[0])


def main() -> None:
    """Print a row for each way."""
    lost = f"{SIZES[-1]} B, 5 % lost"
    print(f"{'way':<20}" + "".join(f"{f'{size} B':>10}" for size in SIZES) + f"{lost:>18}")
    for way in WAYS:
        times = "".join(f"{there_and_back(way, size):>10.2f}" for size in SIZES)
        print(f"{way:<20}{times}{there_and_back(way, SIZES[-1], 0.05):>18.2f}")


if __name__ == "__main__":
    main()
