"""Trapeze 3.5: what cut-through does to a trunk between two switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.delivery import POLICIES
from nicscope.drivers.simulate.log import Engine
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.fabric.topology import trunk
from nicscope.studies.delivery_measures import PS_PER_US, platform_costs, steady_mbytes_s
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.drivers.simulate.script import Outcome as Traffic
    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item

PLATFORM = "p6-natoma"
PAYLOAD = 8192  # bytes
MESSAGES = 60
GAP_PS = 90 * PS_PER_US  # more than a message takes alone, less than two take in turn
RECORDS = 1 << 16
SHORT_WATCHDOG_PS = 60 * PS_PER_US  # a packet under cut-through holds its path for longer


def traffic(
    costs: Costs, name: str, senders: int, count: int = MESSAGES, gap_ps: int = 0
) -> Traffic:
    """Node 0 to node 2 and, with two senders, node 1 to node 3, across one trunk."""
    runs = [Run(n, n + 2, PAYLOAD, count, gap_ps) for n in range(senders)]
    return simulate_script([costs] * 4, POLICIES[name], trunk(2, 2), runs, keep_log=RECORDS)


def run(item: Item) -> Outcome:  # noqa: ARG001 - nothing of it is printed
    """One sender and two, under three policies."""
    costs = platform_costs()[PLATFORM]
    outcome = Outcome()
    cut, store = (_held_us(traffic(costs, name, 1, 1), costs) for name in _ALONE)
    fed = (PAYLOAD - POLICIES["cut-through"].minpulse_send) * costs["pci_read_per_byte"]
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
        trunk(2, 2),
        [Run(0, 2, PAYLOAD, MESSAGES, GAP_PS), Run(1, 3, PAYLOAD, MESSAGES, GAP_PS)],
    )
    aborted, arrived = int(mixed.counters["aborted"][0]), _arrived(mixed, 1)
    outcome.shape(
        "watchdog-frees-the-trunk",
        aborted > 0 and arrived == MESSAGES,
        f"{aborted} of {MESSAGES} aborted, {arrived} of {MESSAGES} of the other sender arrive",
    )
    return outcome


_ALONE = ("cut-through", "store-and-forward")


def _held_us(found: Traffic, costs: Costs) -> float:
    """How long the first packet holds its path: from its first link on to its last byte."""
    transfers = _net_tx(found)
    begin = int(transfers["start"].min()) + costs["link_start"]
    return (int(transfers["end"].max()) - begin) / PS_PER_US


def _rate(found: Traffic) -> float:
    return steady_mbytes_s(found.messages["read"], PAYLOAD)


def _net_tx_bytes(found: Traffic) -> float:
    """Mean bytes of a payload's transfers to the link."""
    transfers = _net_tx(found)
    return float(transfers["bytes"][transfers["control"] == 0].mean())


def _net_tx(found: Traffic) -> Any:
    return found.log[found.log["engine"] == Engine.NET_TX]


def _arrived(found: Traffic, sender: int) -> int:
    messages = found.messages
    return int(((messages["sender"] == sender) & (messages["read"] >= 0)).sum())
