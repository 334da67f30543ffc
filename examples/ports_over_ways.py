"""Two processes store to each other's memory, by every way into the NIC that VMMC runs over.

python examples/ports_over_ways.py

One program, one translation (UTLB), one machine: only the design's way differs. Each side writes a
message, stores it into the other's buffer and reads the answer. The first exchange registers and
pins; what is printed is the mean of those after it, there and back, and what arrived at last.
"""

from __future__ import annotations

import zlib
from typing import Any

from nicscope.config.design import Design, Way, load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.interfaces.vmmc import Cluster
from nicscope.interfaces.ways import BY_PROCESSOR, Combination, why_not

PLATFORM = "utlb-edt"
SIZES = (64, 512, 4096)
TRIPS = 8


def message(turn: int, size: int) -> bytes:
    """What is sent in that turn."""
    return bytes((turn * 31 + i * 7) % 251 for i in range(size))


def player(size: int, first: bool) -> Any:
    """One of the two programs; it returns the us of a way there and back, and what came last."""
    own, other = ("left", "right") if first else ("right", "left")

    async def program(endpoint: Any) -> tuple[float, bytes]:
        room, out = endpoint.allocate(size), endpoint.allocate(size)
        await room.write(bytes(size))
        await endpoint.export(room, own, allow=1 if first else 0)
        remote = await endpoint.import_buffer(1 if first else 0, other)
        begun, came = 0.0, b""
        for turn in range(2 * (TRIPS + 1)):
            if turn == 2:
                begun = endpoint.now_us
            if first == (turn % 2 == 0):
                await out.write(message(turn, size))
                sent = await endpoint.store(remote, out, notify=True)
                assert (await endpoint.wait(sent)).ok
            else:
                await endpoint.notification()
                came = await room.read()
                assert came == message(turn, size)
        return (endpoint.now_us - begun) / TRIPS, came

    return program


def design_over(way: str) -> Design:
    """UTLB over ``way``; where processors move the bytes, they move whole messages."""
    whole = ["delivery=store-and-forward"] if way in BY_PROCESSOR else []
    return with_settings(load_design("utlb"), [f"way={way}", *whole])


def there_and_back(way: str, size: int) -> tuple[float, bytes]:
    """The us of a message and its answer over ``way``, and the last one's bytes."""
    cluster = Cluster(design_over(way), PLATFORM)
    cluster.start(0, player(size, first=True))
    cluster.start(1, player(size, first=False))
    took, came = cluster.run()[0]
    return took, came


def main() -> None:
    """Print a row for each way that runs, and the reason for each that does not."""
    print(f"{'way':<20}" + "".join(f"{f'{size} B':>10}" for size in SIZES) + f"{'arrived':>10}")
    for way in Way:
        asked = Combination("VMMC", load_platform(PLATFORM), way, design_over(way))
        why = why_not(asked)
        if why is not None:
            print(f"{way.value:<20}{why}")
            continue
        found = [there_and_back(way, size) for size in SIZES]
        arrived = zlib.crc32(b"".join(came for _, came in found))
        print(f"{way.value:<20}" + "".join(f"{took:>10.2f}" for took, _ in found), f"{arrived:9x}")


if __name__ == "__main__":
    main()
