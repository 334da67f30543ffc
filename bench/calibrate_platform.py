"""The constants of delivery that no paper prints, fitted to the Trapeze paper's numbers.

    python bench/calibrate_platform.py             # the 4 KB half and Figure 4: the platforms'
    python bench/calibrate_platform.py --half all  # the 8 KB half too: catalog/calibrations

Prints each constant, what the catalog holds of it and its bounds; then each published number beside
the simulator's, fitted or predicted.  A constant may stand for several costs, on several platforms:
the fewer, the more is predicted.  Everything else (published, derived, assumed) is taken from the
catalog as it is.  The NIC is the same on all four platforms, so they are fitted together.  Takes
13 minutes of one processor for 32 starts.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import DELIVERY_COSTS
from nicscope.drivers.simulate.advance import EventLoop
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.script import Run, give_script
from nicscope.drivers.simulate.store import no_store
from nicscope.fabric import topology
from nicscope.studies.reproduce.experiments.trapeze import (
    MESSAGES,
    PAIRS,
    PAYLOAD,
    PLATFORMS,
    POLICY_OF,
    PS_PER_US,
    SIZES,
    SMALL,
    STREAM,
    ColdStart,
    all_together,
    pair_costs,
    platform_costs,
    policy,
    steady_mbytes_s,
)
from nicscope.studies.reproduce.verdict import load_paper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.studies.reproduce.experiments.trapeze import Costs

STARTS = 32
SEED = 1
WIDE, NARROW = 0.25, 0.08  # steps of a search at first, as shares of the ranges
ROUNDS = 220, 100  # of either search
SOFT = 3.0  # errors beyond this many units count ever less in the first search
POLISHED = 6  # of the starts, the best
STRIDES = (64, 16, 4, 1)  # steps of the catalog's grid
BETTER = 1e-9  # less of a gain is none

HALVES = ("4k", "all")
EVENT_HOST = "p6-natoma"  # whose cold start Figure 4 shows
LONGEST_PAYLOAD = 65536  # bytes, of the headline
EVENT_SLACK_US = 0.25  # an event is one transfer, printed to 1 us: to be met within the print
SIZE_SLACK = EVENT_SLACK_US * PAYLOAD / 66  # bytes that the bus moves in that time
LOST_SLACK = 0.5  # percentage points
LOGGED = 1 << 13  # records of a cold start, and more
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

    def measured(self, costs: Mapping[str, Costs]) -> float:
        """The same number from the simulator, with ``costs`` by platform."""
        ends = tuple(tuple(each.items()) for each in pair_costs(costs, self.pair))
        return _measure(ends, self)

    def fitted_by(self, half: str) -> bool:
        """Whether the calibration called ``half`` looks at it."""
        return self.half in {"4k": ("4k", "event"), "all": ("4k", "8k", "event")}[half]


class Kept:
    """A stream that runs again and again with other costs, on one machine."""

    def __init__(self, name: str, payload: int, count: int, logging: bool, keep_log: int) -> None:
        delivery, pair = policy(name, payload, logging=logging), topology.crossbar(2)
        costs = [platform_costs()[EVENT_HOST]] * 2
        self.machine: Machine = new_machine(
            costs, delivery, pair, no_store(2), count, keep_log, runs=1
        )
        give_script(self.machine, [Run(sender=0, destination=1, payload=payload, count=count)])
        written = (self.machine.log, self.machine.messages, self.machine.costs)
        arrays = [each for each in arrays_of(self.machine) if all(each is not w for w in written)]
        first = [each.copy() for each in arrays]
        self.loop = EventLoop(self.machine, pair)
        self.changed: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.run(costs)
        self.changed = [
            (each, was) for each, was in zip(arrays, first, strict=True) if (each != was).any()
        ]

    def run(self, costs: Sequence[Costs]) -> Machine:
        """The machine after the stream with ``costs`` of its two nodes."""
        for each, was in self.changed:
            each[...] = was
        for name in DELIVERY_COSTS:
            self.machine.costs[name][:2] = [each[name] for each in costs]
        self.loop.look()
        while self.loop.fire(0, most := self.loop.portion()) == most:
            pass
        return self.machine


def arrays_of(state: Any) -> Iterator[NDArray[Any]]:
    """Every array of ``state`` that has something in it and may be written."""
    for each in state:
        if not isinstance(each, np.ndarray):
            yield from () if each is None else arrays_of(each)
        elif each.size and each.flags.writeable:
            yield each


kept = cache(Kept)


@lru_cache(maxsize=_REMEMBERED)
def _measure(ends: _Ends, anchor: Anchor) -> float:
    if anchor.half == "event":
        return _events(ends)[anchor.name]
    pair: Sequence[Costs] = [dict(each) for each in ends]
    asked = anchor.policy, anchor.payload
    if anchor.unit == "us":
        message = kept(*asked, 1, False, 0).run(pair).messages[0]
        return float(message["read"] - message["posted"]) / PS_PER_US
    read = kept(*asked, STREAM, False, 0).run(pair).messages["read"]
    return steady_mbytes_s(read, anchor.payload)


@lru_cache(maxsize=_REMEMBERED)
def _events(ends: _Ends) -> dict[str, float]:
    """What Figure 4 prints of the cold start, drawn with the log; a transfer that is not is 0."""
    pair = [dict(each) for each in ends]
    machine = kept("adaptive", PAYLOAD, MESSAGES, True, LOGGED).run(pair)
    small = kept("store-and-forward", SMALL, 1, False, LOGGED).run(pair)
    log = small.log[: small.tally[0]["log"]]
    (moved,) = log[log["engine"] == Engine.HOST_RCV]
    found = ColdStart(
        machine.log[: machine.tally[0]["log"]], float(moved["end"] - moved["start"]) / PS_PER_US
    )
    told = found.events() | {"lost_to_gaps": 100 * found.lost_to_gaps()}
    for engine in (Engine.NET_TX, Engine.HOST_RCV):
        transfers = found.of(engine, 1)
        rates = transfers["bytes"] * PS_PER_US / (transfers["end"] - transfers["start"])
        for place in range(8):
            there = place < len(transfers)
            name = f"{engine.name.lower()}[{place + 1}]"
            told[name] = float(transfers["bytes"][place]) if there else 0.0
            told[f"rate of {name}"] = float(rates[place]) if there else 0.0
    return told


@cache
def anchors() -> tuple[Anchor, ...]:
    """Table 1, Figure 4's events, the bus with the log, and the headline's bandwidth."""
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
    found += _printed_events()
    best = paper["headline"].printed["bandwidth_mbytes_s_pentium2"]
    found.append(
        _anchor("adaptive_64k", "MB/s", "pentium2-440lx", best, half="beyond", policy="adaptive")
    )
    return tuple(found)


def _printed_events() -> list[Anchor]:
    paper = load_paper("trapeze").items
    events = paper["figure4"].printed
    slow, fast = events["net_tx_mbytes_s"]
    lost = paper["figure5"].printed["lost_to_gaps_percent"]
    told = [
        ("host_tx_first", "us", events["host_tx_first_us"], EVENT_SLACK_US),
        ("host_tx_second", "us", events["host_tx_second_us"], EVENT_SLACK_US),
        ("host_rcv_368", "us", events["host_rcv_first_us"], EVENT_SLACK_US),
        ("rate of net_tx[1]", "MB/s", slow, 0.01 * slow),
        ("rate of net_tx[3]", "MB/s", fast, 0.01 * fast),
        ("lost_to_gaps", "%", lost, LOST_SLACK),
    ]
    for engine in ("net_tx", "host_rcv"):
        told += [
            (f"{engine}[{place}]", "bytes", size, SIZE_SLACK)
            for place, size in enumerate(events[f"{engine}_bytes"], 1)
        ]
    return [
        Anchor(name, unit, EVENT_HOST, value, slack, "event") for name, unit, value, slack in told
    ]


def _anchor(name: str, unit: str, pair: str, value: int, *, half: str, policy: str = "") -> Anchor:
    """An anchor; its slack is 1 %, or what the print leaves open if that is more."""
    payload = SIZES.get(half, LONGEST_PAYLOAD)
    return Anchor(name, unit, pair, float(value), max(0.01 * value, 0.5), half, policy, payload)


# Bounds of rates (ps per byte), from the paper's section 2.
BUS = 7576  # 132 MB/s, the peak of its fastest bus
PEAK_120 = 8333  # 120 MB/s, the peak of its slowest
OVER_120 = 8270  # start included, 64 KB pass 120 MB/s, as Figure 1 shows
REGISTERS = 120_000  # four clocks of 33 MHz: a transfer is started by storing to registers
STEP_PS = 10_000  # times in the catalog are rounded to this
STEP_PS_PER_BYTE = 5

SMALL_PS = 7_000_000  # a hostRcv of SMALL bytes on P6/Natoma (Trapeze, 3.4)
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
    Constant("firmware_accept", ("firmware_accept",), PLATFORMS, 0, 8_000_000),
    Constant("firmware_log", ("firmware_log",), PLATFORMS, 0, 4_000_000),
    Constant("link_start", ("link_start",), PLATFORMS, REGISTERS, 6_000_000),
    Constant("nic_memory_per_byte", ("nic_memory_per_byte",), PLATFORMS, 3_000, 4_500),
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
    small = SMALL * built["p6-natoma"]["pci_write_per_byte"]
    for name, costs in built.items():
        costs["pci_write_start"] = _to_step(SMALL_PS - small, STEP_PS)
        costs["pci_write_contended_per_byte"] = natoma  # PIO holds the bus on every bridge
        if name == "alcor":  # CIA starves the CPU
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"]
        elif name != "p6-natoma":  # 440LX and Pyxis nearly serve both
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"] * 11 // 10
    built["p6-natoma"]["block_copy_contended_per_byte"] = natoma  # Natoma shares evenly
    built["miata"]["pci_read_per_byte"] = built["alcor"]["pci_read_per_byte"]
    built["miata"]["pci_read_contended_per_byte"] = built["miata"]["pci_read_per_byte"] * 11 // 10


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
    chosen = [anchor for anchor in anchors() if anchor.fitted_by(half)]
    fixed = platform_costs()
    low = np.array([each.low for each in CONSTANTS], dtype=float)
    high = np.array([each.high for each in CONSTANTS], dtype=float)

    def squares(share: NDArray[Any]) -> NDArray[Any]:
        costs = build_costs(list(low + share * (high - low)), fixed)
        errors = [(each.measured(costs) - each.published) / each.slack for each in chosen]
        return np.array(errors) ** 2

    def softened(share: NDArray[Any]) -> float:
        return float((SOFT**2 * np.log1p(squares(share) / SOFT**2)).sum())

    random = np.random.default_rng(seed)
    searches = starts + min(POLISHED, starts)
    found: list[tuple[float, list[float]]] = []
    for _ in range(starts):
        begin = random.random(len(CONSTANTS))
        _, near = search(softened, begin, WIDE, ROUNDS[0], random)
        value, end = search(
            lambda share: float(squares(share).sum()), near, NARROW, ROUNDS[1], random
        )
        found.append((value, list(low + end * (high - low))))
        tell(len(found), searches)
    best: list[list[int]] = []
    for _, values in sorted(found)[:POLISHED]:
        best.append(polish(rounded(values), half))
        tell(starts + len(best), searches)
    return min(best, key=lambda values: misfit(values, half))


def search(
    value: Callable[[NDArray[Any]], float],
    begin: NDArray[Any],
    width: float,
    rounds: int,
    random: np.random.Generator,
) -> tuple[float, NDArray[Any]]:
    """The least ``value`` found, and where, between 0 and 1: an evolution strategy (CMA-ES).

    Sizes of transfers leap, so no derivative leads anywhere.  Source: Hansen, The CMA Evolution
    Strategy: A Tutorial (2016), with its constants.
    """
    n = len(begin)
    born = 4 + 2 * int(3 * np.log(n))
    kept = born // 2
    weights = np.log(kept + 0.5) - np.log(np.arange(1, kept + 1))
    weights /= weights.sum()
    mass = 1 / (weights**2).sum()
    c_path, c_step = (4 + mass / n) / (n + 4 + 2 * mass / n), (mass + 2) / (n + mass + 5)
    c_one = 2 / ((n + 1.3) ** 2 + mass)
    c_rank = min(1 - c_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
    damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + c_step
    usual = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    mean, step = begin.copy(), width
    path, steps, shape = np.zeros(n), np.zeros(n), np.eye(n)
    best = (np.inf, mean)
    for each in range(rounds):
        spread, axes = np.linalg.eigh(shape)
        spread = np.sqrt(np.maximum(spread, 1e-20))
        moves = (random.standard_normal((born, n)) * spread) @ axes.T
        wanted = mean + step * moves
        inside = np.clip(wanted, 0, 1)
        values = np.array([value(one) for one in inside])
        outside = ((wanted - inside) ** 2).sum(axis=1)
        order = np.argsort(values * (1 + 10 * outside) + outside)[:kept]
        if values.min() < best[0]:
            best = (float(values.min()), inside[values.argmin()])
        move = weights @ moves[order]
        mean = mean + step * move
        steps = (1 - c_step) * steps
        steps += np.sqrt(c_step * (2 - c_step) * mass) * (axes @ ((axes.T @ move) / spread))
        length = np.linalg.norm(steps)
        grows = length / np.sqrt(1 - (1 - c_step) ** (2 * each + 2)) / usual < 1.4 + 2 / (n + 1)
        path = (1 - c_path) * path + grows * np.sqrt(c_path * (2 - c_path) * mass) * move
        old = (1 - c_one - c_rank + c_one * (1 - grows) * c_path * (2 - c_path)) * shape
        shape = old + c_one * np.outer(path, path)
        shape += c_rank * (moves[order].T * weights) @ moves[order]
        step *= np.exp(c_step / damping * (length / usual - 1))
    return best


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
    print()
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
