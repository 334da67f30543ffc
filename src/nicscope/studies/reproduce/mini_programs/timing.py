"""One program trace timed with one cache, or with static tables, on miNI's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.mini_programs.runs import (
    DELAY_US,
    PROCESSING_US,
    STATIC_ENTRIES,
    Timed,
    distribution,
)
from nicscope.studies.reproduce.traced.measuring import reduced
from nicscope.studies.reproduce.traced.mini import POINTS, designs
from nicscope.studies.simulating import PS_PER_S, PS_PER_US, choose_runnable

if TYPE_CHECKING:
    from nicscope.drivers.simulate.traced.program import Program
    from nicscope.studies.reproduce.traced.measuring import Spec

PLATFORM = "mini-cluster"
PAGE = 4096
STATIC: Spec = ("vmmc-static", f"entries={STATIC_ENTRIES}")


def specs(reduction: int) -> list[Spec]:
    """Static tables, and each cache of Table III so many times smaller."""
    return [STATIC, *(reduced(designs(PAGE)[point], reduction) for point in POINTS)]


def time_cache(program: Program, spec: Spec) -> Timed:
    """What a run of ``program`` comes to.  Errors: as ``time_design``."""
    from nicscope.studies.timing import time_design

    name, *assignments = spec
    [subject], _ = choose_runnable([name], PLATFORM, assignments)
    found = time_design(program, PAGE, subject, kinds=False)
    total, misses_us = found.total, found.outcome.misses_ps / PS_PER_US
    return Timed(
        found.elapsed_ps / PS_PER_S,
        total["lookups"] or 0,
        total["ni_misses"] or 0,
        distribution(misses_us[:, 0], DELAY_US),
        distribution(misses_us[:, 1], PROCESSING_US),
    )
