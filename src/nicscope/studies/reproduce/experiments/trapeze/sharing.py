"""Trapeze's Figure 7 and section 3.5: a CPU beside DMA, and two senders over one trunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.fabric import topology
from nicscope.studies.delivery_measures import PLATFORMS, PS_PER_US, platform_costs, steady_mbytes_s

if TYPE_CHECKING:
    from nicscope.drivers.simulate.script import Outcome as Traffic
    from nicscope.interfaces.trapeze import Endpoint
    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item, Outcome

PAYLOAD = 65536  # bytes of one hostTx, long enough that its start is nothing
LONG_COPY = 1 << 20  # bytes: goes on after the DMA's end
SHORT_COPY = 1024  # bytes: ends before the DMA does
RECORDS = 1 << 10
SETTLING_US = 10.0  # until the hostTx moves bytes
SLOWED = 0.15


class Shared(msgspec.Struct, frozen=True):
    """MB/s of each side, alone and against the other."""

    dma: float
    dma_shared: float
    copy: float
    copy_shared: float

    @property
    def dma_kept(self) -> float:
        """Share of its bandwidth that DMA keeps."""
        return self.dma_shared / self.dma

    @property
    def copy_kept(self) -> float:
        """Share of its bandwidth that the copy keeps."""
        return self.copy_shared / self.copy


def share_memory(platform: str) -> Shared:
    """One hostTx of 64 KB alone, one under a long copy, and copies alone and within it."""
    dma, _ = _measure(platform, None)
    dma_shared, _ = _measure(platform, LONG_COPY)
    _, copy_shared = _measure(platform, SHORT_COPY)
    _, copy = _measure(platform, SHORT_COPY, send=False)
    return Shared(dma, dma_shared, copy, copy_shared)


def _measure(platform: str, copied: int | None, *, send: bool = True) -> tuple[float, float]:
    """Bandwidth of the hostTx and of the copy, of those that there are."""
    from nicscope.interfaces.trapeze import Cluster

    delivery = msgspec.structs.replace(
        POLICIES["store-and-forward"], max_payload=PAYLOAD, receive_ring=1
    )
    cluster = Cluster(platform, policy=delivery, keep_log=RECORDS)
    copying_us = []

    async def sender(endpoint: Endpoint) -> None:
        if send:
            await endpoint.send(1, endpoint.allocate(PAYLOAD))
        if copied is not None:
            if send:
                await endpoint.sleep(SETTLING_US)
            begun = endpoint.now_us
            await endpoint.copy(copied)
            copying_us.append(endpoint.now_us - begun)

    async def receiver(endpoint: Endpoint) -> None:
        if send:
            await endpoint.receive()

    cluster.start(0, sender)
    cluster.start(1, receiver)
    cluster.run()
    assert cluster.simulation is not None
    machine = cluster.simulation.machine
    log = machine.log[: machine.tally[0]["log"]]
    transfers = log[log["engine"] == Engine.HOST_TX]
    dma = sum(PAYLOAD * 1e6 / float(each["end"] - each["start"]) for each in transfers)
    return dma, sum(copied / took for took in copying_us if copied is not None)


def figure7(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the slow-down is a point, the rest statements
    """Trapeze Figure 7: a CPU that copies memory while the NIC reads it.

    Measure the four platforms.
    """
    found = {name: share_memory(name) for name in PLATFORMS}
    natoma, cia = found["p6-natoma"], found["alcor"]
    slower = 100 * (1 - natoma.dma_kept)
    outcome.point("host_tx_slowdown", "%", slower, platform="p6-natoma")
    outcome.shape(
        "natoma-shares-evenly",
        abs(natoma.copy_shared / natoma.dma_shared - 1) <= 0.1,
        f"copy {natoma.copy_shared:.1f}, DMA {natoma.dma_shared:.1f} MB/s",
    )
    outcome.shape(
        "cia-starves-the-cpu",
        cia.dma_kept > 0.99 and cia.copy_kept < 0.1,
        f"DMA keeps {100 * cia.dma_kept:.0f} %, the copy {100 * cia.copy_kept:.0f} %",
    )
    others = {name: found[name] for name in ("pentium2-440lx", "miata")}
    outcome.shape(
        "others-serve-both",
        all(min(each.dma_kept, each.copy_kept) >= 1 - SLOWED for each in others.values()),
        "; ".join(
            f"{name}: DMA keeps {100 * each.dma_kept:.0f} %, the copy {100 * each.copy_kept:.0f} %"
            for name, each in others.items()
        ),
    )


PLATFORM = "p6-natoma"
TRUNK_PAYLOAD = 8192  # bytes
MESSAGES = 60
GAP_PS = 90 * PS_PER_US  # more than a message takes alone, less than two take in turn
TRUNK_RECORDS = 1 << 16
SHORT_WATCHDOG_PS = 60 * PS_PER_US  # a packet under cut-through holds its path for longer


def traffic(
    costs: Costs, name: str, senders: int, count: int = MESSAGES, gap_ps: int = 0
) -> Traffic:
    """Node 0 to node 2 and, with two senders, node 1 to node 3, across one trunk."""
    runs = [Run(n, n + 2, TRUNK_PAYLOAD, count, gap_ps) for n in range(senders)]
    return simulate_script(
        [costs] * 4, POLICIES[name], topology.trunk(2, 2), runs, keep_log=TRUNK_RECORDS
    )


def trunk(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - nothing of it is printed
    """Trapeze 3.5: what cut-through does to a trunk between two switches.

    One sender and two, under three policies.
    """
    costs = platform_costs()[PLATFORM]
    cut, store = (_held_us(traffic(costs, name, 1, 1), costs) for name in _ALONE)
    fed = (TRUNK_PAYLOAD - POLICIES["cut-through"].minpulse_send) * costs["pci_read_per_byte"]
    outcome.shape(
        "held-at-pci-pace",
        cut >= fed / PS_PER_US and store < cut,
        f"PCI {fed / PS_PER_US:.1f} us, cut-through {cut:.1f}, store-and-forward {store:.1f}",
    )
    rates = {
        name: [_rate(traffic(costs, name, senders)) for senders in (1, 2)]
        for name in ("store-and-forward", "adaptive")
    }
    outcome.shape(
        "throughput-of-two",
        all(one < two for one, two in rates.values()),
        ", ".join(f"{name} {one:.1f} and {two:.1f} MB/s" for name, (one, two) in rates.items()),
    )
    alone, both = (_net_tx_bytes(traffic(costs, "adaptive", n, gap_ps=GAP_PS)) for n in (1, 2))
    outcome.shape(
        "stalled-senders-leave-cut-through",
        both > alone,
        f"{alone:.0f} bytes a transfer alone, {both:.0f} with two",
    )
    hasty = {**costs, "link_watchdog": SHORT_WATCHDOG_PS}
    mixed = simulate_script(
        [hasty, costs, costs, costs],
        POLICIES["adaptive"],
        topology.trunk(2, 2),
        [Run(0, 2, TRUNK_PAYLOAD, MESSAGES, GAP_PS), Run(1, 3, TRUNK_PAYLOAD, MESSAGES, GAP_PS)],
    )
    aborted, arrived = int(mixed.counters["aborted"][0]), _arrived(mixed, 1)
    outcome.shape(
        "watchdog-frees-the-trunk",
        aborted > 0 and arrived == MESSAGES,
        f"{aborted} of {MESSAGES} aborted, {arrived} of {MESSAGES} of the other sender arrive",
    )


_ALONE = ("cut-through", "store-and-forward")


def _held_us(found: Traffic, costs: Costs) -> float:
    """How long the first packet holds its path: from its first link on to its last byte."""
    transfers = _net_tx(found)
    begin = int(transfers["start"].min()) + costs["link_start"]
    return (int(transfers["end"].max()) - begin) / PS_PER_US


def _rate(found: Traffic) -> float:
    return steady_mbytes_s(found.messages["read"], TRUNK_PAYLOAD)


def _net_tx_bytes(found: Traffic) -> float:
    """Mean bytes of a payload's transfers to the link."""
    transfers = _net_tx(found)
    return float(transfers["bytes"][transfers["control"] == 0].mean())


def _net_tx(found: Traffic) -> Any:
    return found.log[found.log["engine"] == Engine.NET_TX]


def _arrived(found: Traffic, sender: int) -> int:
    messages = found.messages
    return int(((messages["sender"] == sender) & (messages["read"] >= 0)).sum())
