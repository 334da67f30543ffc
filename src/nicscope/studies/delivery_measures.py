"""Latency and bandwidth of payload delivery, measured as the Trapeze paper measured them.

Latency is one message between idle hosts, from the send call until the receiver has read it.
Bandwidth is payload over time in the later half of a long stream.  MB are 10^6 bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import POLICIES
from nicscope.config.platform import delivery_costs, load_platform
from nicscope.config.toml_files import open_shelf
from nicscope.drivers.simulate.observe import Engine
from nicscope.errors import StudyError

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
# What Table 1 measures.
SIZES = {"4k": 4096, "8k": 8192}
POLICY_OF = {"store": "store-and-forward", "cut": "cut-through"}
# Of Figure 4's cold start.
PAYLOAD = 8192  # bytes
SMALL = 368  # bytes of its first hostRcv transfer
MESSAGES = 80  # more than the ring takes, so that the host writes on
RECORDS = 1 << 14
STEADY = 20  # packet: beyond 800 us, which is the tenth


@cache
def platform_costs() -> Mapping[str, Costs]:
    """Delivery costs of the catalog's four platforms."""
    return {name: delivery_costs(load_platform(name)) for name in PLATFORMS}


@cache
def all_together() -> Mapping[str, Costs]:
    """Delivery costs of the four platforms with the constants fitted to all of Table 1."""
    _, _, fitted = open_shelf("calibrations", "trapeze-all", StudyError)
    return {name: {**costs, **fitted[name]} for name, costs in platform_costs().items()}


def pair_costs(costs: Mapping[str, Costs], pair: str) -> tuple[Costs, Costs]:
    """Delivery costs of the sender and the receiver of one of ``PAIRS``."""
    sender, receiver = PAIRS[pair]
    return costs[sender], costs[receiver]


def policy(name: str, payload: int, *, logging: bool = False) -> Delivery:
    """A published policy on NICs whose buffers hold ``payload`` bytes."""
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


class ColdStart(msgspec.Struct, frozen=True):
    """A stream's log of transfers, and the duration of one small transfer to the host."""

    log: NDArray[Any]  # LOG
    small_us: float

    def of(self, engine: Engine, packet: int | None = None) -> NDArray[Any]:
        """Payload transfers of ``engine``, of one packet or of all, in order of their start."""
        log = self.log
        chosen = (log["engine"] == engine) & (log["control"] == 0)
        if packet is not None:
            chosen &= log["packet"] == packet
        found: NDArray[Any] = log[chosen]
        return found[found["start"].argsort(kind="stable")]

    def duration_us(self, packet: int) -> float:
        """How long the hostTx transfer of ``packet`` took."""
        (transfer,) = self.of(Engine.HOST_TX, packet)
        return float(transfer["end"] - transfer["start"]) / PS_PER_US

    def events(self) -> dict[str, float]:
        """The durations (us) that Figure 4 prints, by the names of the calibration."""
        return {
            "host_tx_first": self.duration_us(0),
            "host_tx_second": self.duration_us(1),
            "host_rcv_368": self.small_us,
        }


def cold_start(ends: Sequence[Costs], *, logging: bool = False) -> ColdStart:
    """A stream of 8 KB, as fast as the ring takes them, between hosts that were idle before."""
    delivery = policy("adaptive", PAYLOAD, logging=logging)
    found = stream(ends, delivery, PAYLOAD, MESSAGES, keep_log=RECORDS)
    alone = stream(ends, policy("store-and-forward", SMALL), SMALL, 1, keep_log=RECORDS).log
    (small,) = alone[alone["engine"] == Engine.HOST_RCV]
    return ColdStart(found.log, float(small["end"] - small["start"]) / PS_PER_US)


def lost_to_gaps(ends: Sequence[Costs]) -> float:
    """Share of time between hostTx transfers in a steady stream of 8 KB, with the log."""
    transfers = cold_start(ends, logging=True).of(Engine.HOST_TX)
    steady = transfers[transfers["packet"] >= STEADY]
    busy = int((steady["end"] - steady["start"])[:-1].sum())
    return 1 - busy / int(steady["start"][-1] - steady["start"][0])
