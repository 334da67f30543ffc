"""Figure 8: latency of three mechanisms from 64 to 4096 bytes, and what EDT gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.journal import Part
from nicscope.studies.reproduce.edt_latencies import (
    EDT,
    INTERVENTION,
    MEASURED,
    MTU,
    RETRY,
    SIZES,
    gain,
    latency,
    listed,
    rising,
    same,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item


def run(item: Item) -> Outcome:
    """Play ping-pong at every size and look at the parts."""
    outcome = Outcome()
    gains = [gain(size) for size in SIZES]
    for size in item.printed["message_bytes"]:
        outcome.point("gain", "%", gains[SIZES.index(size)], bytes=size)
    outcome.shape("gain-grows", rising(gains), f"{listed(gains, 1)} % at {listed(list(SIZES))} B")
    by_size = {size: {name: latency(name, size) for name in MEASURED} for size in SIZES}
    outcome.shape(
        "order",
        all(one[EDT].us < one[INTERVENTION].us < one[RETRY].us for one in by_size.values()),
        "us at 64 B: " + listed([by_size[64][name].us for name in MEASURED], 2)
        + "; at 4096 B: " + listed([by_size[4096][name].us for name in MEASURED], 2),
    )  # fmt: skip
    written = {size: [one[name].user_data() for name in MEASURED] for size, one in by_size.items()}
    outcome.shape(
        "user-data-equal",
        all(same(counts) for counts in written.values())
        and rising([counts[0] for counts in written.values()]),
        f"cycles of EDT: {listed([counts[0] for counts in written.values()])}",
    )
    moved = {size: [one[name].transport() for name in MEASURED] for size, one in by_size.items()}
    outcome.shape(
        "transport-equal",
        all(same(counts) for counts in moved.values()),
        "cycles at 4096 B: " + listed(moved[4096]),
    )
    steps = [latency(EDT, size).transport() for size in (64, MTU, MTU + 1, 2 * MTU, 2 * MTU + 1)]
    outcome.shape(
        "transport-steps-at-the-mtu",
        steps[0] == steps[1] < steps[2] == steps[3] < steps[4],
        f"cycles at 64, 1500, 1501, 3000, 3001 B: {listed(steps)}",
    )
    blocks = [one[EDT].cycles(Part.COHERENCE) for one in by_size.values()]
    whole = [one[EDT].data_transfer() for one in by_size.values()]
    outcome.shape(
        "edt-transfers-by-write-back",
        all(same(list(pair)) for pair in zip(blocks, whole, strict=True)),
        f"cycles of write-back and of all Data Transfer at 4096 B: {blocks[-1]:,.0f}, "
        f"{whole[-1]:,.0f}",
    )
    return outcome
