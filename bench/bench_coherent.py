"""Messages simulated per second, by mechanism, on one core: python bench/bench_coherent.py.

Each message is written word by word, moved to the NIC and to the other node's, read word by word
and compared.  The rate is by processor time of the process, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import time

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.exchange import ping_pong
from nicscope.drivers.coherent.machine import new_machine
from nicscope.nic.coherent.mechanism import NAMES, Mechanism

ROUNDS = 5
LAYOUT = (0, 1 << 17, 0)
LONGEST = 1 << 16


def rate(mechanism: Mechanism, size: int, messages: int) -> tuple[float, float]:
    """Messages per second, and ps per message in the simulation."""
    machine = new_machine(2)
    payload = np.zeros(size, np.uint8)
    now = 0
    for n in (0, 1) if mechanism == Mechanism.EDT else ():
        for start in LAYOUT[:2]:
            _, now = Boundary(machine, n, mechanism).register(start, LONGEST, now)
    now, _ = ping_pong(machine, int(mechanism), LAYOUT, payload, size, 200, now)
    seconds, simulated = [], 0
    for _ in range(ROUNDS):
        began = time.process_time()
        end, wrong = ping_pong(machine, int(mechanism), LAYOUT, payload, size, messages, now)
        seconds.append(time.process_time() - began)
        assert wrong == 0
        now, simulated = end, end - now
    return messages / min(seconds), simulated / messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=256)
    parser.add_argument("--messages", type=int, default=20_000)
    options = parser.parse_args()
    print(f"messages of {options.bytes} bytes")
    print(f"{'mechanism':<22}{'messages/s':>12}{'simulated ns':>14}")
    for name, mechanism in NAMES.items():
        speed, simulated = rate(mechanism, options.bytes, options.messages)
        print(f"{name:<22}{speed:>12,.0f}{simulated / 1000:>14,.0f}")


if __name__ == "__main__":
    main()
