"""MiNI's Figures 6 and 7, and what its misses take, from timed runs of the eight programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.mini_programs import penalties, times
from nicscope.studies.reproduce.mini_programs.runs import AXES, programs_of
from nicscope.studies.reproduce.traced.measuring import Axis, Layout, Line, Study

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nicscope.studies.reproduce.mini_programs.runs import Program
    from nicscope.studies.reproduce.traced.measuring import Findings, Row, Shown
    from nicscope.studies.reproduce.verdict import Outcome

CACHES = tuple(map(Axis, AXES, ("C", "L", "A")))
CONDITIONS = (
    "on the platform mini-cluster; C entries, L to a line, A lines to a set; static tables have "
    "64 K entries"
)


def rows(found: Findings) -> list[Row]:
    """One row per cache."""
    assert found.measured.timed is not None
    return found.measured.timed.rows()


def _stated(
    fill: Callable[[Outcome, Mapping[str, Program]], None],
) -> Callable[[Outcome, Shown], None]:
    def state(outcome: Outcome, shown: Shown) -> None:
        if shown.are_the_papers:
            fill(outcome, programs_of(shown.rows))

    return state


FIGURE6 = Study(
    unit="speed-up on eight processors",
    conditions=f"{CONDITIONS}; one processor takes as long as all processes compute together",
    layout=Layout(CACHES, ("cache", "static"), (Line("", ("speed_up", "static_speed_up")),)),
    rows=rows,
    timed=True,
    state=_stated(times.figure6),
)
FIGURE7 = Study(
    unit="% that it takes longer than with static tables",
    conditions=CONDITIONS,
    layout=Layout(CACHES, ("",), (Line("", ("longer_percent",)),)),
    rows=rows,
    timed=True,
    state=_stated(times.figure7),
)
MISS_PENALTY_OF_PROGRAMS = Study(
    unit="us",
    conditions=f"{CONDITIONS}; delay: from the interrupt until the thread runs; then processing",
    layout=Layout(
        CACHES,
        ("mean", "p10", "median", "p90", "most"),
        tuple(
            Line(
                kind,
                tuple(f"{kind}_{name}_us" for name in ("mean", "p10", "p50", "p90", "p100")),
            )
            for kind in ("delay", "processing")
        ),
    ),
    rows=rows,
    timed=True,
    state=_stated(penalties.miss_penalty_of_programs),
)
