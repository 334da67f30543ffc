"""A calibration: the values, and every published number beside what they yield."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.studies.calibrate.anchors import anchors, checked_half, fit_firmware_log, lost_to_gaps
from nicscope.studies.calibrate.fit import CONSTANTS, SEED, build_costs, committed, fit, misfit
from nicscope.studies.delivery_measures import PAIRS, PLATFORMS, pair_costs, platform_costs
from nicscope.studies.reproduce.verdict import load_paper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nicscope.studies.delivery_measures import Costs

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
