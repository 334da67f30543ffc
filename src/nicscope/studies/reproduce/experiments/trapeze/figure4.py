"""Trapeze Figure 4: the start of a stream of 8 KB payloads under adaptive delivery."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.calibrate.anchors import SMALL, cold_start
from nicscope.studies.delivery_measures import PS_PER_US, pair_costs, platform_costs
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.calibrate.anchors import ColdStart
    from nicscope.studies.reproduce.verdict import Item

PAIR = "p6-natoma"
FIRST_NET_TX = 3  # transfers that the text names


def run(item: Item) -> Outcome:
    """The stream with the log compiled in, as it was drawn; T = 0 is the first hostTx."""
    found = cold_start(pair_costs(platform_costs(), PAIR), logging=True)
    origin = found.of(Engine.HOST_TX, 0)["start"][0]
    arrives = found.of(Engine.NET_TX, 1)["start"][0]
    to_host = found.of(Engine.HOST_RCV, 1)
    outcome = Outcome()
    outcome.point("host_tx", "us", found.duration_us(0), payload="first")
    outcome.point("host_tx", "us", found.duration_us(1), payload="second")
    outcome.point("host_rcv", "us", found.small_us, bytes=SMALL)
    outcome.point("second_arrival", "us", float(arrives - origin) / PS_PER_US)
    outcome.point("second_host_rcv", "us", float(to_host["start"][0] - origin) / PS_PER_US)
    competing = [_competing(found, packet) for packet in (0, 1)]
    outcome.shape(
        "first-payload-is-slow",
        competing[0] > 0.95 and competing[1] <= 0.1,
        f"{100 * competing[0]:.1f} % of the first, {100 * competing[1]:.1f} % of the second",
    )
    _net_tx(outcome, item, found)
    sizes = to_host["bytes"].tolist()
    outcome.shape(
        "host-rcv-grows",
        sizes[0] < item.printed["host_rcv_bytes"][1]
        and all(a < b for a, b in pairwise(sizes[:-1])),
        f"{sizes} bytes; printed {item.printed['host_rcv_bytes']} and more",
    )
    third = found.of(Engine.HOST_RCV, 2)["bytes"].tolist()
    outcome.shape("growth-carries-over", third[0] > sizes[0], f"{sizes[0]}, then {third[0]} bytes")
    return outcome


def _net_tx(outcome: Outcome, item: Item, found: ColdStart) -> None:
    transfers = found.of(Engine.NET_TX, 1)[:FIRST_NET_TX]
    sizes = transfers["bytes"].tolist()
    printed = item.printed["net_tx_bytes"]
    outcome.shape(
        "net-tx-grows",
        len(sizes) == FIRST_NET_TX
        and all(a < b for a, b in pairwise(sizes))
        and all(p / 2 <= size <= 2 * p for size, p in zip(sizes, printed, strict=True)),
        f"{found.of(Engine.NET_TX, 1)['bytes'].tolist()} bytes",
    )
    rates = (transfers["bytes"] * PS_PER_US / (transfers["end"] - transfers["start"])).tolist()
    low, high = item.printed["net_tx_mbytes_s"]
    outcome.shape(
        "net-tx-bandwidth",
        all(a < b for a, b in pairwise(rates))
        and rates[0] >= 0.9 * low
        and rates[-1] <= 1.1 * high,
        ", ".join(f"{rate:.0f}" for rate in rates) + " MB/s",
    )


def _competing(found: ColdStart, packet: int) -> float:
    """Share of the packet's hostTx during which the sender's CPU writes to the ring."""
    (transfer,) = found.of(Engine.HOST_TX, packet)
    writes = found.log[found.log["engine"] == Engine.HOST_WRITE]
    begin = writes["start"].clip(transfer["start"], transfer["end"])
    end = writes["end"].clip(transfer["start"], transfer["end"])
    return float((end - begin).sum() / (transfer["end"] - transfer["start"]))
