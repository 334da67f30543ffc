"""Trapeze's Figures 1 and 3 to 5: transfers of each engine, alone and in a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.observe import Engine
from nicscope.studies.delivery_measures import (
    PAYLOAD,
    PLATFORMS,
    PS_PER_US,
    SMALL,
    STEADY,
    bandwidth_mbytes_s,
    cold_start,
    lost_to_gaps,
    pair_costs,
    platform_costs,
    policy,
    stream,
)

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.studies.delivery_measures import ColdStart, Costs
    from nicscope.studies.reproduce.verdict import Item, Outcome

SIZES = tuple(128 << power for power in range(10))  # to 64 KB
DIRECTIONS = {"send": Engine.HOST_TX, "receive": Engine.HOST_RCV}
GOOD = ("p6-natoma", "pentium2-440lx")
ONE_RECORDS = 64


def dma_mbytes_s(costs: Costs, size: int) -> dict[str, float]:
    """Bandwidth of one transfer of ``size`` bytes in each direction, set-up included."""
    log = stream(
        [costs, costs], policy("store-and-forward", size), size, 1, keep_log=ONE_RECORDS
    ).log
    found = {}
    for direction, engine in DIRECTIONS.items():
        (transfer,) = log[log["engine"] == engine]
        found[direction] = size * PS_PER_US / float(transfer["end"] - transfer["start"])
    return found


def figure1(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 1: bandwidth of single DMA transfers by size, both directions.

    One message per size and platform between idle hosts, so that DMA has the bus alone.
    """
    printed = item.printed
    costs = platform_costs()
    curves = {
        (name, direction): [dma_mbytes_s(costs[name], size)[direction] for size in SIZES]
        for name in PLATFORMS
        for direction in DIRECTIONS
    }
    largest = {key: curve[-1] for key, curve in curves.items()}
    outcome.shape(
        "good-pci-over-120",
        all(
            largest[name, direction] > printed["p6_and_pentium2_mbytes_s_over"]
            for name in GOOD
            for direction in DIRECTIONS
        ),
        _listed({key: value for key, value in largest.items() if key[0] in GOOD}),
    )
    peak = max(max(curve) for curve in curves.values())
    outcome.shape(
        "bus-is-the-limit", peak <= printed["pci_peak_mbytes_s"][1], f"at most {peak:.1f} MB/s"
    )
    outcome.shape(
        "rises-with-size",
        all(a < b for curve in curves.values() for a, b in pairwise(curve)),
        "; ".join(
            f"{name} {direction} {curve[0]:.0f} to {curve[-1]:.0f} MB/s"
            for (name, direction), curve in curves.items()
        ),
    )
    alcor = largest["alcor", "receive"] / printed["link_mbytes_s"]
    outcome.shape(
        "alcor-receives-at-half",
        abs(alcor / float(printed["alcor_receive_share_of_link"]) - 1) <= 0.1,
        f"{largest['alcor', 'receive']:.1f} MB/s, {100 * alcor:.0f} % of the link",
    )


def _listed(rates: dict[tuple[str, str], float]) -> str:
    return ", ".join(f"{name} {direction} {rate:.1f}" for (name, direction), rate in rates.items())


PAIR = "p6-natoma"
PACKETS = 6
RECORDS = 1 << 12
BANDS = (Engine.HOST_TX, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV)


def figure3(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 3: packet flow of 8 KB payloads so far apart that they never overlap.

    Send a few packets and look at their transfers, band by band.
    """
    payload, control = item.printed["payload_bytes"], item.printed["control_bytes"]
    ends = pair_costs(platform_costs(), PAIR)
    log = stream(
        ends,
        policy("cut-through", payload),
        payload,
        PACKETS,
        gap_ps=item.printed["gap_us"] * PS_PER_US,
        keep_log=RECORDS,
    ).log
    bands = {
        (band, packet): _sorted(log[(log["engine"] == band) & (log["packet"] == packet)])
        for band in BANDS
        for packet in range(PACKETS)
    }
    payloads = {key: band[band["control"] == 0] for key, band in bands.items()}
    _sources(outcome, payloads, payload)
    _control(outcome, bands, control)
    _sinks(outcome, payloads, payload)
    left = [bands[Engine.NET_TX, n]["end"][-1] for n in range(PACKETS)]
    begun = [bands[Engine.HOST_TX, n]["start"][0] for n in range(PACKETS)]
    apart = [float(b - a) / PS_PER_US for a, b in zip(left[:-1], begun[1:], strict=True)]
    outcome.shape("packets-keep-apart", min(apart) > 0, f"{min(apart):.1f} us between them")
    on_link = payload * ends[0]["link_per_byte"]
    took = min(_durations(payloads[Engine.NET_RCV, n])[0] for n in range(PACKETS))
    outcome.shape(
        "receiver-stalls",
        took > on_link,
        f"{took / PS_PER_US:.1f} us for what takes {on_link / PS_PER_US:.1f} us on the link",
    )


def _sources(outcome: Outcome, payloads: dict[Any, NDArray[Any]], payload: int) -> None:
    sizes = {
        tuple(payloads[band, n]["bytes"].tolist())
        for band in (Engine.HOST_TX, Engine.NET_RCV)
        for n in range(PACKETS)
    }
    outcome.shape("sources-are-whole", sizes == {(payload,)}, f"transfers of {sorted(sizes)} bytes")


def _control(outcome: Outcome, bands: dict[Any, NDArray[Any]], control: int) -> None:
    first = [
        (int(bands[band, n]["bytes"][0]), bands[band, n]["control"].tolist())
        for band in (Engine.NET_TX, Engine.NET_RCV)
        for n in range(PACKETS)
    ]
    on_pci = sum(
        int(bands[band, n]["control"].sum())
        for band in (Engine.HOST_TX, Engine.HOST_RCV)
        for n in range(PACKETS)
    )
    outcome.shape(
        "control-first",
        on_pci == 0
        and all(size == control and kinds[0] == 1 and sum(kinds) == 1 for size, kinds in first),
        f"{control} bytes before each of {PACKETS} payloads, {on_pci} control messages on PCI",
    )


def _sinks(outcome: Outcome, payloads: dict[Any, NDArray[Any]], payload: int) -> None:
    sinks = [
        payloads[band, n]["bytes"]
        for band in (Engine.NET_TX, Engine.HOST_RCV)
        for n in range(PACKETS)
    ]
    outcome.shape(
        "sinks-are-split",
        all(len(sizes) > 1 and sizes.sum() == payload for sizes in sinks),
        f"{sinks[0].tolist()} and {sinks[PACKETS].tolist()} bytes in the first packet",
    )
    halves = [
        (int(sizes[: len(sizes) // 2].sum()), int(sizes[-(len(sizes) // 2) :].sum()))
        for sizes in sinks
    ]
    outcome.shape(
        "transfers-grow",
        all(early < late for early, late in halves),
        f"netTx {halves[0][0]} then {halves[0][1]} bytes, "
        f"hostRcv {halves[PACKETS][0]} then {halves[PACKETS][1]}, the middle one left out",
    )


def _sorted(records: NDArray[Any]) -> NDArray[Any]:
    return records[np.argsort(records["start"], kind="stable")]


def _durations(records: NDArray[Any]) -> list[int]:
    durations: list[int] = (records["end"] - records["start"]).tolist()
    return durations


FIRST_NET_TX = 3  # transfers that the text names


def figure4(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 4: the start of a stream of 8 KB payloads under adaptive delivery.

    The stream with the log compiled in, as it was drawn; T = 0 is the first hostTx.
    """
    found = cold_start(pair_costs(platform_costs(), PAIR), logging=True)
    origin = found.of(Engine.HOST_TX, 0)["start"][0]
    arrives = found.of(Engine.NET_TX, 1)["start"][0]
    to_host = found.of(Engine.HOST_RCV, 1)
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
    _net_tx(outcome, found)
    sizes = to_host["bytes"].tolist()
    outcome.point("host_rcv_first", "bytes", sizes[0])
    outcome.shape(
        "host-rcv-grows",
        all(a < b for a, b in pairwise(sizes[:-1])),
        f"{sizes} bytes; printed {item.printed['host_rcv_bytes']} and more",
    )
    third = found.of(Engine.HOST_RCV, 2)["bytes"].tolist()
    outcome.shape("growth-carries-over", third[0] > sizes[0], f"{sizes[0]}, then {third[0]} bytes")


def _net_tx(outcome: Outcome, found: ColdStart) -> None:
    transfers = found.of(Engine.NET_TX, 1)[:FIRST_NET_TX]
    sizes = transfers["bytes"].tolist()
    rates = (transfers["bytes"] * PS_PER_US / (transfers["end"] - transfers["start"])).tolist()
    for place, (size, rate) in enumerate(zip(sizes, rates, strict=True), start=1):
        outcome.point("net_tx", "bytes", size, transfer=place)
        if place == 1:
            outcome.point("net_tx_rate", "MB/s", rate, transfer=place)
    outcome.point("net_tx_rate_of_largest", "MB/s", rates[-1])
    outcome.shape(
        "net-tx-grows",
        all(a < b for each in (sizes, rates) for a, b in pairwise(each)),
        f"{found.of(Engine.NET_TX, 1)['bytes'].tolist()} bytes; "
        + ", ".join(f"{rate:.1f}" for rate in rates)
        + " MB/s",
    )


def _competing(found: ColdStart, packet: int) -> float:
    """Share of the packet's hostTx during which the sender's CPU writes to the ring."""
    (transfer,) = found.of(Engine.HOST_TX, packet)
    writes = found.log[found.log["engine"] == Engine.HOST_WRITE]
    begin = writes["start"].clip(transfer["start"], transfer["end"])
    end = writes["end"].clip(transfer["start"], transfer["end"])
    return float((end - begin).sum() / (transfer["end"] - transfer["start"]))


ENGINES = (Engine.HOST_TX, Engine.NET_TX, Engine.HOST_RCV)  # netRcv moves in lockstep with netTx


def figure5(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 5: bandwidth of each engine over time, with and without the log.

    The cold start's stream to its end, with the log and without.
    """
    ends = pair_costs(platform_costs(), PAIR)
    logged, plain = cold_start(ends, logging=True), cold_start(ends)
    without = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD)
    outcome.point("without_logging", "MB/s", without)
    outcome.point("lost_to_gaps", "%", 100 * lost_to_gaps(ends))
    _rates(outcome, item, logged)
    with_log = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD, logging=True)
    outcome.shape("logging-costs", with_log < without, f"{with_log:.1f} of {without:.1f} MB/s")
    parts = [_steady_sizes(found) for found in (logged, plain)]
    outcome.shape(
        "log-keeps-cut-through",
        max(parts[0]) < PAYLOAD and parts[1] == {PAYLOAD},
        f"{_range(parts[0])} bytes with the log, {_range(parts[1])} without",
    )
    _equal_or_not(outcome, item, ends, without)


def _rates(outcome: Outcome, item: Item, logged: ColdStart) -> None:
    printed = item.printed
    start = printed["steady_state_us"] * PS_PER_US
    origin = int(logged.of(Engine.HOST_TX, 0)["start"][0])
    stop = int(logged.of(Engine.HOST_TX)["end"][-1])
    rates = {engine.name: _between(logged, engine, origin + start, stop) for engine in ENGINES}
    outcome.shape(
        "steady-at-800",
        min(rates.values()) > printed["steady_state_mbytes_s_over"],
        ", ".join(f"{name} {rate:.1f} MB/s" for name, rate in rates.items()),
    )
    passes = [
        _first_over(logged, engine, printed["steady_state_mbytes_s_over"]) - origin
        for engine in ENGINES
    ]
    outcome.shape(
        "sender-first",
        passes[0] < passes[1] < passes[2],
        ", ".join(
            f"{engine.name} at {when / PS_PER_US:.0f} us"
            for engine, when in zip(ENGINES, passes, strict=True)
        ),
    )


def _equal_or_not(outcome: Outcome, item: Item, ends: tuple[Costs, Costs], without: float) -> None:
    store = bandwidth_mbytes_s(ends, "store-and-forward", PAYLOAD)
    printed = item.printed["without_logging_mbytes_s"]
    table = item.printed["store_and_forward_mbytes_s"]
    outcome.shape(
        "adaptive-is-108-or-111",
        printed < table and abs(without / store - 1) < (1 - printed / table),
        f"printed {printed} and {table} MB/s; ours {without:.1f} and {store:.1f}",
    )


def _between(found: ColdStart, engine: Engine, start: int, stop: int) -> float:
    """Bytes over time (MB/s), idle time included; a transfer counts by the share inside."""
    records = found.of(engine)
    inside = np.clip(records["end"], start, stop) - np.clip(records["start"], start, stop)
    share = inside / (records["end"] - records["start"])
    return float((records["bytes"] * share).sum() * PS_PER_US / (stop - start))


def _first_over(found: ColdStart, engine: Engine, mbytes_s: float) -> int:
    """When (ps) a payload after the first has passed ``engine`` faster than that, idle included."""
    last = int(found.of(engine, 0)["end"][-1])
    packet = 1
    while True:
        end = int(found.of(engine, packet)["end"][-1])
        if PAYLOAD * PS_PER_US / (end - last) > mbytes_s:
            return end
        last, packet = end, packet + 1


def _steady_sizes(found: ColdStart) -> set[int]:
    """Bytes of hostRcv transfers once the stream is steady."""
    transfers = found.of(Engine.HOST_RCV)
    return set(transfers[transfers["packet"] >= STEADY]["bytes"].tolist())


def _range(sizes: set[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low} to {high}"
