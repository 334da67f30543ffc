"""Trapeze Figure 7: a CPU that copies memory while the NIC reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.delivery import POLICIES
from nicscope.drivers.simulate.log import Engine
from nicscope.studies.delivery_measures import PLATFORMS
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.interfaces.trapeze import Endpoint
    from nicscope.studies.reproduce.verdict import Item

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


def run(item: Item) -> Outcome:  # noqa: ARG001 - the slow-down is a point, the rest statements
    """Measure the four platforms."""
    found = {name: share_memory(name) for name in PLATFORMS}
    natoma, cia = found["p6-natoma"], found["alcor"]
    outcome = Outcome()
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
    return outcome
