"""Programs whose requests become traces: what ``nicscope apps`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import OutputError, StudyError, in_one_line
from nicscope.library.command import number, whole
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.reports.applications import ShownApplication, ShownApplications
    from nicscope.reports.interactive import ShownSession


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

    from nicscope.reports.applications import ShownApplication
    from nicscope.studies.applications import placed, run_application, write_requests

    if out is not None:
        _check_trace(Path(out))
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


def _check_trace(out: Path) -> None:
    """Refuse, before anything runs, what could not be a trace.  Errors: ``OutputError``."""
    from nicscope.outputs import check_output

    is_stream = check_output(out).is_stream
    if out.suffix != ".parquet" and not is_stream:
        raise OutputError(
            f"{out}: a trace in Parquet is written; name it .parquet, and have "
            "'nicscope trace convert' make another of it"
        )


@in_one_line
def record_sockets(
    out: str | Path,
    *,
    users: int = 32,
    seconds: float = 30,
    seed: int = 0,
    receive_pages: int = 64,
) -> ShownSession:
    """Run people's programs and their servers on this machine, and record what their sockets move.

    Args:
        out: the trace (Parquet).
        users: programs that are used by somebody: in turn a shell's, the web's and mail's.
        seconds: how long each user's pauses last in all.
        seed: of what they do, and of their pauses.
        receive_pages: pages that each process posts to receive into.

    Errors: ``NicscopeError`` where programs may not be traced, and if a byte did not arrive.

    """
    from pathlib import Path

    from nicscope.reports.interactive import ShownSession
    from nicscope.studies.interactive import record_session

    _check_trace(Path(out))
    counts = [
        whole(called, count) or 0
        for called, count in (("users", users), ("seed", seed), ("receive_pages", receive_pages))
    ]
    lasting = number("seconds", seconds) or 0.0
    with progress("recording users", "users") as watch:
        found = record_session(Path(out), counts[0], lasting, counts[1], counts[2], watch)
    return ShownSession(found)
