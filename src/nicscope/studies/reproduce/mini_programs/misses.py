"""What miNI V.C states of Figure 5: miss ratios of the eight programs in 36 caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nicscope.studies.reproduce.mini_programs.runs import SHAPE, cache_of
from nicscope.studies.reproduce.traced.mini import ALL, CACHE_ENTRIES, PARTS, POINTS, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.traced.measuring import Row
    from nicscope.studies.reproduce.verdict import Outcome

SMALL = ("WaterNsquared", "WaterSpatial", "Ocean", "Raytrace", "Volrend")
LARGE = ("FFT", "LUContiguous", "Radix")
EIGHT = (*SMALL, *LARGE)
MOST = 5  # of the eight
ABOUT_40, AS_FAR_BELOW = 44.0, 36.0  # per 100 lookups
UNDER_2 = 2.5  # which is printed as 2
TWICE = 2.0
C8, C16, C32 = range(3)
L8, L16, L64, L128 = range(4)
A2, A4, A8 = range(3)

# Of each program, as Figure 5 has them.
Rows: TypeAlias = "Mapping[str, Sequence[Row]]"


def figure5(outcome: Outcome, rows: Rows) -> None:
    """Every statement of Figure 5, of the eight programs' rows."""
    all_of = {name: _grid(rows[name], ALL) for name in EIGHT}
    _ranges(outcome, all_of)
    _lines(outcome, all_of)
    _ocean(outcome, _not_cold(rows["Ocean"]))
    _sizes(outcome, all_of)
    _ways(outcome, all_of)


def _grid(rows: Sequence[Row], measure: str) -> NDArray[np.float64]:
    """A measure by size, line and ways."""
    at = {(row["cache_entries"], row["line_entries"], row["ways"]): row[measure] for row in rows}
    return np.array([at[point] for point in POINTS]).reshape(SHAPE)


def _not_cold(rows: Sequence[Row]) -> NDArray[np.float64]:
    parts = [f"{part}_percent" for part in PARTS if part.endswith("noncold")]
    return sum((_grid(rows, part) for part in parts), np.zeros(SHAPE))


def _ranges(outcome: Outcome, ratios: Mapping[str, NDArray[np.float64]]) -> None:
    highest = {name: float(grid.max()) for name, grid in ratios.items()}
    worst = max(highest, key=highest.__getitem__)
    told = f"{worst} {highest[worst]:.1f} % in {cache_of(int(ratios[worst].argmax()))}"
    outcome.shape("nothing-over-40", highest[worst] <= ABOUT_40, told)
    outcome.shape("forty-is-reached", highest[worst] >= AS_FAR_BELOW, told)
    for name in SMALL:
        outcome.shape(
            f"small-{name.lower()}",
            highest[name] < UNDER_2,
            f"{ratios[name].min():.2g} to {highest[name]:.2g} %",
        )
    means = {name: float(grid.mean()) for name, grid in ratios.items()}
    outcome.shape(
        "large-group-misses-more",
        min(means[name] for name in LARGE) > max(means[name] for name in SMALL),
        listed(means, "{:.2g} %"),
    )


def _lines(outcome: Outcome, ratios: Mapping[str, NDArray[np.float64]]) -> None:
    means = {name: grid.mean(axis=(0, 2)) for name, grid in ratios.items()}
    better = [name for name, by_line in means.items() if (np.diff(by_line) < 0).all()]
    outcome.shape(
        "longer-lines-help",
        len(better) >= MOST,
        f"{len(better)} of 8; "
        + "; ".join(
            f"{name} {', '.join(f'{each:.2g}' for each in by_line)} %"
            for name, by_line in means.items()
        ),
    )


def _ocean(outcome: Outcome, not_cold: NDArray[np.float64]) -> None:
    short, long = not_cold[:, L16], not_cold[:, L128]
    told = "; ".join(
        f"C{entries >> 10} {', '.join(f'{a:.2g} to {b:.2g}' for a, b in zip(*pair, strict=True))} %"
        for entries, *pair in zip(CACHE_ENTRIES, short, long, strict=True)
    )
    doubled = long > TWICE * short
    outcome.shape("ocean-conflicts-in-long-lines", bool(doubled[[C8, C16]].all()), told)
    outcome.shape("ocean-is-well-with-32k", not doubled[C32, A4], told)


def _sizes(outcome: Outcome, ratios: Mapping[str, NDArray[np.float64]]) -> None:
    for name, called in (("FFT", "fft"), ("LUContiguous", "lu")):
        half, whole = ratios[name][C16, L128], ratios[name][C32, L128]
        outcome.shape(
            f"{called}-halves-at-32k",
            bool((half > TWICE * whole).all()),
            "; ".join(
                f"A{ways} {a:.3g} to {b:.3g} %"
                for ways, a, b in zip(WAYS, half, whole, strict=True)
            ),
        )
    long = _taken(ratios, lambda grid: (grid[C8, L128, A4], grid[C32, L128, A4]))
    short = _taken(ratios, lambda grid: (grid[C8, L8, A4], grid[C32, L8, A4]))
    outcome.shape(
        "size-matters-with-long-lines",
        long > short,
        f"{100 * long:.0f} % with lines of 128, {100 * short:.0f} % with lines of 8",
    )


def _ways(outcome: Outcome, ratios: Mapping[str, NDArray[np.float64]]) -> None:
    means = {name: grid.mean(axis=(0, 1)) for name, grid in ratios.items()}
    better = [name for name, by_ways in means.items() if by_ways[A4] < by_ways[A2]]
    outcome.shape(
        "four-ways-help",
        len(better) >= MOST,
        f"{len(better)} of 8; "
        + "; ".join(
            f"{name} {', '.join(f'{each:.3g}' for each in by_ways)} %"
            for name, by_ways in means.items()
        ),
    )
    to_4 = _taken(ratios, lambda grid: (grid[:, :, A2], grid[:, :, A4]))
    to_8 = _taken(ratios, lambda grid: (grid[:, :, A4], grid[:, :, A8]))
    outcome.shape(
        "eight-ways-help-less", to_8 < to_4, f"{100 * to_4:.2g} % to 4, {100 * to_8:.2g} % to 8"
    )
    small = _taken(ratios, lambda grid: (grid[C8, :, A2], grid[C8, :, A4]))
    large = _taken(ratios, lambda grid: (grid[C32, :, A2], grid[C32, :, A4]))
    outcome.shape(
        "ways-matter-in-small-caches",
        small > large,
        f"{100 * small:.2g} % of 8 K entries, {100 * large:.2g} % of 32 K",
    )


def _taken(
    ratios: Mapping[str, NDArray[np.float64]],
    ends: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> float:
    """The share of misses that is taken away from one of ``ends`` to the other, on the mean.

    What has none at first takes no part.
    """
    shares = []
    for grid in ratios.values():
        before, after = (np.ravel(end) for end in ends(grid))
        misses = before > 0
        if misses.any():
            shares.append(np.mean(1 - after[misses] / before[misses]))
    return float(np.mean(shares)) if shares else 0.0


def listed(numbers: Mapping[str, float], form: str) -> str:
    """Of each program its number."""
    return ", ".join(f"{name} {form.format(number)}" for name, number in numbers.items())
