"""Fit the constants of delivery to the Trapeze paper's numbers, and say what is left.

A constant may stand for several costs, on several platforms: the fewer, the more is predicted.
Everything else (published, derived, assumed) is taken from the catalog as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.shelf import open_shelf
from nicscope.errors import StudyError
from nicscope.studies.calibrate.anchors import (
    SMALL,
    anchors,
    checked_half,
    fit_firmware_log,
    lost_to_gaps,
)
from nicscope.studies.delivery_measures import PAIRS, PLATFORMS, pair_costs, platform_costs
from nicscope.studies.reproduce.verdict import load_paper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.delivery_measures import Costs

STARTS = 32
SEED = 1
WIDTH = 5e-3  # of a derivative, as a share of the range: wide enough to see past the steps
ROUNDS = 40  # of one start, at most
POLISHED = 6  # of the starts, the best
STRIDES = (64, 16, 4, 1)  # steps of the catalog's grid
BETTER = 1e-9  # less of a gain is none


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
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[int]:
    """Values (ps) of ``CONSTANTS``, on the catalog's grid, that meet the anchors of ``half`` best.

    Errors: ``StudyError`` without scipy.
    """
    checked_half(half)
    least_squares = _optimizer()
    chosen = [anchor for anchor in anchors() if anchor.fitted_by(half)]
    fixed = platform_costs()
    low = np.array([each.low for each in CONSTANTS], dtype=float)
    high = np.array([each.high for each in CONSTANTS], dtype=float)

    def errors(share: NDArray[Any]) -> list[float]:
        costs = build_costs(list(low + share * (high - low)), fixed)
        return [(each.measured(costs) - each.published) / each.slack for each in chosen]

    random = np.random.default_rng(seed)
    found = []
    for done in range(starts):
        begin = 1e-3 + (1 - 2e-3) * random.random(len(CONSTANTS))
        end = least_squares(errors, begin, bounds=(0, 1), diff_step=WIDTH, max_nfev=ROUNDS)
        found.append((float(end.cost), list(low + end.x * (high - low))))
        progress(done + 1, starts + POLISHED)
    best = []
    for done, (_, values) in enumerate(sorted(found)[:POLISHED]):
        best.append(polish(rounded(values), half))
        progress(starts + done + 1, starts + POLISHED)
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


def _optimizer() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError as absent:
        raise StudyError(
            "calibration needs scipy, which is not installed: pip install 'nicscope[calibrate]'"
        ) from absent
    return least_squares


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


class Constant(msgspec.Struct, frozen=True):
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
    Constant("pentium2 both", ("pci_read_per_byte", "pci_write_per_byte"), P2, BUS, OVER_120),
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


def committed() -> list[int]:
    """The catalog's values of ``CONSTANTS`` (ps)."""
    costs = platform_costs()
    return [costs[each.platforms[0]][each.costs[0]] for each in CONSTANTS]


def together() -> list[int]:
    """The values (ps) fitted to all of Table 1, which the catalog keeps apart from its platforms.

    Errors: ``StudyError`` if the file does not have every constant.
    """
    _, called, content = open_shelf("calibrations", "trapeze-all", StudyError)
    values = content.get("ps", {})
    names = [each.name for each in CONSTANTS]
    if sorted(values) != sorted(names):
        raise StudyError(f"{called}: [ps] must have {', '.join(names)} and no more")
    return [values[name] for name in names]


def all_together() -> dict[str, Costs]:
    """Costs of each platform with the constants that ``together`` gives."""
    return build_costs(together(), platform_costs())


def rounded(values: Sequence[float]) -> list[int]:
    """``values`` as the catalog would hold them."""
    return [_to_step(value, each.step) for each, value in zip(CONSTANTS, values, strict=True)]


def _to_step(value: float, step: int) -> int:
    return round(value / step) * step


LOG_PAIR = "p6-natoma"  # on which logging was measured
LOG_COST = "firmware_log"


class Value(msgspec.Struct, frozen=True):
    """A constant, the costs that it stands for, and what the catalog holds of it."""

    name: str
    costs: list[str]
    platforms: list[str]
    fitted_ps: int
    catalog_ps: int | None  # None if the catalog holds the other half's
    low_ps: int
    high_ps: int


class Residual(msgspec.Struct, frozen=True):
    """A published number beside the simulator's; ``error`` is a share of the published one."""

    name: str
    unit: str
    pair: str
    published: float
    measured: float
    error: float
    fitted: bool  # else predicted


class Calibration(msgspec.Struct, frozen=True):
    """One half's calibration."""

    half: str
    seed: int
    misfit: float
    values: list[Value]
    residuals: list[Residual]

    def mean(self, *, fitted: bool) -> float:
        """Mean absolute error of the fitted or of the predicted numbers; 0 if there are none."""
        errors = [abs(each.error) for each in self.residuals if each.fitted == fitted]
        return sum(errors) / len(errors) if errors else 0.0

    def worst(self, *, fitted: bool) -> float:
        """Largest absolute error of them; 0 if there are none."""
        return max((abs(e.error) for e in self.residuals if e.fitted == fitted), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def calibrate(
    half: str = "4k",
    platforms: Sequence[str] = PLATFORMS,
    *,
    seed: int = SEED,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Calibration:
    """Fit the constants to the anchors of ``half``; report what concerns ``platforms``.

    The NIC's constants are the same on all platforms, so all are always fitted together.
    Errors: ``StudyError`` for an unknown half, or without scipy.
    """
    checked_half(half)
    found = fit(half, seed=seed, progress=progress)
    costs = build_costs(found, platform_costs())
    ends = pair_costs(costs, LOG_PAIR)
    share = load_paper("trapeze").items["figure5"].printed["lost_to_gaps_percent"] / 100
    logging = fit_firmware_log(ends, share)
    logged = [{**end, LOG_COST: logging} for end in ends]
    gaps = Residual(
        name="lost_to_gaps",
        unit="%",
        pair=LOG_PAIR,
        published=100 * share,
        measured=100 * lost_to_gaps(logged),
        error=lost_to_gaps(logged) / share - 1,
        fitted=True,
    )
    return Calibration(
        half=half,
        seed=seed,
        misfit=misfit(found, half),
        values=_values(half, found, logging, platforms),
        residuals=_chosen([*residuals(costs, half), gaps], platforms),
    )


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


def _chosen(found: Iterable[Residual], platforms: Sequence[str]) -> list[Residual]:
    return [each for each in found if set(PAIRS[each.pair]) <= set(platforms)]


def _values(half: str, found: Sequence[int], logging: int, platforms: Sequence[str]) -> list[Value]:
    held = committed()
    catalog = platform_costs()
    values = [
        Value(
            name=constant.name,
            costs=list(constant.costs),
            platforms=list(constant.platforms),
            fitted_ps=value,
            catalog_ps=held[place] if half == "4k" else None,
            low_ps=constant.low,
            high_ps=constant.high,
        )
        for place, (constant, value) in enumerate(zip(CONSTANTS, found, strict=True))
        if set(constant.platforms) & set(platforms)
    ]
    in_catalog = catalog[LOG_PAIR][LOG_COST] if half == "4k" else None
    values.append(Value(LOG_COST, [LOG_COST], list(PLATFORMS), logging, in_catalog, 0, 4_000_000))
    return values
