"""Published numbers and how the simulator measures each: what is fitted, what is predicted.

Two of them need a run of their own: the cold start of a stream, and what is lost to gaps.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.observe import Engine
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.delivery_measures import (
    PAIRS,
    PS_PER_US,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    policy,
    stream,
)
from nicscope.studies.reproduce.verdict import load_paper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.delivery_measures import Costs

PAYLOAD = 8192  # bytes
SMALL = 368  # bytes of Figure 4's first hostRcv transfer
MESSAGES = 80  # more than the ring takes, so that the host writes on
RECORDS = 1 << 14


class ColdStart(msgspec.Struct, frozen=True):
    """Log of a stream's transfers, and the duration of one small transfer to the host."""

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
        """The durations (us) that Figure 4 prints, by the names of ``anchors``."""
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


STEADY = 20  # packet: beyond 800 us, which is the tenth
LONGEST_LOG_PS = 4_000_000
STEP_PS = 50_000


def lost_to_gaps(ends: Sequence[Costs]) -> float:
    """Share of time between hostTx transfers in a steady stream of 8 KB, with the log."""
    transfers = cold_start(ends, logging=True).of(Engine.HOST_TX)
    steady = transfers[transfers["packet"] >= STEADY]
    busy = int((steady["end"] - steady["start"])[:-1].sum())
    return 1 - busy / int(steady["start"][-1] - steady["start"][0])


def fit_firmware_log(ends: Sequence[Costs], share: float) -> int:
    """Cost (ps) of logging a transfer whose ``lost_to_gaps`` comes nearest to ``share``.

    All are tried: more logging loses more, but in leaps and now and then a little less.
    """

    def missed(cost: int) -> float:
        return abs(lost_to_gaps([{**end, "firmware_log": cost} for end in ends]) - share)

    return min(range(0, LONGEST_LOG_PS, STEP_PS), key=missed)


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
