"""Least squares over many starts: the objective has steps, since transfers are whole bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import StudyError
from nicscope.studies.calibrate.anchors import anchors, checked_half
from nicscope.studies.calibrate.constants import CONSTANTS, build_costs
from nicscope.studies.delivery_measures import platform_costs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

STARTS = 24
SEED = 1
WIDTH = 5e-3  # of a derivative, as a share of the value: wide enough to see past the steps
ROUNDS = 40  # of one start, at most


def fit(
    half: str = "4k",
    *,
    seed: int = SEED,
    starts: int = STARTS,
    begin_at: NDArray[Any] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[list[float], float]:
    """Values (ps) of ``CONSTANTS`` that meet the anchors of ``half`` best, and their misfit.

    The misfit is the sum of squared errors in units of each anchor's slack.  The starts are
    drawn with ``seed``, or there is one, ``begin_at``.  Errors: ``StudyError`` without scipy.
    """
    least_squares = _optimizer()
    chosen = [anchor for anchor in anchors() if anchor.fitted_by(checked_half(half))]
    fixed = platform_costs()
    low = np.array([each.low for each in CONSTANTS], dtype=float)
    high = np.array([each.high for each in CONSTANTS], dtype=float)

    def misfits(share: NDArray[Any]) -> list[float]:
        costs = build_costs(list(low + share * (high - low)), fixed)
        return [(each.measured(costs) - each.published) / each.slack for each in chosen]

    random = np.random.default_rng(seed)
    places = random.random((starts, len(CONSTANTS)))
    if begin_at is not None:
        places = ((np.asarray(begin_at, dtype=float) - low) / (high - low))[None]
    best: Any = None
    for done, place in enumerate(places):
        found = least_squares(
            misfits,
            np.clip(place, 1e-3, 1 - 1e-3),
            bounds=(0, 1),
            diff_step=WIDTH,
            max_nfev=ROUNDS,
        )
        if best is None or found.cost < best.cost:
            best = found
        progress(done + 1, len(places))
    return list(low + best.x * (high - low)), 2 * float(best.cost)


def _optimizer() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError as absent:
        raise StudyError(
            "calibration needs scipy, which is not installed: pip install 'nicscope[calibrate]'"
        ) from absent
    return least_squares
