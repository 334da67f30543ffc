"""Messages of VIA programs written in Python, simulated per second of one core's time.

Two programs answer each other: write, post, wait, read, compare, post the next receive.  The rate
is by processor time of the process, the best of a few rounds, without what every run takes besides.
"""

from __future__ import annotations

import argparse
import time

import compiled  # noqa: F401 - rates are those of compiled code

from nicscope.config.design import Way
from nicscope.interfaces.via import Cluster, Reliability

ROUNDS = 5
FEW = 20  # round trips, for what every run takes besides


def play(mechanism: str, size: int, trips: int, level: Reliability) -> None:
    """So many messages there and back, each compared with what was sent."""
    raw = bytes(number & 255 for number in range(size))

    def player(*, first: bool):
        async def program(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            vi = await nic.create_vi(tag, level)
            receives = await nic.descriptors(tag, 8, segments=1)
            sends = await nic.descriptors(tag, 1, segments=1)
            out, into = [await nic.register_mem(nic.allocate(size), tag) for _ in range(2)]
            for _ in range(4):
                await nic.post_recv(vi, receives.request(into.segment()))
            if first:
                await nic.connect_request(vi, 1, "bench")
            else:
                await nic.connect_accept(await nic.connect_wait("bench"), vi)
            for turn in range(2 * trips):
                if first == (turn % 2 == 0):
                    await nic.write(out.address, raw)
                    await nic.post_send(vi, sends.request(out.segment()))
                    assert (await nic.send_wait(vi)).ok
                else:
                    await nic.recv_wait(vi)
                    assert await nic.read(into.address, size) == raw
                    await nic.post_recv(vi, receives.request(into.segment()))

        return program

    cluster = Cluster(mechanism=mechanism)
    cluster.start(0, player(first=True))
    cluster.start(1, player(first=False))
    cluster.run()


def seconds(mechanism: str, size: int, trips: int, level: Reliability) -> float:
    """Of processor time."""
    began = time.process_time()
    play(mechanism, size, trips, level)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=256)
    parser.add_argument("--trips", type=int, default=10_000)
    parser.add_argument("--mechanism", choices=[way.value for way in Way], nargs="*")
    options = parser.parse_args()
    level = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
    print(f"messages of {options.bytes} bytes between two programs, {level.name}")
    for mechanism in options.mechanism or [way.value for way in Way]:
        play(mechanism, options.bytes, FEW, level)  # what is entered is compiled
        best = [
            min(seconds(mechanism, options.bytes, trips, level) for _ in range(ROUNDS))
            for trips in (FEW, options.trips + FEW)
        ]
        print(f"{mechanism:<22}{2 * options.trips / (best[1] - best[0]):>10,.0f} messages/s")


if __name__ == "__main__":
    main()
