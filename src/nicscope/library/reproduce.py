"""The papers' numbers beside what comes out: what ``nicscope reproduce`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import TraceError, in_one_line
from nicscope.library.command import several
from nicscope.library.progress import progress
from nicscope.library.traces import trace_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.studies.reproduce.harness import Plan
    from nicscope.studies.reproduce.keeping import Kept


@in_one_line
def reproduce(
    wanted: str | Sequence[str] | None = None,
    *,
    traces: str | Path | Sequence[str | Path] | None = None,
    programs: str = "small",
    kept: Kept | None = None,
) -> ShownReproduction:
    """What the papers published beside what nicscope finds.

    Args:
        wanted: ``"PAPER"`` or ``"PAPER/ID"``, one or several; None: everything.
        traces: for the tables of programs: folders, files or ``bundled:NAME``, instead of the
            papers' programs.
        programs: the sizes of these: ``"small"``, ``"paper"``, or ``"none"``: they are not run.
        kept: results that an earlier run has kept, to which this one adds its own.

    Errors: ``NicscopeError`` for a name that does not exist, a trace that cannot be read, or a
    program that does not fit into memory.

    """
    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.studies.reproduce import harness

    todo, files, public = check(wanted, traces=traces, programs=programs)
    names, given = several(wanted), several(traces)
    with progress("reproducing", "items") as watch:
        count = Count(watch, len(todo.items))
        found = harness.reproduce(
            names,
            progress=count,
            traced=bool(given),
            kept=kept,
            programs=programs,
            public=public,
        )
    if todo.studies and (files or not given):
        harness.study(found, names, files, telling=progress, kept=kept, programs=programs)
    wording = [*names, *(part for one in given for part in ("--trace", str(one)))]
    if programs != "small":
        wording += ["--programs", programs]
    return ShownReproduction(found, wording)


def check(
    wanted: str | Sequence[str] | None = None,
    *,
    traces: str | Path | Sequence[str | Path] | None = None,
    programs: str = "small",
) -> tuple[Plan, list[Path], dict[str, Path]]:
    """Check the arguments: the plan, the trace files, and public traces by name.

    Errors: as ``reproduce``, but nothing is run.
    """
    from nicscope.studies.reproduce import harness
    from nicscope.studies.reproduce.public_traces import parted
    from nicscope.studies.reproduce.traced.programs import trace_files

    given, papers = several(traces), harness.load_papers()
    todo = harness.plan(papers, several(wanted), bool(given), programs)
    files = [file for one in given for file in trace_files(trace_path(str(one)))]
    public, others = parted(files, papers.values())
    if others and not todo.studies:
        items = ", ".join("/".join(one) for one in todo.items)
        raise TraceError(f"{others[0]}: is none of the public traces that {items} are of")
    return todo, others, public


class Count:
    """Counts items begun, for a watch of items done."""

    def __init__(self, watch: Callable[[int, int], Any], total: int) -> None:
        self._watch = watch
        self._total = total
        self._done = 0

    def __call__(self, name: str) -> None:  # noqa: ARG002 - how many, not which
        """Begin the next item, ``name``."""
        self._watch(self._done, max(self._total, self._done))
        self._done += 1
