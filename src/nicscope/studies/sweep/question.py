"""What a user asks of a sweep, checked before any trace is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nicscope.config.design import load_design
from nicscope.config.platform import load_platform
from nicscope.errors import StudyError
from nicscope.studies.sweep.grid import PLATFORM, make_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.sweep.grid import Grid

MOST_WORKERS = 1024


def ask(design: str, platform: str | None, assignments: Sequence[str], *, many: bool) -> Grid:
    """The grid of variations of ``design``, priced on ``platform`` or else the design's own.

    ``many`` allows a million points and more.  Errors: as ``make_grid``, and for a design or
    platform that does not exist.
    """
    base = load_design(design)
    if platform is not None and any(key.partition("=")[0] == PLATFORM for key in assignments):
        raise StudyError("--platform and --grid platform=...: give one of them")
    name = platform or base.platform
    return make_grid(base, None if name is None else load_platform(name), assignments, many=many)


def worker_count(workers: int | None, scheduler: str | None) -> int:
    """How many threads to count on; without a number, as many as there are processors for us.

    Errors: ``StudyError`` for fewer than 1, too many, or a number beside a scheduler.
    """
    if workers is None:
        return len(os.sched_getaffinity(0))
    if scheduler is not None:
        raise StudyError(
            "--workers are threads of this machine; a cluster has its own, so leave it out"
        )
    if not 1 <= workers <= MOST_WORKERS:
        raise StudyError(f"--workers must be from 1 to {MOST_WORKERS}, got {workers}")
    return workers
