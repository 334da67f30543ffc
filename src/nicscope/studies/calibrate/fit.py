"""Least squares from many starts, then single moves on the catalog's grid.

The objective has steps (transfers are whole bytes) and many dips, so derivatives alone end in
the nearest dip.  The last stage compares whole picoseconds only: what it ends in does not depend on
how a machine rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import StudyError
from nicscope.studies.calibrate.anchors import anchors, checked_half
from nicscope.studies.calibrate.constants import CONSTANTS, build_costs, rounded
from nicscope.studies.delivery_measures import platform_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

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
