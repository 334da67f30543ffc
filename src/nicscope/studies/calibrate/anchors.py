"""Published numbers and how the simulator measures each: what is fitted, what is predicted."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

import msgspec

from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.calibrate.cold_start import cold_start
from nicscope.studies.delivery_measures import PAIRS, bandwidth_mbytes_s, latency_us, pair_costs
from nicscope.studies.reproduce.expectation import load_paper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.studies.delivery_measures import Costs

SIZES = {"4k": 4096, "8k": 8192}
HALVES = ("4k", "all")
POLICY_OF = {"store": "store-and-forward", "cut": "cut-through"}
EVENT_HOST = "p6-natoma"  # whose cold start Figure 4 shows
LONGEST_PAYLOAD = 65536  # bytes, of the headline
EVENT_SLACK_US = 0.25  # an event is one transfer, printed to 1 us: to be met within the print
_Ends = tuple[tuple[tuple[str, int], ...], ...]  # sorted costs of sender and receiver
_REMEMBERED = 1 << 14  # measurements; a derivative repeats most of them


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """One published number; ``slack`` is the error that counts as 1."""

    name: str
    unit: str
    pair: str
    published: float
    slack: float
    half: str  # "4k", "8k", "event" or "beyond"
    policy: str = ""
    payload: int = 0
    event: str = ""  # of the cold start

    def measured(self, costs: Mapping[str, Costs]) -> float:
        """The same number from the simulator, with ``costs`` by platform."""
        ends = tuple(tuple(each.items()) for each in pair_costs(costs, self.pair))
        return _measure(ends, self.unit, self.policy, self.payload, self.event)

    def fitted_by(self, half: str) -> bool:
        """Whether the calibration called ``half`` looks at it."""
        return self.half in {"4k": ("4k", "event"), "all": ("4k", "8k", "event")}[half]


@lru_cache(maxsize=_REMEMBERED)
def _measure(ends: _Ends, unit: str, policy: str, payload: int, event: str) -> float:
    if event:
        return _events(ends)[event]
    pair: Sequence[Costs] = [dict(each) for each in ends]
    if unit == "us":
        return latency_us(pair, policy, payload)
    return bandwidth_mbytes_s(pair, policy, payload)


@lru_cache(maxsize=_REMEMBERED)
def _events(ends: _Ends) -> dict[str, float]:
    return cold_start([dict(each) for each in ends]).events()


@cache
def anchors() -> tuple[Anchor, ...]:
    """Table 1, Figure 4's three events and the headline's bandwidth, in that order."""
    paper = load_paper("trapeze").items
    printed = paper["table1"].printed
    found = [
        _anchor(f"{kind}_{size}", unit, pair, value, half=size, policy=POLICY_OF[kind])
        for place, pair in enumerate(PAIRS)
        for size in SIZES
        for kind in POLICY_OF
        for unit, value in (
            ("us", printed[f"{kind}_{size}_us"][place]),
            ("MB/s", printed[f"{kind}_{size}_mbytes_s"][place]),
        )
    ]
    events = paper["figure4"].printed
    for event, value in (
        ("host_tx_first", events["host_tx_first_us"]),
        ("host_tx_second", events["host_tx_second_us"]),
        ("host_rcv_368", events["host_rcv_first_us"]),
    ):
        found.append(_anchor(event, "us", EVENT_HOST, value, half="event", event=event))
    best = paper["headline"].printed["bandwidth_mbytes_s_pentium2"]
    found.append(
        _anchor("adaptive_64k", "MB/s", "pentium2-440lx", best, half="beyond", policy="adaptive")
    )
    return tuple(found)


def _anchor(
    name: str,
    unit: str,
    pair: str,
    value: int,
    *,
    half: str,
    policy: str = "",
    event: str = "",
) -> Anchor:
    """An anchor; its slack is 1 %, or what the print leaves open if that is more."""
    return Anchor(
        name=name,
        unit=unit,
        pair=pair,
        published=float(value),
        slack=EVENT_SLACK_US if event else max(0.01 * value, 0.5),
        half=half,
        policy=policy,
        payload=SIZES.get(half, LONGEST_PAYLOAD),
        event=event,
    )


def checked_half(half: str) -> str:
    """``half`` if there is one of that name; else ``StudyError``."""
    if half not in HALVES:
        raise StudyError(f"no half {half!r} of the published numbers{did_you_mean(half, HALVES)}")
    return half
