"""The papers' numbers beside what comes out: what ``nicscope reproduce`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.errors import TraceError
from nicscope.library.command import Option, Text, Values, command, each_given, several
from nicscope.library.progress import progress
from nicscope.library.traces import trace_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.studies.reproduce.harness import Plan
    from nicscope.studies.reproduce.keeping import Kept


@command(
    "nicscope reproduce utlb/table6 unet_mm --out results",
    "nicscope reproduce utlb/table4 --trace traces",
    "nicscope reproduce today --trace FAST25-release/traces",
    out="Folder for results.json, results.md, and tables and figures.",
)
def reproduce(
    repeat: list[str],
    /,
    wanted: Annotated[
        Values,
        Option(
            "PAPER[/ID]",
            "Paper or item to reproduce. Default: all.",
            read=each_given,
            is_argument=True,
            is_repeated=True,
        ),
    ] = None,
    *,
    traces: Annotated[
        Values,
        Option(
            "DIR",
            "Traces for the tables of programs, each file a program, instead of the papers' "
            "programs; for today the public traces that its items are of; may be repeated.",
            ("--trace",),
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    programs: Annotated[
        Text,
        Option(
            "SIZES",
            "Sizes of the papers' programs, which are run for their tables: small, paper (minutes, "
            "the first time), or none.",
            offers="programs",
        ),
    ] = "small",
    kept: Kept | None = None,
) -> ShownReproduction:
    """Compare what five papers printed with what comes out here.

    Exit status 1 if a number or statement misses that is not listed as a known miss, or if one
    that is listed misses no more.
    """
    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.studies.reproduce import harness

    todo, files, public = check(wanted, traces=traces, programs=programs)
    with progress("reproducing", "items") as watch:
        count = Count(watch, len(todo.items))
        found = harness.reproduce(
            wanted,
            progress=count,
            traced=bool(traces),
            kept=kept,
            programs=programs,
            public=public,
        )
    if todo.studies and (files or not traces):
        harness.study(found, wanted, files, telling=progress, kept=kept, programs=programs)
    return ShownReproduction(found, repeat[2:])


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
    from nicscope.studies.reproduce.traced.programs import trace_files

    given, papers = several(traces), harness.load_papers()
    todo = harness.plan(papers, several(wanted), bool(given), programs)
    files = [file for one in given for file in trace_files(trace_path(str(one)))]
    public, others = harness.parted(files, papers.values())
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
