"""Two programs answer each other over VIA, through a switch, by every way into the NIC.

python examples/via_switch.py

Each message goes over a link, through a switch and over another link, and is acknowledged that way
too.  The last column loses one packet in twenty: the connection, reliable delivery, sends it again.
Programs count what has come byte for byte, so a column that prints has lost nothing.
"""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.via import Cluster, Reliability

WAYS = ("pci", "pio", "pio-combined", "dma", "cc-dma-retry", "cc-dma-intervention", "cni", "edt")
SIZE = 256
TRIPS = 20
LOSS = 0.05
LEVEL = Reliability.VIP_SERVICE_RELIABLE_DELIVERY


def player(first: bool) -> Any:
    """One of the two programs; the ``first`` begins.  The us of a way there and back."""

    async def program(host: Any) -> float:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, LEVEL)
        sends, receives = await nic.descriptors(tag), await nic.descriptors(tag, 4)
        out, into = [await nic.register_mem(nic.allocate(SIZE), tag) for _ in range(2)]
        for _ in range(2):
            await nic.post_recv(vi, receives.request(into.segment()))
        if first:
            await nic.connect_request(vi, 1, "answers")
        else:
            await nic.connect_accept(await nic.connect_wait("answers"), vi)
        begun = nic.now_us
        for turn in range(2 * TRIPS):
            raw = turn.to_bytes(2, "little") * (SIZE // 2)
            if first == (turn % 2 == 0):
                await nic.write(out.address, raw)
                await nic.post_send(vi, sends.request(out.segment()))
                assert (await nic.send_wait(vi)).ok
            else:
                assert (await nic.recv_wait(vi)).ok
                assert await nic.read(into.address, SIZE) == raw
                await nic.post_recv(vi, receives.request(into.segment()))
        return (nic.now_us - begun) / TRIPS

    return program


def there_and_back(way: str, loss: float = 0.0) -> tuple[float, int]:
    """The us of a message and its answer, and how many packets went again."""
    cluster = Cluster(mechanism=way, loss=loss, seed=1, settings={"retries": 20})
    cluster.start(0, player(first=True))
    cluster.start(1, player(first=False))
    times = cluster.run()
    return float(times[0]), cluster.report().total.sent.again or 0


def main() -> None:
    """Print a row for each way."""
    print(f"{'way':<20}{f'{SIZE} B':>10}{'5 % lost':>12}{'sent again':>12}")
    for way in WAYS:
        time, _ = there_and_back(way)
        slower, again = there_and_back(way, LOSS)
        print(f"{way:<20}{time:>10.2f}{slower:>12.2f}{again:>12}")


if __name__ == "__main__":
    main()
