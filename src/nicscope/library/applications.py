"""Parallel programs on shared memory: what ``nicscope apps run`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import OutputError, StudyError, in_one_line
from nicscope.library.command import whole
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.reports.applications import ShownApplication, ShownApplications


def app_names() -> list[str]:
    """The programs that ``run_app`` runs."""
    from nicscope.studies.applications import APPLICATIONS

    return list(APPLICATIONS)


def apps() -> ShownApplications:
    """The programs that ``run_app`` runs, and their sizes."""
    from nicscope.reports.applications import ShownApplications
    from nicscope.studies.applications import APPLICATIONS

    return ShownApplications(APPLICATIONS)


@in_one_line
def run_app(
    name: str,
    size: str | int | None = None,
    *,
    nodes: int = 4,
    processes: int = 4,
    private: bool = False,
    seed: int = 0,
    out: str | Path | None = None,
    with_initial: bool = False,
) -> ShownApplication:
    """Run a parallel program on shared virtual memory, check its result, and keep its requests.

    Args:
        name: fft, lu, radix, ocean, barnes, water-nsquared, water-spatial, raytrace or volrend.
        size: how much it computes, such as ``"4M"``; None: a small one.
        nodes: machines.
        processes: of each.
        private: every process has copies of pages of its own; else those of a node share theirs.
        seed: of its input.
        out: a trace (Parquet) of what it asked of network interfaces; None: none.
        with_initial: the trace also holds the first distribution of data.

    Errors: ``NicscopeError`` for what cannot run, and if the result is wrong.

    """
    from pathlib import Path

    from nicscope.outputs import check_output
    from nicscope.reports.applications import ShownApplication
    from nicscope.studies.applications import placed, run_application, write_requests

    if out is not None:  # refused before anything runs
        is_stream = check_output(Path(out)).is_stream
        if Path(out).suffix != ".parquet" and not is_stream:
            raise OutputError(
                f"{out}: a trace in Parquet is written; name it .parquet, and have "
                "'nicscope trace convert' make another of it"
            )
    for called, count, least in (
        ("nodes", nodes, 1),
        ("processes", processes, 1),
        ("seed", seed, 0),
    ):
        if (whole(called, count) or 0) < least:
            raise StudyError(f"{called} must be at least {least}, got {count}")
    placement = placed(nodes, processes, private=private)
    with progress(f"running {name}", "phases") as watch:
        found = run_application(name, size, placement, seed, watch)
    if out is not None:
        write_requests(found, Path(out), with_initial=with_initial)
    return ShownApplication(found)
