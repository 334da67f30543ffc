"""Trapeze Figure 3: packet flow of 8 KB payloads so far apart that they never overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.delivery_measures import (
    PS_PER_US,
    pair_costs,
    platform_costs,
    policy,
    stream,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item

PAIR = "p6-natoma"
PACKETS = 6
RECORDS = 1 << 12
BANDS = (Engine.HOST_TX, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV)


def run(item: Item) -> Outcome:
    """Send a few packets and look at their transfers, band by band."""
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
    outcome = Outcome()
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
    return outcome


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
