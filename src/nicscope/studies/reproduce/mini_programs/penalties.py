"""What miNI V.C states of delay and processing of misses, in the eight programs' runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.studies.reproduce.mini_programs.misses import listed
from nicscope.studies.reproduce.mini_programs.times import BEST
from nicscope.studies.reproduce.traced.mini import POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nicscope.studies.reproduce.mini_programs.runs import Distribution, Program, Timed
    from nicscope.studies.reproduce.verdict import Outcome

USUALLY = 0.9
DELAYS_APART, PROCESSINGS_APART = 0.1, 0.25  # from their middle
DIFFER = 1.1


def miss_penalty_of_programs(outcome: Outcome, programs: Mapping[str, Program]) -> None:
    """Every statement of delay and processing, of the eight programs' runs."""
    delays = {name: _share(one, lambda run: run.delays) for name, one in programs.items()}
    outcome.shape(
        "delay-is-usually-under-50",
        min(delays.values()) >= USUALLY,
        listed({name: 100 * share for name, share in delays.items()}, "{:.1f} %"),
    )
    within = {name: _share(one, lambda run: run.processings) for name, one in programs.items()}
    outcome.shape(
        "processing-within-5-to-500",
        min(within.values()) == 1,
        "; ".join(_span(name, one) for name, one in programs.items()),
    )
    for shape, of, apart in (
        ("delay-whatever-the-cache", lambda run: run.delays, DELAYS_APART),
        ("processing-whatever-the-cache", lambda run: run.processings, PROCESSINGS_APART),
    ):
        off = {name: _apart(one, of) for name, one in programs.items()}
        outcome.shape(
            shape,
            max(off.values()) <= apart,
            listed({name: 100 * each for name, each in off.items()}, "to {:.0f} %"),
        )
    _differ(outcome, programs)


def _share(program: Program, of: Callable[[Timed], Distribution]) -> float:
    """Of all misses of its caches, how many lie in the printed range; all of none."""
    found = [of(run) for run in program.caches]
    many = sum(one.many for one in found)
    return sum(one.in_range for one in found) / many if many else 1.0


def _span(name: str, program: Program) -> str:
    ends = [run.processings.percentiles for run in program.caches]
    lowest = [each[0] for each in ends if each[0] is not None]
    highest = [each[-1] for each in ends if each[-1] is not None]
    if not lowest:
        return f"{name} no misses"
    return f"{name} {min(lowest):.1f} to {max(highest):.1f} us"


def _apart(program: Program, of: Callable[[Timed], Distribution]) -> float:
    """How far the mean of a cache is at most from the middle of all means, as a share of it."""
    means = np.array([of(run).mean for run in program.caches if of(run).many])
    if not len(means):
        return 0.0
    middle = (means.min() + means.max()) / 2
    return float((means.max() - middle) / middle) if middle else 0.0


def _differ(outcome: Outcome, programs: Mapping[str, Program]) -> None:
    best = {name: one.caches[POINTS.index(BEST)] for name, one in programs.items()}
    means = {
        name: run.delays.mean + run.processings.mean for name, run in best.items() if run.misses
    }
    outcome.shape(
        "programs-differ",
        bool(means) and max(means.values()) >= DIFFER * min(means.values()),
        listed(means, "{:.1f} us"),
    )
