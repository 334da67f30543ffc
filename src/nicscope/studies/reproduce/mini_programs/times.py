"""What miNI V.C states of Figures 6 and 7: speed-ups, and execution times beside static tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.studies.reproduce.mini_programs.misses import LARGE, SMALL, listed
from nicscope.studies.reproduce.mini_programs.runs import cache_of
from nicscope.studies.reproduce.traced.mini import POINTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.mini_programs.runs import Program
    from nicscope.studies.reproduce.verdict import Outcome

OVER_100_PERCENT = 2.0
CLOSE, CLOSE_OF_FEW = -0.8, -0.5
SIMILAR = 5.0  # percent longer
OF_THE_BEST = 0.9
BOUND = 3.0  # percent longer
EXCEPTION = "Radix"
BEST = (16384, 64, 4)
LARGEST = 16384  # entries of the caches beside which it is best
NEAR = 1.02


def figure6(outcome: Outcome, programs: Mapping[str, Program]) -> None:
    """Every statement of Figure 6, of the eight programs' runs."""
    for name in LARGE:
        ups = programs[name].speed_ups
        outcome.shape(
            f"{name.lower()}-varies",
            bool(ups.max() > OVER_100_PERCENT * ups.min()),
            f"{ups.min():.2f} in {cache_of(int(ups.argmin()))} to {ups.max():.2f} in "
            f"{cache_of(int(ups.argmax()))}",
        )
    _follows(outcome, programs)
    changes = {name: _changes(programs[name].speed_ups) for name in LARGE}
    outcome.shape(
        "line-matters-most",
        all(line > max(size, ways) for size, line, ways in changes.values()),
        "; ".join(
            f"{name} by size {size:.2f}, line {line:.2f}, ways {ways:.2f}"
            for name, (size, line, ways) in changes.items()
        ),
    )
    for name in SMALL:
        longer = float(programs[name].overheads[0].min())
        outcome.shape(
            f"{name.lower()}-is-content-with-8k", longer <= SIMILAR, f"{longer:+.2f} % of time"
        )
    shares = {
        name: float(np.median(programs[name].speed_ups) / programs[name].speed_ups.max())
        for name in SMALL
    }
    outcome.shape(
        "the-rest-is-not-sensitive",
        min(shares.values()) >= OF_THE_BEST,
        listed({name: 100 * share for name, share in shares.items()}, "{:.1f} % of the best"),
    )


def _follows(outcome: Outcome, programs: Mapping[str, Program]) -> None:
    found = {
        name: rank_correlation(one.grid(lambda run: run.missing), one.speed_ups)
        for name, one in programs.items()
    }
    for shape, names, close in (
        ("speedup-follows-misses", LARGE, CLOSE),
        ("speedup-follows-few-misses", SMALL, CLOSE_OF_FEW),
    ):
        own = {name: found[name] for name in names}
        outcome.shape(shape, max(own.values()) <= close, listed(own, "{:.2f}"))


def _changes(ups: NDArray[np.float64]) -> tuple[float, float, float]:
    """From the lowest to the highest mean by size, by line and by ways."""
    by_size, by_line, by_ways = (
        float(np.ptp(ups.mean(axis=others))) for others in ((1, 2), (0, 2), (0, 1))
    )
    return by_size, by_line, by_ways


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Spearman's, those that are equal having their mean rank; 0 where one of both is constant."""
    one, other = _ranks(first.ravel()), _ranks(second.ravel())
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each value, counting from 0."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[which]


def figure7(outcome: Outcome, programs: Mapping[str, Program]) -> None:
    """Every statement of Figure 7, of the eight programs' runs."""
    longer = {name: one.overheads for name, one in programs.items()}
    least = {name: float(each.min()) for name, each in longer.items()}
    told = {
        name: f"{least[name]:+.2f} % in {cache_of(int(each.argmin()))}"
        for name, each in longer.items()
    }
    for name in (*SMALL, *LARGE):
        if name == EXCEPTION:
            outcome.shape("radix-is-the-exception", least[name] > BOUND, told[name])
        else:
            outcome.shape(f"{name.lower()}-within-3", least[name] <= BOUND, told[name])
    outcome.shape("some-are-faster", min(least.values()) < 0, listed(least, "{:+.2f} %"))
    means = np.mean([each.ravel() for each in longer.values()], axis=0) / 100 + 1
    small = [place for place, point in enumerate(POINTS) if point[0] <= LARGEST]
    smallest = min(small, key=means.__getitem__)
    ours = means[POINTS.index(BEST)]
    outcome.shape(
        "c16-l64-a4-is-best",
        bool(ours <= NEAR * means[smallest]),
        f"{ours:.3f} of the time with static tables; {means[smallest]:.3f} in {cache_of(smallest)}",
    )
