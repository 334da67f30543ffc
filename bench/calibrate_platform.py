"""The constants of delivery that no paper prints, fitted to the Trapeze paper's numbers.

    python bench/calibrate_platform.py               # Table 1's 4 KB half: what the platforms hold
    python bench/calibrate_platform.py --half all    # all of it: what catalog/calibrations holds

Prints each constant, what the catalog holds of it and its bounds; then each published number beside
the simulator's, fitted or predicted.  A constant may stand for several costs, on several platforms:
the fewer, the more is predicted.  Everything else (published, derived, assumed) is taken from the
catalog as it is.  The NIC is the same on all four platforms, so they are fitted together.  Takes
some ten minutes of one processor, and needs scipy.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.studies.reproduce.experiments.trapeze import (
    PAIRS,
    PLATFORMS,
    POLICY_OF,
    SIZES,
    SMALL,
    all_together,
    bandwidth_mbytes_s,
    cold_start,
    latency_us,
    lost_to_gaps,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.verdict import load_paper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.experiments.trapeze import Costs

STARTS = 32
SEED = 1
INSIDE = 1e-3  # of its range, as a share: no search begins nearer to a bound
WIDTH = 5e-3  # of a derivative, as a share of the range: wide enough to see past the steps
ROUNDS = 40  # of a start, at most
POLISHED = 6  # of the starts, the best
STRIDES = (64, 16, 4, 1)  # steps of the catalog's grid
BETTER = 1e-9  # less of a gain is none
LOG_PAIR = "p6-natoma"  # on which logging was measured
LONGEST_LOG_PS = 4_000_000
LOG_STEP_PS = 50_000

HALVES = ("4k", "all")
EVENT_HOST = "p6-natoma"  # whose cold start Figure 4 shows
LONGEST_PAYLOAD = 65536  # bytes, of the headline
EVENT_SLACK_US = 0.25  # an event is one transfer, printed to 1 us: to be met within the print
_Ends = tuple[tuple[tuple[str, int], ...], ...]  # sorted costs of sender and receiver
_REMEMBERED = 1 << 14  # measurements; a derivative repeats most of them


class Anchor(NamedTuple):
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


def fit_firmware_log(ends: Sequence[Costs], share: float) -> int:
    """Cost (ps) of logging a transfer whose ``lost_to_gaps`` comes nearest to ``share``.

    All are tried: more logging loses more, but in leaps and now and then a little less.
    """

    def missed(cost: int) -> float:
        return abs(lost_to_gaps([{**end, "firmware_log": cost} for end in ends]) - share)

    return min(range(0, LONGEST_LOG_PS, LOG_STEP_PS), key=missed)


# Bounds of rates (ps per byte), from the paper's section 2.
BUS = 7576  # 132 MB/s, the peak of its fastest bus
PEAK_120 = 8333  # 120 MB/s, the peak of its slowest
OVER_120 = 8270  # start included, 64 KB pass 120 MB/s, as Figure 1 shows
REGISTERS = 120_000  # four clocks of 33 MHz: a transfer is started by storing to registers
STEP_PS = 10_000  # times in the catalog are rounded to this
STEP_PS_PER_BYTE = 5

SMALL_PS = 7_000_000  # a hostRcv of SMALL bytes on P6/Natoma (Trapeze, 3.4)
# The netTx transfer there that is slowed for all of its time: hostTx fills NIC memory meanwhile.
SLOWED = 2844  # bytes
SLOWED_PS = 23_504_000  # at 121 MB/s
ALPHAS = ("alcor", "miata")
P6 = ("p6-natoma",)
P2 = ("pentium2-440lx",)


class Constant(NamedTuple):
    """One free number: the costs that it is, where, and between which bounds (ps)."""

    name: str
    costs: tuple[str, ...]
    platforms: tuple[str, ...]
    low: int
    high: int

    @property
    def step(self) -> int:
        """What the catalog rounds it to (ps)."""
        return STEP_PS_PER_BYTE if self.costs[0].endswith("per_byte") else STEP_PS


CONSTANTS = (
    Constant("firmware_start", ("firmware_start",), PLATFORMS, 200_000, 4_000_000),
    Constant("firmware_finish", ("firmware_finish",), PLATFORMS, 200_000, 8_000_000),
    Constant("link_start", ("link_start",), PLATFORMS, REGISTERS, 6_000_000),
    Constant("pci_read_start", ("pci_read_start",), PLATFORMS, 500_000, 6_000_000),
    Constant("p6 read", ("pci_read_per_byte",), P6, BUS, OVER_120),
    Constant("p6 write", ("pci_write_per_byte",), P6, BUS, OVER_120),
    Constant("p6 contended read", ("pci_read_contended_per_byte",), P6, 20_000, 35_000),
    Constant("p6 pio_read", ("pio_read",), P6, 500_000, 15_000_000),
    Constant("pentium2 read", ("pci_read_per_byte",), P2, BUS, OVER_120),
    Constant("pentium2 write", ("pci_write_per_byte",), P2, BUS, OVER_120),
    Constant("pentium2 pio_read", ("pio_read",), P2, 500_000, 15_000_000),
    Constant("alcor read", ("pci_read_per_byte",), ("alcor",), BUS, PEAK_120),
    Constant("alcor write", ("pci_write_per_byte",), ("alcor",), 10_000, 20_000),
    Constant("miata write", ("pci_write_per_byte",), ("miata",), BUS, PEAK_120),
    Constant("alpha pio_read", ("pio_read",), ALPHAS, 500_000, 20_000_000),
)


def build_costs(values: Sequence[float], fixed: Mapping[str, Costs]) -> dict[str, Costs]:
    """Costs of each platform with ``values`` in place of ``CONSTANTS``, in whole picoseconds."""
    built = {name: dict(each) for name, each in fixed.items()}
    for constant, value in zip(CONSTANTS, values, strict=True):
        for platform in constant.platforms:
            for cost in constant.costs:
                built[platform][cost] = round(value)
    _follow(built)
    return dict(built)


def _follow(built: dict[str, dict[str, int]]) -> None:
    """Set what hangs on the constants; the catalog's sources say why."""
    natoma = built["p6-natoma"]["pci_read_contended_per_byte"]
    memory = _memory_per_byte(built["p6-natoma"])
    small = SMALL * built["p6-natoma"]["pci_write_per_byte"]
    for name, costs in built.items():
        costs["pci_write_start"] = _to_step(SMALL_PS - small, STEP_PS)
        costs["nic_memory_per_byte"] = memory
        costs["pci_write_contended_per_byte"] = natoma  # PIO holds the bus on every bridge
        if name == "alcor":  # CIA starves the CPU
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"]
        elif name != "p6-natoma":  # 440LX and Pyxis nearly serve both
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"] * 11 // 10
    built["p6-natoma"]["block_copy_contended_per_byte"] = natoma  # Natoma shares evenly
    built["miata"]["pci_read_per_byte"] = built["alcor"]["pci_read_per_byte"]
    built["miata"]["pci_read_contended_per_byte"] = built["miata"]["pci_read_per_byte"] * 11 // 10


def _memory_per_byte(costs: Costs) -> int:
    """What a byte takes of NIC memory, if the PCI comes first and netTx has the rest of it."""
    bus = costs["pci_read_per_byte"]
    left = (SLOWED_PS - costs["link_start"]) / SLOWED
    return _to_step(bus * left / (bus + left), STEP_PS_PER_BYTE)


def rounded(values: Sequence[float]) -> list[int]:
    """``values`` as the catalog would hold them."""
    return [_to_step(value, each.step) for each, value in zip(CONSTANTS, values, strict=True)]


def _to_step(value: float, step: int) -> int:
    return round(value / step) * step


def misfit(values: Sequence[float], half: str) -> float:
    """Sum of squared errors, in units of each anchor's slack, of the anchors that ``half`` fits."""
    costs = build_costs(values, platform_costs())
    chosen = [anchor for anchor in anchors() if anchor.fitted_by(half)]
    return sum(((each.measured(costs) - each.published) / each.slack) ** 2 for each in chosen)


def fit(
    half: str = "4k",
    *,
    seed: int = SEED,
    starts: int = STARTS,
) -> list[int]:
    """Values (ps) of ``CONSTANTS``, on the catalog's grid, that meet those of ``half`` best."""
    from scipy.optimize import least_squares

    chosen = [anchor for anchor in anchors() if anchor.fitted_by(half)]
    fixed = platform_costs()
    low = np.array([each.low for each in CONSTANTS], dtype=float)
    high = np.array([each.high for each in CONSTANTS], dtype=float)

    def errors(share: NDArray[Any]) -> list[float]:
        costs = build_costs(list(low + share * (high - low)), fixed)
        return [(each.measured(costs) - each.published) / each.slack for each in chosen]

    random = np.random.default_rng(seed)
    searches = starts + min(POLISHED, starts)
    found: list[tuple[float, list[float]]] = []
    for _ in range(starts):
        begin = INSIDE + (1 - 2 * INSIDE) * random.random(len(CONSTANTS))
        end = least_squares(errors, begin, bounds=(0, 1), diff_step=WIDTH, max_nfev=ROUNDS)
        found.append((float(end.cost), list(low + end.x * (high - low))))
        tell(len(found), searches)
    best: list[list[int]] = []
    for _, values in sorted(found)[:POLISHED]:
        best.append(polish(rounded(values), half))
        tell(starts + len(best), searches)
    return min(best, key=lambda values: misfit(values, half))


def polish(values: Sequence[int], half: str) -> list[int]:
    """``values`` after every single move on the grid that lowers the misfit, until none does."""
    here = list(values)
    while True:
        before = here
        for stride in STRIDES:
            here = _walk(here, stride, half)
        if here == before:
            return here


def _walk(values: list[int], stride: int, half: str) -> list[int]:
    """``values`` after moves of ``stride`` steps of one constant each, until none is better."""
    here, best = values, misfit(values, half)
    moved = True
    while moved:
        moved = False
        for place, constant in enumerate(CONSTANTS):
            for way in (stride, -stride):
                there = list(here)
                there[place] += way * constant.step
                if not constant.low <= there[place] <= constant.high:
                    continue
                value = misfit(there, half)
                if value < best - BETTER:
                    here, best, moved = there, value, True
    return here


class Residual(NamedTuple):
    """A published number beside the simulator's; ``error`` is a share of the published one."""

    name: str
    unit: str
    pair: str
    published: float
    measured: float
    error: float
    fitted: bool  # else predicted


def residuals(costs: Mapping[str, Costs], half: str) -> list[Residual]:
    """Every anchor beside what ``costs`` yield."""
    found = []
    for anchor in anchors():
        measured = anchor.measured(costs)
        found.append(
            Residual(
                name=anchor.name,
                unit=anchor.unit,
                pair=anchor.pair,
                published=anchor.published,
                measured=measured,
                error=measured / anchor.published - 1,
                fitted=anchor.fitted_by(half),
            )
        )
    return found


def committed(costs: Mapping[str, Costs]) -> list[int]:
    """The values of ``CONSTANTS`` (ps) among ``costs`` by platform."""
    return [costs[each.platforms[0]][each.costs[0]] for each in CONSTANTS]


def tell(done: int, of: int) -> None:
    print(f"{done} of {of} searches", file=sys.stderr)


def spelt(constant: Constant, ps: int) -> str:
    per_byte = constant.costs[0].endswith("per_byte")
    return f"{ps / 1000:g} ns/B" if per_byte else f"{ps / 1e6:g} us"


def show(half: str, seed: int) -> None:
    """Fits the constants and prints what the module says."""
    found = fit(half, seed=seed)
    held = committed(platform_costs() if half == "4k" else all_together())
    print(f"{'constant':28}{'fitted':>12}{'held':>12}{'from':>12}{'to':>12}")
    for constant, value, was in zip(CONSTANTS, found, held, strict=True):
        told = [spelt(constant, ps) for ps in (value, was, constant.low, constant.high)]
        print(f"{constant.name:28}" + "".join(f"{each:>12}" for each in told))
    costs = build_costs(found, platform_costs())
    ends = pair_costs(costs, LOG_PAIR)
    share = load_paper("trapeze").items["figure5"].printed["lost_to_gaps_percent"] / 100
    logging = fit_firmware_log(ends, share)
    gaps = lost_to_gaps([{**end, "firmware_log": logging} for end in ends])
    print(
        f"firmware_log {logging / 1e6:g} us: {100 * gaps:.1f} % of time lost to gaps, "
        f"printed {100 * share:g}\n"
    )
    compared = residuals(costs, half)
    for each in compared:
        print(
            f"{each.name + ' ' + each.unit:22}{each.pair:16}{each.published:8g}{each.measured:8.1f}"
            f"{100 * each.error:+7.1f} %  {'fitted' if each.fitted else 'predicted'}"
        )
    for fitted, verb in ((True, "fitted"), (False, "predicted")):
        errors = [abs(each.error) for each in compared if each.fitted == fitted]
        print(
            f"{len(errors)} numbers {verb}: mean error {100 * sum(errors) / len(errors):.2f} %, "
            f"worst {100 * max(errors):.2f} %"
        )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--half", choices=HALVES, default="4k")
    asked.add_argument("--seed", type=int, default=SEED, help="of where the searches begin")
    options = asked.parse_args()
    show(options.half, options.seed)
