"""Latency and bandwidth of payload delivery, measured as the Trapeze paper measured them.

Latency is one message between idle hosts, from the send call until the receiver has read it.
Bandwidth is payload over time in the later half of a long stream.  MB are 10^6 bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import POLICIES, delivery_costs
from nicscope.config.platform import load_platform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Delivery
    from nicscope.drivers.simulate.script import Outcome

    Costs = Mapping[str, int]  # ps by the names of DELIVERY_COSTS

PS_PER_US = 10**6
STREAM = 160  # messages: more than two rings of 64, so that the later half is steady

# The paper's pairs of hosts: (sender, receiver).  Alphas change roles to avoid slow directions.
PAIRS = {
    "p6-natoma": ("p6-natoma", "p6-natoma"),
    "pentium2-440lx": ("pentium2-440lx", "pentium2-440lx"),
    "alcor": ("alcor", "alcor"),
    "alcor-to-miata": ("alcor", "miata"),
}
PLATFORMS = ("p6-natoma", "pentium2-440lx", "alcor", "miata")


@cache
def platform_costs() -> Mapping[str, Costs]:
    """Costs of delivery on the catalog's four platforms."""
    return {name: delivery_costs(load_platform(name)) for name in PLATFORMS}


def pair_costs(costs: Mapping[str, Costs], pair: str) -> tuple[Costs, Costs]:
    """Costs of the sender and of the receiver of one of ``PAIRS``."""
    sender, receiver = PAIRS[pair]
    return costs[sender], costs[receiver]


def policy(name: str, payload: int, *, logging: bool = False) -> Delivery:
    """One of the published policies, on NICs whose buffers hold ``payload`` bytes."""
    chosen = POLICIES[name]
    largest = max(chosen.max_payload, payload)
    return msgspec.structs.replace(chosen, max_payload=largest, logging=logging)


def stream(
    ends: Sequence[Costs],
    delivery: Delivery,
    payload: int,
    count: int,
    *,
    gap_ps: int = 0,
    keep_log: int = 0,
) -> Outcome:
    """``count`` messages from one host to another across one switch."""
    from nicscope.drivers.simulate.script import Run, simulate_script
    from nicscope.fabric.topology import crossbar

    run = Run(sender=0, destination=1, payload=payload, count=count, gap_ps=gap_ps)
    return simulate_script(list(ends), delivery, crossbar(2), [run], keep_log=keep_log)


def latency_us(ends: Sequence[Costs], name: str, payload: int) -> float:
    """One-way latency of a single message under the policy ``name``."""
    message = stream(ends, policy(name, payload), payload, 1).messages[0]
    return float(message["read"] - message["posted"]) / PS_PER_US


def bandwidth_mbytes_s(
    ends: Sequence[Costs], name: str, payload: int, *, logging: bool = False
) -> float:
    """Bandwidth of a steady stream under the policy ``name``."""
    read = stream(ends, policy(name, payload, logging=logging), payload, STREAM).messages["read"]
    return steady_mbytes_s(read, payload)


def steady_mbytes_s(read: NDArray[Any], payload: int) -> float:
    """Payload over time between the message in the middle and the last; ``read`` are ps."""
    half = len(read) // 2
    between = int(read[-1] - read[half - 1])
    return payload * (len(read) - half) * PS_PER_US / between
