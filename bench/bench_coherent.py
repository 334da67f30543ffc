"""Messages simulated per second, by way into the NIC, on one core: python bench/bench_coherent.py.

Each message is written word by word, moved to the NIC and to the other node's, read word by word
and compared, over buses by themselves: Python asks for every step.  The rate is by processor time
of the process, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import compiled  # noqa: F401 - rates are those of compiled code

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from bus_by_hand import Bus
from nicscope.nic.coherent import NAMES, Mechanism

ROUNDS = 5
OUT, INTO, PLACE = 1 << 16, 1 << 17, 0  # of the buffers, and of a message without one on a NIC
LONGEST = 1 << 16


def send(bus: Bus, way: int, sender: int, raw: bytes) -> None:
    """A message from ``sender`` to the other node, over a network that takes no time."""
    receiver, count = 1 - sender, len(raw)
    if way == Mechanism.DMA:  # the buffer leaves the caches before it is posted
        bus.publish(way, INTO, count, PLACE, receiver)
    bus.store(OUT, raw, sender)
    bus.publish(way, OUT, count, PLACE, sender)
    bus.doorbell(OUT, sender)
    bus.fetch(way, OUT, count, PLACE, sender)
    bus.put_on_nic(PLACE, bus.nic_bytes(bus.fetched_to(sender), count, sender), receiver)
    bus.deliver(way, PLACE, INTO, count, receiver)
    bus.collect(way, PLACE, INTO, count, receiver)
    assert bus.load(INTO, count, receiver)[0] == raw


def rate(way: int, size: int, messages: int) -> tuple[float, float]:
    """Messages per second, and ps per message in the simulation."""
    bus = Bus(nodes=2)
    for node in (0, 1) if way == Mechanism.EDT else ():
        for start in (OUT, INTO):
            bus.register(start, LONGEST, node)
    raws = [bytes(number * place + number & 255 for place in range(size)) for number in range(251)]
    for number in range(200):
        send(bus, way, number & 1, raws[number])
    seconds, simulated = [], 0
    for _ in range(ROUNDS):
        began, at = time.process_time(), bus.now
        for number in range(messages):
            send(bus, way, number & 1, raws[number % 251])
        seconds.append(time.process_time() - began)
        simulated = bus.now - at
    return messages / min(seconds), simulated / messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=256)
    parser.add_argument("--messages", type=int, default=5_000)
    options = parser.parse_args()
    print(f"messages of {options.bytes} bytes")
    print(f"{'way':<22}{'messages/s':>12}{'simulated ns':>14}")
    for name, way in NAMES.items():
        speed, simulated = rate(int(way), options.bytes, options.messages)
        print(f"{name:<22}{speed:>12,.0f}{simulated / 1000:>14,.0f}")


if __name__ == "__main__":
    main()
